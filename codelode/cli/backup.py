"""`codelode backup` and `codelode restore`: save a whole cluster to a folder, and restore it."""

from __future__ import annotations

import time
from pathlib import Path

import click

from codelode.cli import printing
from codelode.cli.options import Folder
from codelode.cli.stores import data_option, stores
from codelode.counts import counted
from codelode.operations import backup as backups
from codelode.operations.backup import Manifest

folder_argument = click.argument("folder", type=Folder())


@click.command()
@folder_argument
@click.option(
    "--mirrors",
    is_flag=True,
    help="Also save the git mirrors, which would otherwise be cloned again after a restore.",
)
@data_option
def backup(*, folder: Path, mirrors: bool, data: Path | None) -> None:
    """Save index, ledger, graph, and symbol table to FOLDER, which must be new or empty.

    Run it on a machine that reaches the stores, with the settings of the workers. The cluster may
    run: searches continue, and writes of the workers wait for a moment. Weaviate saves its chunks
    to the backup folder of its server; keep that folder together with FOLDER.

    \b
    Examples:
      codelode backup /backups/codelode-monday
      codelode backup --mirrors /backups/whole
    """
    with stores(data) as settings:
        made = backups.save(settings, folder, with_mirrors=mirrors, tell=printing.note)
    click.echo(printing.plain(f"saved {_content(made)} to {folder}"))
    if "backup" in made.facts:
        printing.note(
            f"the chunks are in Weaviate's own backup {made.facts['backup']}, in the folder "
            "BACKUP_FILESYSTEM_PATH of its server"
        )


@click.command()
@folder_argument
@click.option("--force", is_flag=True, help="Replace what is indexed here.")
@data_option
def restore(*, folder: Path, force: bool, data: Path | None) -> None:
    """Restore what `codelode backup` saved to FOLDER; the cluster must be stopped.

    The whole backup is checked before anything changes. Runs that were under way start again with
    the cluster; `codelode index` brings repositories up to date.

    \b
    Examples:
      codelode restore /backups/codelode-monday
      codelode restore --force /backups/codelode-monday
    """
    with stores(data, is_stopped=True) as settings:
        made = backups.restore(settings, folder, is_forced=force, tell=printing.note)
    click.echo(printing.plain(f"restored {_content(made)}"))


def _content(made: Manifest) -> str:
    """Return `12 repositories, 34,567 chunks of 2026-11-21 17:04`."""
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(made.made_at))
    repositories, chunks = counted(made.repositories, "repository"), counted(made.chunks, "chunk")
    return f"{repositories}, {chunks} of {when}"
