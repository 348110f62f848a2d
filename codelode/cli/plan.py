"""`codelode plan`: estimate the work of a run without doing it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import click

from codelode.cli import printing
from codelode.cli.failures import FAILED
from codelode.cli.index import complain_of, waited
from codelode.cli.options import json_option, server_option
from codelode.cli.workers import with_workers
from codelode.client.locator import locator
from codelode.counts import counted
from codelode.display import quoted
from codelode.errors import CodelodeError, NotFound
from codelode.estimates import CORE_RATE, WAIT_S, Estimate, work_s
from codelode.model import Run, RunState
from codelode.stages import PULL

if TYPE_CHECKING:
    from codelode.client import Client

#: Minimum number of files of a run from which the speed of the cluster is computed.
_MIN_FILES = 100

#: Assumed number of chunks per file of a repository that is not indexed yet.
_CHUNKS = 4.0

#: Factor by which a run may be faster or slower than estimated from the sample or earlier runs, and
#: the factor for an estimate from the usual speed.
_SPREAD, _SPREAD_OF_USUAL = 1.2, 2.0

#: The speed that is assumed if nothing is known: that of two idle cores.
_USUAL_RATE = 2 * CORE_RATE

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class _Target:
    """A repository to plan."""

    url: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class _Time:
    """The time that runs take one after the other: an estimate and its bounds, in seconds."""

    about: float
    least: float
    most: float


@dataclass(frozen=True, slots=True)
class _Rates:
    """The speed of a cluster, the work of its active runs, and prices of a million tokens."""

    work_per_s: float  # processor time per second of its recent runs; 0 if there are none
    waiting: Sequence[float]  # processor time that each active run still needs
    embedding_price: float
    summary_price: float

    def time(self, estimates: Sequence[Estimate]) -> _Time:
        """Return how long the runs take; active runs share the workers' time with them."""
        own = [self._own(one) for one in estimates]
        about, least, most = (
            sum(getattr(one, name) for one in own) for name in ("about", "least", "most")
        )
        rate = self.work_per_s or _USUAL_RATE
        turns = sum(min(about, one / rate) for one in self.waiting)
        return _Time(about + turns, least, most + sum(self.waiting) / rate)

    def _own(self, estimate: Estimate) -> _Time:
        usual = WAIT_S + estimate.pull_s + estimate.work_s / (self.work_per_s or _USUAL_RATE)
        about = estimate.seconds or usual
        is_known = estimate.seconds or self.work_per_s
        spread = _SPREAD if is_known else _SPREAD_OF_USUAL
        return _Time(about, about / spread, about * spread)

    def cost(self, estimate: Estimate) -> float:
        embedding = estimate.tokens * self.embedding_price
        return (embedding + estimate.summary_tokens * self.summary_price) / _MILLION


