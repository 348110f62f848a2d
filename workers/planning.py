"""Plan a run: pull, find the changed files, and store in the ledger which files to process.

Unchanged files whose imports now resolve to other files are planned too. The calling thread waits
for git; what git has fetched is read in a process that can be killed (`workers.confined`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import structlog

from codelode import logs
from codelode.covers import Groups
from codelode.errors import CodelodeError, Rejected, Unavailable
from codelode.ledger import Advance, FileManifest, Share, WorkItem
from codelode.model import RefName, RepositoryName, Revision, Run, RunKind
from codelode.ports import PublishedPackages
from codelode.repository_rules import RepositoryRules, RunPriority
from codelode.settings import Settings
from codelode.stages import has_language_model
from workers import confined, estimating, layouts
from workers.enrich import by_priority
from workers.estimating import Sampled, Survey
from workers.parse import PARSER_VERSION, imports, own_queries
from workers.pull import (
    RULES_VERSION,
    Prepared,
    prepare,
    recently_changed,
    require_staying,
    update,
)
from workers.services import PARSE_MEMORY_BYTES, Services
from workers.store import TABLES_VERSION, refs_of

T = TypeVar("T")

log = structlog.get_logger("workers")

#: Maximum number of plans that a worker makes at once; each takes a process.
_plans = confined.Slots(8)


def plan(run: Run, services: Services, *, is_wanted: Callable[[], bool]) -> Advance:
    """Bring the mirror up to date, plan the run, and return the first window of its files.

    A run that only plans ends here. Raises what `update`, `prepare`, and `confined.call` raise. May
    be repeated until the run is planned. Ends soon after `is_wanted` returns false.
    """
    began = time.monotonic()
    checked_out = update(run, ledger=services.ledger, mirrors=services.mirrors, is_wanted=is_wanted)
    # The repository of a trial is registered only for the plan and then removed with its mirror, so
    # a later run has to wait for git again.
    pull_s = time.monotonic() - began if run.kind is RunKind.TRIAL else 0.0
    settings, fingerprint = services.settings, _fingerprint(services)
    alone = partial(_alone, settings, is_wanted=is_wanted)
    with _plans.taken(is_wanted):
        if run.kind is RunKind.INDEX:
            share, groups = _share(run, services), _groups(run, services)
            return alone(plan_pulled, run, fingerprint, checked_out, share, groups)
        survey = alone(_survey, run, fingerprint, checked_out)
        try:
            sample = alone(_sample, run, survey)
        except (Rejected, Unavailable) as exc:  # a parser stalls or crashes
            log.warning("sample_failed", run=run.id, reason=str(exc))
            sample = Sampled({})
    estimate = estimating.estimate(survey, sample, settings, pull_s=pull_s)
    following = services.ledger.end_planned(
        run.id, estimate, revision=survey.revision, ref=survey.ref
    )
    return Advance(next_run=following)


def _alone(
    settings: Settings,
    function: Callable[..., T],
    *arguments: object,
    is_wanted: Callable[[], bool],
) -> T:
    """Call a function in a separate process, with its own services."""
    found: T = confined.call(
        _with_services,
        *(settings, function, *arguments),
        what="reading the repository's files and manifests",
        timeout_s=settings.plan_timeout_s,
        timeout_setting="CODELODE_PLAN_TIMEOUT_S",
        memory_bytes=PARSE_MEMORY_BYTES,
        is_wanted=is_wanted,
    )
    return found


def _with_services(settings: Settings, function: Callable[..., T], *arguments: object) -> T:
    logs.configure(settings)
    services = Services(settings)
    try:
        return function(services, *arguments)
    finally:
        services.close()


def _survey(services: Services, run: Run, fingerprint: str, checked_out: RefName) -> Survey:
    """Find what a run whose mirror is up to date would do, without changing anything."""
    prepared = _prepared(services, run, fingerprint, checked_out)
    manifest, _ = _with_dependents(
        prepared.manifest, prepared.ref, run.repository, services, announces=False
    )
    return estimating.survey(run, manifest, prepared.ref, services)


def _sample(services: Services, run: Run, survey: Survey) -> Sampled:
    return estimating.sample(run, survey, services)


def _prepared(services: Services, run: Run, fingerprint: str, checked_out: RefName) -> Prepared:
    settings = services.settings
    return prepare(
        run,
        ledger=services.ledger,
        mirrors=services.mirrors,
        fingerprint=fingerprint,
        max_file_bytes=settings.max_file_bytes,
        max_paths=settings.max_paths,
        checked_out=checked_out,
        rules=_rules(run, services),
    )


def _rules(run: Run, services: Services) -> RepositoryRules | None:
    """Return the rules of the connection that the repository belongs to; None: it has none."""
    repository = services.ledger.get(run.repository)
    return services.ref_rules.of(repository.url) if repository else None


def _share(run: Run, services: Services) -> Share:
    """Return the share of the workers' time that the sources file gives to the repository."""
    rules = _rules(run, services)
    if rules is None:
        return Share()
    is_bulk = {RunPriority.HIGH: False, RunPriority.LOW: True}.get(rules.priority)
    return Share(rules.weight(run.repository), is_bulk=is_bulk)


def _groups(run: Run, services: Services) -> Groups:
    """Return the groups of a new repository, by the rights that are in force now."""
    repository = services.ledger.get(run.repository)
    if repository is None or services.ledger.refs(run.repository):
        return ()
    return services.rights().groups_of(repository)


