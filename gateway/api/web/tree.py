"""Show the folder of a file, and the folders above it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from codelode.errors import NotFound
from gateway import service
from gateway.api.rest.calls import Call
from gateway.api.web.links import link
from gateway.service.folders import FolderEntry
from gateway.service.requests import FilesRequest
from gateway.service.results import FileList

#: Maximum number of entries of a folder beside a file; the page of the folder has more.
MAX_ENTRIES = 200
#: Maximum number of folders above a file that are shown; the crumbs have all of them.
MAX_DEPTH = 12


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """A file or a folder, with its content if it is open."""

    name: str
    path: str
    url: str  # empty: the file cannot be read
    is_folder: bool
    state: str
    is_current: bool = False
    inside: TreeLevel | None = None
    part_url: str = ""  # returns the content of a folder as HTML


@dataclass(frozen=True, slots=True)
class TreeLevel:
    """The entries of a folder."""

    entries: tuple[TreeEntry, ...]
    more: int  # entries that are left out
    more_url: str


@dataclass(frozen=True, slots=True)
class Crumb:
    """A folder above a file, or the file."""

    name: str
    url: str


async def around(call: Call, repository: str, ref: str, path: str) -> TreeLevel | None:
    """Return the root, with the folders that lead to the file open; None if they are gone."""
    folders = _folders(path)[-MAX_DEPTH:]
    inside: TreeLevel | None = None
    try:
        for folder in reversed(folders):
            given = FilesRequest(repository, ref, folder, MAX_ENTRIES)
            found = await service.files(call.dependencies, call.principal, given)
            inside = _opened(level(found, ref), path, inside)
    except NotFound:  # a run has removed the file meanwhile
        return None
    return inside


def level(found: FileList, ref: str) -> TreeLevel:
    """Return what a folder contains."""
    place = {"repository": found.repository, "ref": ref}
    prefix = f"{found.path}/" if found.path else ""
    return TreeLevel(
        tuple(_entry(one, f"{prefix}{one.name}", place) for one in found.entries),
        found.entry_count - len(found.entries),
        link("/code", **place, path=prefix),
    )


def crumbs(repository: str, ref: str, path: str) -> list[Crumb]:
    """Return the repository, the folders of the path, and the file if there is one."""
    place = {"repository": repository, "ref": ref}
    found = [Crumb(repository, link("/code", **place))]
    found += [
        Crumb(folder.rpartition("/")[2], link("/code", **place, path=f"{folder}/"))
        for folder in _folders(path)[1:]
    ]
    name = path.rpartition("/")[2]
    return [*found, Crumb(name, "")] if name else found


def _folders(path: str) -> list[str]:
    """Return the folders that lead to a file, from the root: `"a/b/c"` → `["", "a", "a/b"]`."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[:count]) for count in range(len(parts) + 1)]


def _entry(one: FolderEntry, path: str, place: Mapping[str, str]) -> TreeEntry:
    if one.is_folder:
        url = link("/code", **place, path=f"{path}/")
        part_url = link("/code/tree", **place, path=path)
        return TreeEntry(one.name, path, url, True, "", part_url=part_url)
    url = link("/code", **place, path=path) if one.state == "indexed" else ""
    return TreeEntry(one.name, path, url, False, "" if url else one.state)


def _opened(shown: TreeLevel, path: str, inside: TreeLevel | None) -> TreeLevel:
    """Return the level, with the entry that leads to the path open."""
    return replace(
        shown,
        entries=tuple(
            replace(one, is_current=one.path == path, inside=inside)
            if path == one.path or path.startswith(f"{one.path}/")
            else one
            for one in shown.entries
        ),
    )