@click.command()
@click.argument("targets", nargs=-1, metavar="[URL_PATH_OR_NAME]...")
@click.option("--all", "is_all", is_flag=True, help="Plan a run of every repository.")
@click.option(
    "--name",
    default="",
    help="Plan for a new repository with this name. Default: the end of the URL.",
)
@click.option(
    "--ref",
    default="",
    help="Plan for this branch, tag, or commit. Default: the repository's default ref.",
)
@click.option(
    "--include",
    multiple=True,
    metavar="PATTERN",
    help="Count only files that match, as with `codelode index`; for a new repository; repeatable.",
)
@click.option(
    "--exclude",
    multiple=True,
    metavar="PATTERN",
    help="Leave out files that match, as with `codelode index`; for a new repository; repeatable.",
)
@click.option(
    "--embedding-price",
    type=click.FloatRange(min=0),
    default=0.0,
    help="Price of a million tokens of the embedding model, in any currency.",
)
@click.option(
    "--summary-price",
    type=click.FloatRange(min=0),
    default=0.0,
    help="Price of a million tokens of the language model that writes summaries.",
)
@json_option
@server_option
@click.pass_context
def plan(
    context: click.Context,
    *,
    client: Client,
    targets: tuple[str, ...],
    is_all: bool,
    name: str,
    ref: str,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    embedding_price: float,
    summary_price: float,
    as_json: bool,
) -> None:
    """Show what indexing repositories would do: files, chunks, tokens, time, and cost.

    A worker pulls the repository, compares it with the index, reads the files that a run would
    index, and parses a sample of them. The index does not change. For a repository that is
    indexed, only the changes count. A new one is registered while the plan is made.

    Files and reasons are exact. Chunks and tokens are extrapolated from the sample by language and
    bytes; a token is counted as 4 characters. A run takes less time, and no tokens, for content
    that is cached, such as that of a fork. The time is estimated from the time that the sample took
    and from active runs; if a model server on another machine embeds, from the speed of recent
    runs. Exit status: 0 done, 2 error.

    \b
    Examples:
      codelode plan https://github.com/psf/requests
      codelode plan . --exclude vendor/
      codelode plan acme/http --ref release-2 --json
      codelode plan --all --embedding-price 0.02
    """
    if is_all == bool(targets):
        raise click.UsageError("give repositories, or --all for every repository")
    if name and len(targets) != 1:
        raise click.UsageError("--name is the name of one repository; plan the others separately")
    runs_now = with_workers(client, PULL.name, what="nothing can be planned").runs
    rates = _rates(client, runs_now, embedding_price=embedding_price, summary_price=summary_price)
    runs: list[Run] = []
    status = 0
    found = _found(client, targets, name)
    for target in found:
        try:
            _require_address(target)
            run = client.plan(
                target.url,
                name=target.name,
                ref=ref,
                include=include or None,
                exclude=exclude or None,
                wait=False,
            )
            runs.append(waited(client, run))
        except CodelodeError as exc:
            complain_of(exc, target.name or target.url if len(found) > 1 else "")
            status = FAILED
    for run in runs:
        if run.state is not RunState.PLANNED:
            printing.complain(f"{run.repository}: {run.error or f'the run was {run.state}'}")
            status = FAILED
    _show([run for run in runs if run.estimate is not None], rates, as_json=as_json)
    context.exit(status)


def _found(client: Client, targets: Sequence[str], name: str) -> list[_Target]:
    """Return the repositories to plan, by name, path, or URL; all of them if none is given.

    `name`: the name of the only target, if that is planned as a new repository.
    """
    if name:
        return [_Target(locator(target), name) for target in targets]
    known = [_Target(one.repository.url, one.repository.name) for one in client.repositories()]
    by_name, by_url = ({getattr(one, key): one for one in known} for key in ("name", "url"))
    given = (by_name.get(target) or _Target(locator(target)) for target in targets)
    return [by_url.get(one.url, one) if not one.name else one for one in given] or known


def _require_address(target: _Target) -> None:
    """Raise NotFound if the target can only be a name, but no repository has it.

    URLs contain a colon and paths of this machine begin with a slash; names do neither.
    """
    if not target.name and ":" not in target.url and not target.url.startswith("/"):
        raise NotFound(
            f"{quoted(target.url)} is neither the name of a repository (`codelode repos` lists "
            "them) nor a path on this machine; for a new repository, give its URL or path"
        )


def _rates(
    client: Client, runs: Sequence[Run], *, embedding_price: float, summary_price: float
) -> _Rates:
    """Return the speed of recent runs, the work of active ones, and the prices."""
    chunks = {
        known.repository.name: known.refs[0].chunks / known.refs[0].files  # of the default ref
        for known in client.repositories()
        if known.refs and known.refs[0].files
    }

    def work(run: Run, files: int) -> float:
        return work_s(files, files * chunks.get(run.repository, _CHUNKS))

    told = [run for run in runs if _tells(run)]
    done, took_s = sum(work(run, run.done) for run in told), _busy_s(told)
    left = [work(run, run.total - run.done - run.failed) for run in runs if not run.state.is_over]
    return _Rates(done / took_s if took_s else 0.0, left, embedding_price, summary_price)


