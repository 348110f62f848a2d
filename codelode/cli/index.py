"""`codelode index`, `default`, `retry`, `enrich`, `cancel`, `remove`: change the index.

The workers do the work of a run. A command with `--wait` only watches, so interrupting it does not
stop the run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from codelode.access import Label
from codelode.cli import printing
from codelode.cli.failures import FAILED, report_failed, report_troubles
from codelode.cli.fields import in_own_terms
from codelode.cli.options import Name, server_option
from codelode.cli.progress import Progress
from codelode.client import watching
from codelode.client.locator import locator
from codelode.display import quoted
from codelode.errors import CodelodeError, Unavailable
from codelode.model import Run, RunState
from codelode.text.runs import run_line

if TYPE_CHECKING:
    from codelode.client import Client

wait_option = click.option(
    "--wait", is_flag=True, help="Show progress until the run is over instead of returning at once."
)


@click.command()
@click.argument("urls", nargs=-1, required=True, metavar="URL_OR_PATH...")
@click.option(
    "--name",
    default="",
    help="Register the repository under this name. Default: the name that its URL is registered "
    "under, or else the end of the URL.",
)
@click.option(
    "--ref",
    default="",
    help="Index this branch, tag, or commit. Default: the repository's default ref.",
)
@click.option(
    "--label",
    type=click.Choice([label.value for label in Label]),
    help="Let callers who are not admins see the repository: all of them (public), those whose "
    "globs match its name (internal), or those with its name as a glob (private). Default: the "
    "label does not change; a new repository has none.",
)
@click.option(
    "--include",
    multiple=True,
    metavar="PATTERN",
    help="Index only files that match this pattern, written as in a .gitignore, for example src/ "
    "or *.py; repeatable.",
)
@click.option(
    "--exclude",
    multiple=True,
    metavar="PATTERN",
    help="Leave out files that match this pattern, even if --include matches them; '!PATTERN' "
    "includes files that an earlier pattern or the repository leaves out; repeatable.",
)
@click.option(
    "--no-patterns",
    is_flag=True,
    help="Discard the stored include and exclude patterns, and use only those of this call.",
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
    label: str | None,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    no_patterns: bool,
    wait: bool,
) -> None:
    """Bring the index of git repositories up to date, registering new ones.

    Only files that changed since the last run are processed. A path is a path on this machine that
    the server must be allowed to read. Exit status: 0 done (or started, without --wait), 2 error.

    Searches without --ref use the default ref. The first run without --ref chooses it: the default
    branch of the remote; for a checkout, the default branch of its remote, else main or master, and
    only without these the branch that is checked out. It stays the default until `codelode default`
    changes it or its branch is deleted; for a repository of a connection in the sources file, it
    follows the host. The run also removes branches and tags from the index that the source no
    longer has.

    Patterns are stored with the repository. They apply to each of its refs from the next run of the
    ref on, until the same option is given again. A file that --exclude matches or that no --include
    matches is left out; a file that --exclude '!PATTERN' or .codelodeignore includes is indexed;
    otherwise its folders (node_modules and the like) decide. A .gitignore does not affect files
    that git tracks. If no file matches any --include, the run fails and the index does not change;
    the patterns stay stored until others or --no-patterns are given. `codelode repos` shows the
    patterns, `codelode failures --all` the files that they leave out.

    \b
    Examples:
      codelode index https://github.com/psf/requests --wait
      codelode index . ../other --wait
      codelode index git@git.example.com:team/app.git --name team/app --ref release-2
      codelode index https://host/acme/monorepo --include services/ --exclude '*.snap'
      codelode index https://host/acme/monorepo --no-patterns
    """
    if name and len(urls) > 1:
        raise click.UsageError("--name is the name of one repository; index the others separately")
    starts = [
        partial(
            client.index,
            locator(url),
            name=name,
            ref=ref,
            label=label or "",
            include=_given(include, no_patterns=no_patterns),
            exclude=_given(exclude, no_patterns=no_patterns),
            wait=False,
        )
        for url in urls
    ]
    context.exit(_run_all(client, starts, wait=wait, given=urls))


@click.command()
@click.argument("name")
@click.argument("ref")
@wait_option
@server_option
@click.pass_context
def default(context: click.Context, *, client: Client, name: str, ref: str, wait: bool) -> None:
    """Make REF the default ref of the repository NAME, and index it.

    Searches without --ref use the default ref, and `codelode index` without --ref brings it up to
    date. HEAD stands for the default branch of the source; a repository of a connection in the
    sources file then follows its changes. Until the run is over, a search finds some files of the
    old default ref and some of the new one. If the source has no such ref, the run fails and the
    default ref does not change; only with --wait does the command report this.

    \b
    Examples:
      codelode default acme/http release-2 --wait
      codelode default acme/http HEAD --wait
    """
    context.exit(_run_all(client, [partial(client.set_default, name, ref)], wait=wait))


@click.command()
@click.argument("name", required=False, type=Name())
@wait_option
@server_option
@click.pass_context
def retry(context: click.Context, *, client: Client, name: str | None, wait: bool) -> None:
    """Try failed files again, those of the repository NAME or of all repositories.

    Exit status: 0 done (or started, without --wait, or nothing has failed), 2 error, or a run has
    failed as a whole, so that there are no files to retry.

    \b
    Examples:
      codelode retry
      codelode retry acme/http --wait
    """
    runs = client.retry(name)
    if not runs:
        context.exit(
            report_troubles(client.status(), name, good="no file has failed; nothing to retry")
        )
    context.exit(_run_all(client, [_already(run) for run in runs], wait=wait))


@click.command()
@click.argument("name", required=False, type=Name())
@wait_option
@server_option
@click.pass_context
def enrich(context: click.Context, *, client: Client, name: str | None, wait: bool) -> None:
    """Write missing summaries, for the repository NAME or for all repositories.

    Needs a cluster with a language model (CODELODE_LANGUAGE_MODEL). Code that was summarised
    before, here or in a copy, is not sent to the model again.

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
    """End the run with the id RUN; what it has indexed so far stays in the index.

    `codelode status` lists the recent runs.
    """
    click.echo(run_line(client.cancel(run)))


