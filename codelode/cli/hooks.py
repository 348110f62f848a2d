"""`codelode hooks install`, `uninstall`, `status`: index each commit through git hooks."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from codelode.checkouts.checkout import Checkout, checkout_at
from codelode.checkouts.hooks import Hooks
from codelode.cli import printing
from codelode.environment import client_variables

path_argument = click.argument("path", default=".", type=click.Path(path_type=Path))
name_option = click.option(
    "--name",
    default="",
    help="Index the checkout under this name. Default: the name that it is registered under, or "
    "else that of its folder.",
)


@click.group()
def hooks() -> None:
    """Index each commit of a checkout through git hooks.

    The hooks post-commit, post-merge, post-checkout, and post-rewrite have the cluster index the
    branch that is checked out. They do so in the background, so that no git command waits or fails
    because of them, and write to codelode-hooks.log in the git directory. Existing hooks are kept
    and run afterwards. The hooks are installed where git looks for them: in the folder of
    core.hooksPath, if that is set. They apply to all linked work trees of the repository.
    """


@hooks.command()
@path_argument
@name_option
def install(*, path: Path, name: str) -> None:
    """Add or renew the hooks of the checkout at PATH.

    Run `codelode index PATH` once before this command, so that the default ref of the repository is
    its default branch and not the first branch that a hook indexes. Client variables that are set
    now, such as CODELODE_SERVER, are written into the hooks; a token is not.

    \b
    Examples:
      codelode hooks install
      codelode hooks install ~/src/app --name team/app
    """
    checkout = checkout_at(path)
    found = _hooks(checkout, name)
    found.install()
    _list(found)
    if checkout.hooks_dir.is_relative_to(checkout.root) and not checkout.hooks_dir.is_relative_to(
        checkout.common_dir
    ):
        printing.note(
            f"note: {checkout.hooks_dir} is part of the checkout, so git shows the change"
        )


@hooks.command()
@path_argument
def uninstall(*, path: Path) -> None:
    """Remove the hooks of the checkout at PATH.

    Other hooks are restored as they were before.
    """
    found = _hooks(checkout_at(path), "")
    found.uninstall()
    _list(found)


@hooks.command()
@path_argument
@name_option
def status(*, path: Path, name: str) -> None:
    """Show which hooks of the checkout at PATH index its commits.

    The output of their last call is shown too. A hook is outdated if `install` with the same
    options would write it differently.
    """
    found = _hooks(checkout_at(path), name)
    _list(found)
    if found.log.exists():
        said = found.log.read_text("utf-8", "replace").strip() or "nothing yet"
        at = printing.moment(found.log.stat().st_mtime)
        click.echo(printing.plain(f"last call, {at}: {said}"))


def _hooks(checkout: Checkout, name: str) -> Hooks:
    named = ("--name", name) if name else ()
    command = (sys.executable, "-P", "-m", "codelode", "index", str(checkout.source), *named)
    return Hooks(checkout, command, client_variables())


def _list(found: Hooks) -> None:
    click.echo(printing.plain(f"hooks in {found.checkout.hooks_dir}"))
    for name, state in found.states().items():
        click.echo(f"  {name:<14} {state}")
