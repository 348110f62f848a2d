"""`codelode failures`: list the files and repositories that are not indexed, and why."""

from __future__ import annotations

from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING

import click

from codelode.cli import printing
from codelode.cli.options import Name, server_option
from codelode.counts import counted
from codelode.display import quoted
from codelode.errors import CodelodeError
from codelode.model import DEFAULT_REF, Run, RunState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codelode.client import Client, FileFailure, IndexedRepository, Status

FAILED = 2

#: Number of failed files that are shown at the end of a run, each with its reason.
SHOWN = 3
#: Maximum number of failed files of the repository that are read to find those of the run's ref.
LOOKED_AT = 5_000


@click.command()
@click.argument("name", required=False, type=Name())
@click.option(
    "--all", "include_skipped", is_flag=True, help="Also list files that were skipped on purpose."
)
@click.option(
    "--partial",
    "include_partial",
    is_flag=True,
    help="Also list indexed files that were not parsed completely, or that have a note.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list, for machines.")
@server_option
@click.pass_context
def failures(
    context: click.Context,
    *,
    client: Client,
    name: str | None,
    include_skipped: bool,
    include_partial: bool,
    as_json: bool,
) -> None:
    """List the files that could not be indexed, each with its reason.

    Exit status: 0 listed, 2 error, or the last run of a repository failed as a whole.

    \b
    Examples:
      codelode failures
      codelode failures acme/http --all --json
      codelode failures acme/http --partial
    """
    found = client.failures(name, include_skipped=include_skipped, include_partial=include_partial)
    if as_json:
        click.echo(printing.to_json([asdict(failure) for failure in found]))
        context.exit(report_troubles(client.status(), name))
    count = 0
    for failure in found:
        count += 1
        click.echo(printing.plain(_line(failure)))
    state = client.status()
    rest = "" if include_skipped else _left_out(state, name)
    if count:
        printing.note("; ".join(filter(None, (counted(count, "file"), rest))))
        context.exit(report_troubles(state, name))
    good = _good_news(include_skipped=include_skipped, include_partial=include_partial)
    context.exit(report_troubles(state, name, good="; ".join(filter(None, (good, rest)))))


def report_failed(client: Client, run: Run) -> None:
    """Print some files of the run's ref that have failed, and the command that lists all."""
    if not run.failed:
        return
    try:
        shown = _some_failed(client, run)
    except CodelodeError as exc:  # the run itself has ended well
        printing.note(f"cannot list the failed files: {exc}")
        shown = ()
    for failure in shown:
        printing.note(_line(failure))
    if run.failed > len(shown):
        printing.note(
            f"`codelode failures {run.repository}` lists all {counted(run.failed, 'failed file')}"
        )


def _some_failed(client: Client, run: Run) -> Sequence[FileFailure]:
    refs = (_named(client, run), run.revision)  # a failure names a commit by its full id
    looked_at = islice(client.failures(run.repository), LOOKED_AT)
    of_run = (one for one in looked_at if one.ref in refs)
    return [*islice(of_run, min(SHOWN, run.failed))]


def _named(client: Client, run: Run) -> str:
    """Return the ref of a run, or the present default ref for a run without one."""
    if run.ref != DEFAULT_REF:
        return run.ref
    found = (each.repository for each in client.status().repositories)
    return next((one.default_ref for one in found if one.name == run.repository), DEFAULT_REF)


def _line(failure: FileFailure) -> str:
    """Return `acme/http main src/a.py  failed: REASON`."""
    file = f"{failure.repository} {quoted(failure.ref)} {quoted(failure.path)}"
    return f"{file}  {failure.state}: {' '.join(failure.reason.split())}"


def report_troubles(state: Status, name: str | None, *, good: str = "") -> int:
    """Print what is wrong with the repositories, or else `good`; return the exit status.

    A repository that cannot be cloned has no files, so no file's failure reports it.
    """
    found = _troubles(state, name)
    for trouble in found:
        printing.complain(trouble)
    if not found and good:
        printing.note(good)
    return FAILED if found else 0


def _troubles(state: Status, name: str | None) -> list[str]:
    """Return what is wrong with the named repository, or with all, one line for each."""
    refs = {each.repository.name: {ref.ref for ref in each.refs} for each in state.repositories}
    last: dict[str, Run] = {}
    for run in state.runs:  # newest first
        known = refs.get(run.repository)
        if not known or run.ref == DEFAULT_REF or run.ref in known:  # else it was never indexed
            last.setdefault(run.repository, run)
    found = ((each, last.get(each.repository.name)) for each in _asked_for(state, name))
    return [
        f"{each.repository.name}: {text}" for each, run in found if (text := _trouble(each, run))
    ]


def _left_out(state: Status, name: str | None) -> str:
    """Return `8 were left out on purpose: …`; empty if no file was left out."""
    count = sum(ref.skipped for each in _asked_for(state, name) for ref in each.refs)
    if not count:
        return ""
    were, them = ("was", "it") if count == 1 else ("were", "them")
    command = " ".join(filter(None, ("codelode failures", name, "--all")))
    return f"{count:,} {were} left out on purpose: `{command}` lists {them}"


def _asked_for(state: Status, name: str | None) -> list[IndexedRepository]:
    return [each for each in state.repositories if not name or each.repository.name == name]


def _trouble(repository: IndexedRepository, last: Run | None) -> str:
    if last is not None and last.state is RunState.FAILED:
        forget = "" if repository.refs else f", or `codelode remove {repository.repository.name}`"
        return f"its last run failed: {last.error}; run `codelode index` again{forget}"
    if last is not None and last.state is RunState.CANCELLED:
        return "its last run was cancelled; `codelode index` continues it"
    if last is None and not any(ref.indexed for ref in repository.refs):
        return "it is not indexed yet; run `codelode index`"
    return ""


def _good_news(*, include_skipped: bool, include_partial: bool) -> str:
    if include_skipped:
        return "every file is indexed" + ", and was parsed in full" * include_partial
    return "no file has failed" + " or was parsed only in part" * include_partial
