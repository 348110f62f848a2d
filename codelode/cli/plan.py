"""`codelode plan`: estimate the work of a run without doing it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import click

from codelode.cli import printing
from codelode.cli.failures import FAILED
from codelode.cli.index import waited
from codelode.cli.options import json_option, server_option
from codelode.client.locator import locator
from codelode.counts import counted
from codelode.errors import CodelodeError
from codelode.estimates import Estimate
from codelode.model import Run, RunState

if TYPE_CHECKING:
    from codelode.client import Client

#: Files a second of a run without a language model, where the cluster has done no run yet:
#: docs/measurements.md, on two cores.
FILES_PER_S = 190.0
#: Runs with fewer files say little about the rate.
_MIN_FILES = 100

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class _Target:
    """A repository to plan."""

    url: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class _Rates:
    """The files that a cluster indexes in a second, and the price of a million tokens."""

    files_per_s: float
    is_measured: bool
    embedding_price: float
    summary_price: float

    def seconds(self, estimate: Estimate) -> float:
        return (estimate.files + estimate.removals) / self.files_per_s

    def cost(self, estimate: Estimate) -> float:
        embedding = estimate.tokens * self.embedding_price
        return (embedding + estimate.summary_tokens * self.summary_price) / _MILLION


@click.command()
@click.argument("targets", nargs=-1, metavar="[URL_PATH_OR_NAME]...")
@click.option("--all", "is_all", is_flag=True, help="Plan a run of every repository.")
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
    ref: str,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    embedding_price: float,
    summary_price: float,
    as_json: bool,
) -> None:
    """Show what indexing repositories would do: files, chunks, tokens, time, and cost.

    A worker pulls the repository, compares it with the index, reads the files that a run would
    index, and parses a sample of them. Nothing of the index changes. For a repository that is
    indexed, only the changes count. A new one is registered while the plan is made.

    Files and reasons are exact. Chunks and tokens are extrapolated from the sample by language and
    bytes; a token is counted as 4 characters. Equal content that is cached, as of a fork, takes
    less time and no tokens. The time follows from the rate of recent runs on this cluster. Exit
    status: 0 done, 2 error.

    \b
    Examples:
      codelode plan https://github.com/psf/requests
      codelode plan . --exclude vendor/
      codelode plan acme/http --ref release-2 --json
      codelode plan --all --embedding-price 0.02
    """
    if is_all == bool(targets):
        raise click.UsageError("give repositories, or --all for every repository")
    rates = _rates(client, embedding_price=embedding_price, summary_price=summary_price)
    runs: list[Run] = []
    status = 0
    for target in _found(client, targets):
        try:
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
            printing.complain(str(exc))
            status = FAILED
    for run in runs:
        if run.state is not RunState.PLANNED:
            printing.complain(f"{run.repository}: {run.error or f'the run was {run.state}'}")
            status = FAILED
    _show([run for run in runs if run.estimate is not None], rates, as_json=as_json)
    context.exit(status)


def _found(client: Client, targets: Sequence[str]) -> list[_Target]:
    """Return the repositories to plan, by name, path, or URL; all of them if none is given."""
    known = [_Target(one.repository.url, one.repository.name) for one in client.repositories()]
    by_name, by_url = ({getattr(one, key): one for one in known} for key in ("name", "url"))
    given = (by_name.get(target) or _Target(locator(target)) for target in targets)
    return [by_url.get(one.url, one) if not one.name else one for one in given] or known


def _rates(client: Client, *, embedding_price: float, summary_price: float) -> _Rates:
    """Return the rate of the recent runs that the caller sees, or else a measured one."""
    runs = [run for run in client.status().runs if _tells(run)]
    took_s = sum(run.finished_at - run.started_at for run in runs)
    rate = sum(run.done for run in runs) / took_s if took_s > 0 else FILES_PER_S
    return _Rates(rate, bool(runs), embedding_price, summary_price)


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
    return {
        "repository": run.repository,
        "ref": run.ref,
        "revision": run.revision or "",
        "files": estimate.files,
        "chunks": estimate.chunks,
        "tokens": estimate.tokens,
        "seconds": round(rates.seconds(estimate), 1),
        "seconds_are_measured": rates.is_measured,
        "cost": round(rates.cost(estimate), 4),
        **asdict(estimate),
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
    """Return `987 files, about 3,900 chunks, 1,160,000 tokens, 6 s`, and what else is not zero."""
    found = list(estimates)
    files, removals = (sum(getattr(one, name) for one in found) for name in ("files", "removals"))
    summaries = sum(one.summaries for one in found)
    cost, seconds = (sum(of(one) for one in found) for of in (rates.cost, rates.seconds))
    parts = [
        counted(files, "file"),
        *([f"{counted(removals, 'file')} to remove"] if removals else ()),
        f"about {counted(sum(one.chunks for one in found), 'chunk')}",
        counted(sum(one.tokens for one in found), "token"),
        *([counted(summaries, "summary")] if summaries else ()),
        f"{_duration(seconds)} at {rates.files_per_s:,.0f} files/s",
        *([f"cost {cost:,.2f}"] if cost else ()),
    ]
    return ", ".join(parts)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60):,} min" if seconds < 5_400 else f"{seconds / 3_600:,.1f} h"


def _indented(table: str) -> str:
    return "\n".join(f"  {line}" for line in table.split("\n"))
