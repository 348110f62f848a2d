"""`codelode index`, `retry`, `cancel`, `remove`, `failures`: what changes or explains the index.

Runs happen in the workers. A command that waits only watches, so an interrupted `--wait` leaves
the run going.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict
from functools import partial
from pathlib import Path

import click

from codelode.cli import printing
from codelode.cli.options import Name, server_option
from codelode.cli.progress import Progress
from codelode.cli.standing import left_out, troubles
from codelode.client import Client, Status, watching
from codelode.counts import counted
from codelode.errors import CodelodeError, Unavailable
from codelode.model import Run, RunState

FAILED = 2

wait_option = click.option(
    "--wait", is_flag=True, help="Show progress until it is done; without, return at once."
)


@click.command()
@click.argument("urls", nargs=-1, required=True, metavar="URL_OR_PATH...")
@click.option("--name", default="", help="Name of the repository. Default: the URL's end.")
@click.option("--ref", default="", help="Branch, tag or commit. Default: the default branch.")
@click.option(
    "--include",
    multiple=True,
    metavar="PATTERN",
    help="Index only files that match this pattern of a .gitignore, or another of them: src/, "
    "*.py. May be given again.",
)
@click.option(
    "--exclude",
    multiple=True,
    metavar="PATTERN",
    help="Leave such files out, whatever else says to take them; '!PATTERN' forces files in that "
    "a pattern before it or the repository leaves out. May be given again.",
)
@click.option(
    "--no-patterns",
    is_flag=True,
    help="Forget the patterns given before, on both sides; those of this call count.",
)
@wait_option
@server_option
@click.pass_context
def index(
    context: click.Context,
    *,
    client: Client,
    urls: tuple[str, ...],
    name: str,
    ref: str,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    no_patterns: bool,
    wait: bool,
) -> None:
    """Bring the index of git repositories up to date; new ones are registered.

    Only what changed since the last time is worked on. A path is one on this machine, and the
    server must be allowed to read it. Exit status: 0 done (or started, without --wait), 2 error.

    Patterns are kept with the repository: all its refs follow them, each with its next run, until
    the same option is given again. What --exclude names is out, what no --include matches is out,
    what --exclude '!PATTERN' or else .codelodeignore forces in is in, and other files are judged by
    their folders (node_modules and the like) and .gitignore. When no --include matches any file,
    that is an error and the index stays as it is. `codelode repos` shows the patterns,
    `codelode failures --all` what they leave out.

    \b
    Examples:
      codelode index https://github.com/psf/requests --wait
      codelode index . ../other --wait
      codelode index git@git.example.com:team/app.git --name team/app --ref release-2
      codelode index https://host/acme/monorepo --include services/ --exclude '*.snap'
      codelode index https://host/acme/monorepo --no-patterns
    """
    if name and len(urls) > 1:
        raise click.UsageError("--name is the name of one repository; index the others apart")
    starts = [
        partial(
            client.index,
            locator(url),
            name=name,
            ref=ref,
            include=_given(include, no_patterns=no_patterns),
            exclude=_given(exclude, no_patterns=no_patterns),
            wait=False,
        )
        for url in urls
    ]
    context.exit(_run_all(client, starts, wait=wait))


@click.command()
@click.argument("name", required=False, type=Name())
@wait_option
@server_option
@click.pass_context
def retry(context: click.Context, *, client: Client, name: str | None, wait: bool) -> None:
    """Try the files that failed once more, of the repository NAME or of all.

    Exit status: 0 done (or started, without --wait, or nothing has failed), 2 error: also when no
    file has failed, but the last run of a repository has.

    \b
    Examples:
      codelode retry
      codelode retry acme/http --wait
    """
    runs = client.retry(name)
    if not runs:
        context.exit(_tell(client.status(), name, good="no file has failed; nothing to retry"))
    context.exit(_run_all(client, [_already(run) for run in runs], wait=wait))


@click.command()
@click.argument("name", required=False, type=Name())
@wait_option
@server_option
@click.pass_context
def enrich(context: click.Context, *, client: Client, name: str | None, wait: bool) -> None:
    """Have the language model describe what it has not described yet, of NAME or of all.

    Needs a cluster with a language model: CODELODE_LANGUAGE_MODEL. What is described already, here
    or in a copy of the same code, is not asked for again.

    \b
    Examples:
      codelode enrich
      codelode enrich acme/http --wait
    """
    runs = client.enrich(name)
    if not runs:
        printing.note("nothing is indexed yet: start with `codelode index URL`")
    context.exit(_run_all(client, [_already(run) for run in runs], wait=wait))


@click.command()
@click.argument("run")
@server_option
def cancel(*, client: Client, run: str) -> None:
    """End the run with the id RUN; what it has indexed so far stays.

    `codelode status` lists the recent runs.
    """
    click.echo(run_line(client.cancel(run)))


@click.command()
@click.argument("name")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@server_option
def remove(*, client: Client, name: str, yes: bool) -> None:
    """Forget the repository NAME and everything indexed of it."""
    if not yes:
        if not sys.stdin.isatty():
            raise click.UsageError("nobody is there to confirm; give --yes")
        click.confirm(f"Remove {name} from the index?", abort=True, err=True)
    client.remove(name)
    printing.note(f"removed {name}")


@click.command()
@click.argument("name", required=False, type=Name())
@click.option("--all", "include_skipped", is_flag=True, help="Files left out by rule as well.")
@click.option(
    "--partial",
    "include_partial",
    is_flag=True,
    help="Indexed files as well that the grammar could not read whole, or that have a note.",
)
@click.option("--json", "as_json", is_flag=True, help="A JSON list for machines.")
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
    """List the files that could not be indexed, with the reason of each.

    Exit status: 0 listed, 2 error: also when the last run of a repository failed as a whole.

    \b
    Examples:
      codelode failures
      codelode failures acme/http --all --json
      codelode failures acme/http --partial
    """
    found = client.failures(name, include_skipped=include_skipped, include_partial=include_partial)
    if as_json:
        click.echo(printing.to_json([asdict(failure) for failure in found]))
        context.exit(_tell(client.status(), name))
    count = 0
    for failure in found:
        count += 1
        place = f"{failure.repository} {failure.ref} {failure.path}"
        click.echo(printing.plain(f"{place}  {failure.state}: {' '.join(failure.reason.split())}"))
    state = client.status()
    rest = "" if include_skipped else left_out(state, name)
    if count:
        printing.note("; ".join(filter(None, (counted(count, "file"), rest))))
        context.exit(_tell(state, name))
    good = _good_news(include_skipped=include_skipped, include_partial=include_partial)
    context.exit(_tell(state, name, good="; ".join(filter(None, (good, rest)))))


def locator(url: str) -> str:
    """A local path made absolute, for the server's working folder is another; URLs as they are."""
    # An empty text would be the folder one is in, and is a variable that a script did not set.
    looks_local = url.startswith((".", "/", "~")) or (url != "" and Path(url).is_dir())
    return str(Path(url).expanduser().resolve()) if looks_local else url