def _busy_s(runs: Sequence[Run]) -> float:
    """Return the time in which at least one of the runs was at work, seconds."""
    busy_s, until = 0.0, 0.0
    for run in sorted(runs, key=lambda run: run.started_at):
        began = max(run.started_at + WAIT_S, until)
        busy_s += max(0.0, run.finished_at - began)
        until = max(until, run.finished_at)
    return busy_s


def _tells(run: Run) -> bool:
    return run.state is RunState.COMPLETE and run.done >= _MIN_FILES


def _show(runs: Sequence[Run], rates: _Rates, *, as_json: bool) -> None:
    planned = [(run, run.estimate) for run in runs if run.estimate is not None]
    if as_json:
        click.echo(printing.to_json({"plans": [_fields(*one, rates) for one in planned]}))
        return
    if planned:
        click.echo("\n\n".join("\n".join(_lines(*one, rates)) for one in planned))
    if len(planned) > 1:
        click.echo(f"\nall  {_totals([estimate for _, estimate in planned], rates)}")


def _fields(run: Run, estimate: Estimate, rates: _Rates) -> dict[str, object]:
    time = rates.time([estimate])
    return {
        "repository": run.repository,
        "ref": run.ref,
        "revision": run.revision or "",
        "files": estimate.files,
        "chunks": estimate.chunks,
        "tokens": estimate.tokens,
        **asdict(estimate),
        "work_s": round(estimate.work_s, 1),
        "seconds": round(time.about, 1),
        "seconds_least": round(time.least, 1),
        "seconds_most": round(time.most, 1),
        "seconds_are_measured": bool(estimate.seconds or rates.work_per_s),
        "cost": round(rates.cost(estimate), 4),
    }


def _lines(run: Run, estimate: Estimate, rates: _Rates) -> Iterator[str]:
    """Yield the plan of a repository: its totals, and tables by language and reason."""
    at = f"  at {run.revision[:12]}" if run.revision else ""
    yield printing.plain(f"{run.repository}  {run.ref}{at}")
    yield f"  {_totals([estimate], rates)}"
    if estimate.languages:
        rows = [
            (one.language, *(f"{n:,}" for n in (one.files, one.size_bytes, one.chunks, one.tokens)))
            for one in estimate.languages
        ]
        yield ""
        yield _indented(printing.table(("language", "files", "bytes", "chunks", "tokens"), rows))
    if estimate.skipped:
        skipped = [(one.reason, f"{one.files:,}") for one in estimate.skipped]
        yield ""
        yield _indented(printing.table(("skipped because", "files"), skipped))
    if estimate.files and not estimate.sampled:
        yield "  the sample could not be parsed; chunks and tokens are those of average code"


def _totals(estimates: Iterable[Estimate], rates: _Rates) -> str:
    """Return `987 files, about 3,900 chunks, …, about 6 s (5 to 8 s)`, without zero parts."""
    found = list(estimates)
    files, removals = (sum(getattr(one, name) for one in found) for name in ("files", "removals"))
    summaries = sum(one.summaries for one in found)
    cost, time = sum(map(rates.cost, found)), rates.time(found)
    parts = [
        counted(files, "file"),
        *([f"{counted(removals, 'file')} to remove"] if removals else ()),
        f"about {counted(sum(one.chunks for one in found), 'chunk')}",
        counted(sum(one.tokens for one in found), "token"),
        *([counted(summaries, "summary")] if summaries else ()),
        f"about {_duration(time.about)} ({_duration(time.least)} to {_duration(time.most)})",
        *([f"cost {cost:,.2f}"] if cost else ()),
    ]
    return ", ".join(parts)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60):,} min" if seconds < 5_400 else f"{seconds / 3_600:,.1f} h"


def _indented(table: str) -> str:
    return "\n".join(f"  {line}" for line in table.split("\n"))
