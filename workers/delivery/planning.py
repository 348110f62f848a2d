"""The first stage of a run: pull, find what changed, and plan the files that are worked on.

Files whose imports mean something else since the last commit are planned too, though their content
is the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import structlog
from celery import Task
from celery.exceptions import Reject
from kombu.exceptions import OperationalError

from codelode import jobs
from codelode.errors import CodelodeError, NotFound, Unavailable
from codelode.ledger import FileManifest, WorkItem
from codelode.model import EdgeKind, RefName, RepositoryName, Revision, RunId, RunState
from codelode.ports import PublishedPackages
from workers.delivery.app import app
from workers.delivery.batcher import Turn, only_once
from workers.delivery.dispatch import backoff, existing, operators_queries, publish, send_pull
from workers.enrich import first_wanted
from workers.parse import PARSER_VERSION, imports, own_queries
from workers.pull import RULES_VERSION, Leaving, prepare, recently_changed
from workers.services import identity, services, settings

log = structlog.get_logger("workers")

#: A run waits so long before it looks again whether its repository has left, seconds.
LATER_S = 2.0

#: How often a pull is tried again when its remote or a server is away.
MAX_RETRIES = 4


@app.task(name=jobs.PULL_TASK, bind=True, max_retries=MAX_RETRIES)
def pull_run(self: Task, run: str) -> None:
    """Bring the mirror up to date, find what changed, open the run."""
    with only_once((jobs.PULL, run)) as turn:
        if turn is not Turn.MINE:
            return
        try:
            _pull(RunId(run))
        except Leaving as exc:  # which takes as long as there is much of it, and is no failure
            log.info("pull_waits", run=run, reason=str(exc))
            _pull_again(RunId(run), in_s=LATER_S, retries=self.request.retries, reason=str(exc))
        except Unavailable as exc:
            retries = self.request.retries
            if retries < MAX_RETRIES:
                log.warning("pull_put_off", run=run, reason=str(exc))
                in_s = backoff(retries)
                _pull_again(RunId(run), in_s=in_s, retries=retries + 1, reason=str(exc))
            else:
                _end(RunId(run), str(exc))
        except CodelodeError as exc:
            _end(RunId(run), str(exc))
        except Exception as exc:
            log.exception("pull_failed", run=run)
            _end(RunId(run), f"{type(exc).__name__}: {exc}")


def _pull_again(run: RunId, *, in_s: float, retries: int, reason: str) -> None:
    """Leave the pull to whichever worker gets its next message.

    Raises Reject when the ledger or the broker is away: then this message comes back.
    """
    try:
        services().ledger.unclaim(run, worker=identity(), for_s=in_s, reason=reason)
        send_pull(run, countdown=in_s, retries=retries)
    except NotFound:
        log.info("pull_dropped", run=run, reason="its repository was removed")
    except (Unavailable, OperationalError) as exc:
        raise Reject(str(exc), requeue=True) from exc


def _pull(run: RunId) -> None:
    ledger = services().ledger
    if not ledger.claim(run, worker=identity()):
        return
    asked = existing(run)
    prepared = prepare(
        asked,
        ledger=ledger,
        mirrors=services().mirrors,
        fingerprint=_fingerprint(),
        max_file_bytes=settings.max_file_bytes,
    )
    repository, manifest = asked.repository, prepared.manifest
    if settings.language_model != "none":
        manifest = replace(manifest, items=_first_wanted(manifest, repository))
    manifest, layout = _with_dependents(manifest, prepared.ref, repository)
    advance = ledger.plan(run, manifest, ref=prepared.ref, fingerprint=_fingerprint())
    log.info(
        "run_planned",
        run=run,
        revision=manifest.revision,
        files=len(manifest.items),
        skipped=len(manifest.skipped),
    )
    if layout is not None:
        _announce(repository, layout, layout.fingerprints())
    publish(run, advance)


def _first_wanted(manifest: FileManifest, repository: RepositoryName) -> tuple[WorkItem, ...]:
    """The files in the order in which the language model should see them.

    In a first run none counts as central here, for importers are known of stored files alone; its
    later batches know of those that were stored before them.
    """
    paths = [item.path for item in manifest.items]
    return first_wanted(
        manifest.items,
        recent=_recent(repository, manifest.revision),
        importers=importers(repository, paths),
    )


def importers(repository: RepositoryName, paths: Sequence[str]) -> dict[str, int]:
    """Stored files that import each of the paths."""
    into = services().graph.incoming(repository, paths)
    return {
        path: sum(edge.kind is EdgeKind.IMPORTS for edge in edges) for path, edges in into.items()
    }


def _recent(repository: RepositoryName, revision: Revision) -> Sequence[str]:
    """Paths that were changed lately; none when that cannot be told, which costs order only."""
    try:
        return recently_changed(services().mirrors.git_dir(repository), revision)
    except CodelodeError as exc:
        log.warning("history_unknown", repository=repository, reason=str(exc))
        return ()


def _with_dependents(
    manifest: FileManifest, ref: RefName, repository: RepositoryName
) -> tuple[FileManifest, imports.Layout | None]:
    """The manifest with the files whose imports mean something else now, ahead of the others.

    Ahead, so that a plan that is cut off has not taken a file for known that others wait for. The
    layout is that of the commit; None: it is as it was.
    """
    before = services().packages.published_by(repository).fingerprints
    known = imports.Known(
        exists=partial(services().ledger.exists, repository, ref),
        incoming=partial(services().graph.incoming, repository),
        waiting=partial(_having, repository),
        records=partial(services().ledger.all, repository, ref),
        fingerprints=before,
    )
    if not imports.concerns_others(manifest, known):
        return manifest, None
    layout = layout_at(repository, manifest.revision)
    _announce(repository, layout, _in_doubt(before, layout.fingerprints()))
    found = imports.dependents(manifest, layout, known)
    listed = services().blobs.listing(repository, manifest.revision) if found else ()
    again = [WorkItem(f.path, f.blob, f.size_bytes) for f in listed if f.path in found]
    return replace(manifest, items=(*again, *manifest.items)), layout


def _announce(
    repository: RepositoryName, layout: imports.Layout, resolved: Mapping[str, str]
) -> None:
    """What the repository publishes, and by which manifests its files are resolved or will be."""
    said = PublishedPackages(imports.published(layout), resolved)
    services().packages.publish(repository, said)


def _in_doubt(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """What differs, as a fingerprint that no manifest has.

    It stands until the run is planned. After a worker that died around that, nobody knows by which
    of both the files were resolved: the next run has all of them resolved anew.
    """
    return {
        kind: value if (value := now.get(kind, "")) == before.get(kind) else ""
        for kind in {**before, **now}
    }


def _having(repository: RepositoryName, names: Sequence[str]) -> frozenset[str]:
    files = services().references.files(repository, names)
    return frozenset(path for paths in files.values() for path in paths)


_layouts = imports.Layouts()


def layout_at(repository: RepositoryName, revision: Revision) -> imports.Layout:
    """What of a commit decides what imports mean."""
    blobs = services().blobs

    def make() -> imports.Layout:
        content = partial(blobs.read, repository)
        return imports.read_layout(blobs.listing(repository, revision), content, name=repository)

    return _layouts.get(repository, revision, make)


def _end(run: RunId, reason: str) -> None:
    found = services().ledger.run(run)  # None: its repository was removed
    log.warning("run_failed", run=run, repository=found and found.repository, reason=reason)
    send_pull(services().ledger.end(run, RunState.FAILED, reason))


def _fingerprint() -> str:
    """Names everything that shapes the index of a file besides its content.

    Last the index itself: its store and, as `restamp` needs it, the embedder.
    """
    queries = own_queries.digest(operators_queries())
    return (
        f"rules {RULES_VERSION} ≤ {settings.max_file_bytes} bytes, parser {PARSER_VERSION}, "
        f"{f'queries {queries}, ' if queries else ''}store {settings.store}, "
        f"{services().index.embedder.identity}"
    )