@click.command()
@click.argument("name")
@click.argument("label", type=click.Choice([*(label.value for label in Label), "none"]))
@server_option
def label(*, client: Client, name: str, label: str) -> None:
    """Decide who sees the repository NAME, which may be a glob such as 'payments/*'.

    Everyone sees a public repository. An internal one is seen by callers whose key or entry in the
    access file has a glob that matches its name, and a private one by those with a glob that equals
    its name, without wildcards. With the label none, which a new repository has, only admins see
    it. Admins see all repositories, but a key with globs sees only those that the globs match.

    \b
    Examples:
      codelode label acme/http public
      codelode label 'payments/*' internal
    """
    for labelled in client.label(name, "" if label == "none" else label):
        click.echo(printing.plain(f"{labelled}  {label}"))


@click.command()
@click.argument("name")
@click.option("--ref", help="Remove only this branch, tag, or commit of the repository.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@server_option
def remove(*, client: Client, name: str, ref: str | None, yes: bool) -> None:
    """Remove the repository NAME and everything that is indexed of it.

    With --ref, content that other refs share with the removed one stays. The default ref can only
    be removed after `codelode default` has chosen another. Removing the last ref removes the
    repository. Branches and tags that the source no longer has need not be removed: the next run of
    the repository does so.

    \b
    Examples:
      codelode remove acme/http
      codelode remove acme/http --ref release-1 --yes
    """
    if ref is not None and not ref.strip():  # usually a variable that a script did not set
        raise click.UsageError("--ref is empty; name a ref, or leave it out for all of them")
    what = f"{name}@{ref}" if ref else name
    if not yes:
        if not sys.stdin.isatty():
            raise click.UsageError("there is no terminal to confirm on; give --yes")
        click.confirm(f"Remove {what} from the index?", abort=True, err=True)
    client.remove(name, ref=ref or "")
    printing.note(f"removed {what}")


def _given(patterns: tuple[str, ...], *, no_patterns: bool) -> tuple[str, ...] | None:
    """Return the patterns to send; None keeps those that are stored."""
    return patterns if patterns or no_patterns else None


def _already(run: Run) -> Callable[[], Run]:
    return lambda: run


def _run_all(
    client: Client, starts: Sequence[Callable[[], Run]], *, wait: bool, given: Sequence[str] = ()
) -> int:
    """Start every run before waiting for the first; a failed one does not stop the others.

    Return the exit status. `given`: the argument of each run; errors name it if there are several.
    """
    runs: list[Run] = []
    status = 0
    for number, start in enumerate(starts):
        try:
            runs.append(start())
        except CodelodeError as exc:
            complain_of(exc, given[number] if len(given) > 1 else "")
            status = FAILED
    for run in runs:
        end = waited(client, run) if wait else run
        click.echo(run_line(end))
        if wait:
            report_failed(client, end)
        for notice in end.notices:
            printing.note(f"{end.repository}: {notice}")
        if end.state is RunState.COMPLETE and end.summaries_missing:
            printing.note(
                "the language model failed or its budget is used up; the log of the enrich worker "
                f"says which. `codelode enrich {end.repository}` writes the missing summaries"
            )
        if end.state in (RunState.FAILED, RunState.CANCELLED):
            printing.complain(f"{end.repository}: {end.error or f'the run was {end.state}'}")
            status = FAILED
    return status


def complain_of(exc: CodelodeError, argument: str = "") -> None:
    """Print an error on stderr, after the argument of the command that caused it."""
    told = in_own_terms(exc, click.get_current_context().command)
    printing.complain(f"{quoted(argument)}: {told}" if argument.strip() else str(told))


def waited(client: Client, run: Run) -> Run:
    """Show the progress of a run until it is over, and return it."""
    try:
        with Progress() as progress:
            states = client.watch(run, on_silence=lambda lost: progress.note(_silence(lost)))
            for run in states:
                progress(run)
    except KeyboardInterrupt:
        printing.note(f"the run continues in the cluster; `codelode cancel {run.id}` ends it")
        raise
    except Unavailable as exc:
        raise Unavailable(
            f"stopped waiting: no answer for {watching.WATCH_TIMEOUT_S:g} s ({exc}); "
            f"the run {run.id} continues in the cluster: see `codelode status` when the gateway is "
            "back"
        ) from exc
    return run


def _silence(lost: Unavailable) -> str:
    return f"the gateway does not answer ({lost}); trying again while the run continues"