def plan_pulled(
    services: Services,
    run: Run,
    fingerprint: str,
    checked_out: RefName,
    share: Share,
    groups: Groups,
) -> Advance:
    """Plan a run whose mirror is up to date."""
    prepared = _prepared(services, run, fingerprint, checked_out)
    repository, manifest = run.repository, replace(prepared.manifest, share=share, groups=groups)
    if has_language_model(services.settings):
        manifest = replace(
            manifest, items=_by_priority(manifest, prepared.ref, repository, services)
        )
    manifest, layout = _with_dependents(manifest, prepared.ref, repository, services)
    if any(item.blob for item in manifest.items):
        layouts.read(repository, manifest.revision, services)  # for the store stage
    if prepared.gone:
        services.source_sync.cancel_queued(repository, prepared.gone)
    advance = services.ledger.plan(run.id, manifest, ref=prepared.ref, fingerprint=fingerprint)
    require_staying(services.ledger, repository, prepared.ref)  # if removed, `plan` had no effect
    for ref in prepared.gone:
        services.ledger.remove_ref(repository, ref)
    log.info(
        "run_planned",
        run=run.id,
        revision=manifest.revision,
        files=len(manifest.items),
        skipped=len(manifest.skipped),
    )
    if layout is not None:
        refs = _refs(manifest, prepared.ref, repository, services)
        _announce(repository, refs, layout, layout.fingerprints(), services)
    return advance


def _by_priority(
    manifest: FileManifest, ref: RefName, repository: RepositoryName, services: Services
) -> tuple[WorkItem, ...]:
    """Order the files by their priority for the language model.

    In a first run no file is central here, because only stored files count as importers; the enrich
    stage counts them again for later files of the run.
    """
    paths = [item.path for item in manifest.items]
    return by_priority(
        manifest.items,
        recent=_recent(repository, manifest.revision, services),
        importers=services.importers(repository, ref, paths),
    )


def _recent(repository: RepositoryName, revision: Revision, services: Services) -> Sequence[str]:
    """Return recently changed paths; none if history cannot be read, which only affects order."""
    try:
        return recently_changed(services.mirrors.git_dir(repository), revision)
    except CodelodeError as exc:
        log.warning("history_unknown", repository=repository, reason=str(exc))
        return ()


def _with_dependents(
    manifest: FileManifest,
    ref: RefName,
    repository: RepositoryName,
    services: Services,
    *,
    announces: bool = True,
) -> tuple[FileManifest, imports.Layout | None]:
    """Add the unchanged files whose imports now resolve differently, ahead of the others.

    They come first so that an interrupted plan does not record a new file as known before the files
    that import it are planned. `announces`: whether to store that the packages are about to change.
    Also returns the layout of the commit, or None if it is unchanged.
    """
    before = services.packages.published_by(repository, ref).fingerprints
    known = imports.IndexLookups(
        exists=partial(services.ledger.exists, repository, ref),
        incoming=partial(services.graph.incoming, repository, ref),
        waiting=partial(_having, services, repository, ref),
        records=partial(services.ledger.all, repository, ref),
        fingerprints=before,
    )
    if not manifest.is_rebuild and not imports.concerns_others(manifest, known):
        return manifest, None
    layout = layouts.read(repository, manifest.revision, services)
    if announces:
        refs = _refs(manifest, ref, repository, services)
        _announce(repository, refs, layout, _invalidated(before, layout.fingerprints()), services)
    found = imports.dependents(manifest, layout, known)
    listed = services.blobs.listing(repository, manifest.revision) if found else ()
    again = [WorkItem(f.path, f.blob, f.size_bytes) for f in listed if f.path in found]
    return replace(manifest, items=(*again, *manifest.items)), layout


def _refs(
    manifest: FileManifest, ref: RefName, repository: RepositoryName, services: Services
) -> tuple[RefName, ...]:
    """Return the refs with which stored files of the ref are marked once the run is planned."""
    found = services.ledger.get(repository)
    default = ref if manifest.makes_default else found.default_ref if found else ""
    return refs_of(ref, default=default)


def _announce(
    repository: RepositoryName,
    refs: Sequence[RefName],
    layout: imports.Layout,
    resolved: Mapping[str, str],
    services: Services,
) -> None:
    """Store the packages that the refs publish, and fingerprints of their manifests."""
    packages = PublishedPackages(imports.published(layout), resolved)
    services.packages.publish(repository, refs, packages)


def _invalidated(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """Replace each changed fingerprint by one that no manifest has, until the run is planned.

    If the worker dies before that, it is unknown with which manifest the files were resolved. The
    next run then finds a changed fingerprint and resolves all of them again.
    """
    return {
        kind: value if (value := now.get(kind, "")) == before.get(kind) else ""
        for kind in {**before, **now}
    }


def _having(
    services: Services, repository: RepositoryName, ref: RefName, names: Sequence[str]
) -> frozenset[str]:
    """Return the files that use any of the names."""
    files = services.references.files(repository, ref, names)
    return frozenset(path for paths in files.values() for path in paths)


def _fingerprint(services: Services) -> str:
    """Return a text that identifies everything that shapes the index of a file but its content.

    It ends with the store and then the embedder, because `restamp` replaces the embedder there.
    """
    queries = own_queries.digest(services.operators_queries)
    settings = services.settings
    return (
        f"rules {RULES_VERSION} ≤ {settings.max_file_bytes} bytes, parser {PARSER_VERSION}, "
        f"{f'queries {queries}, ' if queries else ''}tables {TABLES_VERSION}, "
        f"store {settings.store}, {services.index.embedder.identity}"
    )