def run_line(run: Run) -> str:
    """`acme/http  complete  120 files, 3 skipped, 1 failed  at 1a2b3c4d5e6f  run 7f…`."""
    parts = [run.repository, printing.run_state(run)]
    if run.state.is_over:
        counts = [counted(run.done, "file"), f"{run.skipped:,} skipped", f"{run.failed:,} failed"]
        parts.append(", ".join(counts))
    if run.revision:
        parts.append(f"at {run.revision[:12]}")
    if run.started_at and run.finished_at:
        parts.append(f"in {run.finished_at - run.started_at:.1f} s")
    parts.append(f"run {run.id}")
    return printing.plain("  ".join(parts))


def _tell(state: Status, name: str | None, *, good: str = "") -> int:
    """Complain of repositories that are in trouble, or give the good news; the exit status."""
    found = troubles(state, name)
    for trouble in found:
        printing.complain(trouble)
    if not found and good:
        printing.note(good)
    return FAILED if found else 0


def _good_news(*, include_skipped: bool, include_partial: bool) -> str:
    if include_skipped:
        return "every file is indexed" + ", and was read whole" * include_partial
    return "no file has failed" + " or was read in part" * include_partial


def _given(patterns: tuple[str, ...], *, no_patterns: bool) -> tuple[str, ...] | None:
    """None: those that are kept stay."""
    return patterns if patterns or no_patterns else None


def _already(run: Run) -> Callable[[], Run]:
    return lambda: run


def _run_all(client: Client, starts: Iterable[Callable[[], Run]], *, wait: bool) -> int:
    """Start every run before waiting for the first; one that fails does not stop the others."""
    runs: list[Run] = []
    status = 0
    for start in starts:
        try:
            runs.append(start())
        except CodelodeError as exc:
            printing.complain(str(exc))
            status = FAILED
    for run in runs:
        end = _wait(client, run) if wait else run
        click.echo(run_line(end))
        if end.state is RunState.COMPLETE and end.summaries_missing:
            printing.note(
                "the language model failed, or what it may be asked is used up: the log of the "
                f"enrich worker says which; `codelode enrich {end.repository}` has the rest written"
            )
        if end.state in (RunState.FAILED, RunState.CANCELLED):
            printing.complain(f"{end.repository}: {end.error or f'the run was {end.state}'}")
            status = FAILED
    return status


def _wait(client: Client, run: Run) -> Run:
    try:
        with Progress() as progress:
            states = client.watch(run, on_silence=lambda lost: progress.note(_silence(lost)))
            for run in states:
                progress(run)
    except KeyboardInterrupt:
        printing.note(f"the run goes on without you; `codelode cancel {run.id}` ends it")
        raise
    except Unavailable as exc:
        raise Unavailable(
            f"gave up waiting, nothing answered for {watching.WATCH_TIMEOUT_S:g} s ({exc}); "
            f"the run {run.id} goes on in the cluster: see `codelode status` when the gateway is "
            "back"
        ) from exc
    return run


def _silence(lost: Unavailable) -> str:
    return f"the gateway does not answer ({lost}); trying on, the run goes on meanwhile"
