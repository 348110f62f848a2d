"""Rebuild the index; `codelode reindex` starts this program (`python -m workers.reindex`).

It reports its progress on stdout, one JSON object per line, and logs to stderr. The last line has
the result: `state` is published, unchanged or dropped, or there is an `error`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TextIO

from codelode import logs
from codelode.backends import engine, registry
from codelode.errors import CodelodeError, InvalidSettings
from codelode.ledger import Ledger
from codelode.ports import ChunkSearch
from codelode.settings import Settings, load, require_same_settings
from workers.enrich import Enricher
from workers.parse import own_queries
from workers.reindex.build import Build, IndexSwap, Progress, finish
from workers.reindex.content import Contents, Nothing
from workers.reindex.stored_summaries import StoredSummaries
from workers.services import Services, shaping

#: Interval of progress reports, seconds.
REPORT_S = 0.2

#: Time for which the old index stays after the swap, for searches in progress, seconds.
GRACE_S = 1.0

INTERRUPTED = 130
ERROR = 2


@dataclass(slots=True)
class Report:
    """Reports to the parent process."""

    out: TextIO
    _told_at: float = field(default=float("-inf"), init=False)

    def say(self, **facts: object) -> None:
        print(json.dumps(facts), file=self.out, flush=True)

    def progress(self, progress: Progress) -> None:
        if time.monotonic() - self._told_at > REPORT_S:
            self._told_at = time.monotonic()
            self.say(done=progress.done, total=progress.total)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m workers.reindex", description=__doc__)
    parser.add_argument(
        "--drop", action="store_true", help="only remove unfinished and superseded indexes"
    )
    parser.add_argument(
        "--skip-missing", action="store_true", help="leave out what cannot be copied"
    )
    args = parser.parse_args()
    with _own_stdout() as out:
        sys.exit(_run(args, Report(out)))


def _run(args: argparse.Namespace, report: Report) -> int:
    """Run the command and return its exit status."""
    try:
        settings = load()
        quiet = "debug" if settings.log_level == "debug" else "warning"
        logs.configure(settings.model_copy(update={"log_level": quiet}))
        if args.drop:
            drop(settings, report)
        else:
            rebuild(settings, report, may_lack=args.skip_missing)
    except CodelodeError as exc:
        report.say(error=str(exc))
        return ERROR
    except (KeyboardInterrupt, BrokenPipeError):
        os._exit(INTERRUPTED)  # the parent is gone; the unfinished index stays
    return 0


def rebuild(settings: Settings, report: Report, *, may_lack: bool) -> None:
    """Build the index for the embedder of the settings, publish it, and remove the old one.

    Raises InvalidSettings if an index for another embedder is unfinished: it may have taken hours,
    so only `drop` removes it. `may_lack`: see `Build`.
    """
    services = Services(settings)
    require_same_settings(shaping(settings), services.swap.facts())
    shadow = registry.shadow_index(settings)
    with services.swap.running():
        _finish(services.ledger, services.swap, shadow, settings)
        before = shadow.replaces()
        if shadow.is_published():
            report.say(state="unchanged", embedder=before, **_tidied(services.swap, shadow))
            return
        _begin(services, shadow, settings, before=before)
        build = _build(services, shadow, settings, report, may_lack=may_lack)
        try:
            build(before=before)
        finally:
            build.contents.close()
            build.stored_summaries.close()
            services.blobs.close()
        report.say(exchanged=True)
        time.sleep(shadow.readers_follow_s + GRACE_S)
        dropped = _drop(shadow, shadow.others())
        report.say(
            state="published",
            embedder=build.embedder.identity,
            missing=len(build.missing),
            summaries_missing=build.given_up,
            dropped=dropped,
        )
    shadow.close()


def drop(settings: Settings, report: Report) -> None:
    """Remove unfinished and superseded indexes."""
    # The embedder does not matter for removing an index, and the built-in one needs no server.
    shadow = registry.shadow_index(settings.model_copy(update={"embedder": "static"}))
    swap = registry.index_swap(settings)
    require_same_settings(shaping(settings), swap.facts())
    with swap.running():
        _finish(registry.ledger(settings), swap, shadow, settings)
        dropped = _drop(shadow, shadow.others())
        swap.forget()
    shadow.close()
    report.say(state="dropped", dropped=dropped)


def _finish(
    ledger: Ledger, swap: IndexSwap, shadow: engine.ShadowIndex, settings: Settings
) -> None:
    """Finish a rebuild that died after publishing, if there is one."""
    finish(ledger, swap, shadow, published=registry.published(settings).name)


def _tidied(swap: IndexSwap, shadow: engine.ShadowIndex) -> dict[str, object]:
    """Remove leftover indexes; return them, and the unfinished index that stays."""
    begun, others = swap.target(), shadow.others()
    if begun and begun["name"] not in others:
        swap.forget()  # the index no longer exists
        begun = {}
    left = [name for name in others if name != begun.get("name")]
    choice = {name: begun[name] for name in registry.CHOICE if name in begun}
    return {"dropped": _drop(shadow, left), "half_built": choice}


def _begin(
    services: Services, shadow: engine.ShadowIndex, settings: Settings, *, before: str
) -> None:
    """Continue the index that was begun for this embedder, or begin one."""
    begun = services.swap.target()
    if begun and begun["name"] != shadow.name:
        raise InvalidSettings(
            f"an index for another embedder is unfinished ({begun['embedder']} "
            f"{begun['embedding_model']}): finish it with that embedder, or remove it with "
            "`codelode reindex --drop`"
        )
    if not begun or not shadow.exists():
        _drop(shadow, [shadow.name])
        chosen = {name: str(getattr(settings, name)) for name in registry.CHOICE}
        services.swap.begin({"name": shadow.name, "replaces": before, **chosen})


def _build(
    services: Services,
    shadow: engine.ShadowIndex,
    settings: Settings,
    report: Report,
    *,
    may_lack: bool,
) -> Build:
    model = registry.language_model(settings)
    known = services.derivations
    enricher = Enricher(model, known, Nothing(), pause_s=0.0) if model else None
    return Build(
        ledger=services.ledger,
        swap=services.swap,
        contents=Contents(
            known,
            services.blobs,
            max_file_bytes=settings.max_file_bytes,
            timeout_s=settings.parse_timeout_s,
            enricher=enricher,
            operators=own_queries.of_operator(settings.queries),
        ),
        stored_summaries=StoredSummaries(lambda: _published(settings)),
        embedder=registry.embedder(settings),
        derivations=known,
        shadow=shadow,
        store=shadow.open(),
        tell=report.progress,
        may_lack=may_lack,
    )


def _published(settings: Settings) -> ChunkSearch | None:
    """Return a reader of the published index, of any embedder; None if it has no chunks."""
    index = registry.published(settings)
    if index.space is None:
        return None
    return registry.engine(index.settings).reader(index.space)


def _drop(shadow: engine.ShadowIndex, names: Sequence[str]) -> list[str]:
    for name in names:
        shadow.drop(name)
    return list(names)


def _own_stdout() -> TextIO:
    """Reserve stdout for this module; everything else that prints goes to stderr."""
    own = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return own


if __name__ == "__main__":
    main()
