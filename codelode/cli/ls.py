"""`codelode ls`: list what a folder of an indexed repository contains."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import click

from codelode.cli import printing, terminal
from codelode.cli.options import json_option, ref_option, repository_option, server_option
from codelode.counts import counted
from codelode.display import quoted

if TYPE_CHECKING:
    from codelode.client import Client, Folder, FolderEntry


@click.command()
@click.argument("path", metavar="[FOLDER]", default="")
@repository_option("List a folder of this repository. Default: the only one that is indexed.")
@ref_option
@json_option
@server_option
def ls(*, client: Client, path: str, repository: str, ref: str, as_json: bool) -> None:
    """List the folders and files in a folder, or in the root of the repository.

    Each line is a path that `codelode read` takes. Folders come first and end with a slash. The
    state follows a file that is not in the index: pending, failed, or skipped, which means left out
    on purpose; `codelode failures --all` says why.

    \b
    Examples:
      codelode ls
      codelode ls src/http --repo acme/http --ref v2
      codelode ls src --json | jq -r '.entries[].name'
    """
    found = _listed(client, path, repository=repository, ref=ref)
    if as_json:
        click.echo(printing.to_json(asdict(found)))
        return
    if found.entries:
        terminal.show("\n".join(_line(found.path, one) for one in found.entries))
    printing.note(_summary(found))


def _listed(client: Client, path: str, *, repository: str, ref: str) -> Folder:
    """Return the folder with the entries of all pages."""
    page = client.folder(path, repository=repository, ref=ref)
    entries = [*page.entries]
    while page.next_page_token:
        page = client.folder(
            path, repository=page.repository, ref=ref, page_token=page.next_page_token
        )
        entries += page.entries
    return replace(page, entries=tuple(entries))


def _line(folder: str, entry: FolderEntry) -> str:
    """Return `src/http/` or `src/client.py` or `src/logo.png  (skipped)`."""
    path = quoted(f"{folder}/{entry.name}" if folder else entry.name)
    if entry.is_folder:
        return click.style(f"{path}/", fg="blue")
    return path if entry.state == "indexed" else click.style(f"{path}  ({entry.state})", dim=True)


def _summary(found: Folder) -> str:
    """Return `acme/http src at 1f2e3d4: 2 folders, 1 file`."""
    at = f" at {found.revision[:7]}" if found.revision else ""
    folders = sum(one.is_folder for one in found.entries)
    files = len(found.entries) - folders
    what = f"{counted(folders, 'folder')}, {counted(files, 'file')}"
    return f"{found.repository} {quoted(found.path) or '/'}{at}: {what}"
