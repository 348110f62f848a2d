"""What the ranker asks of where a chunk stands, found once for each path and remembered."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from codelode import tokens

#: Paths, and names, that are remembered, about 400 bytes each.
REMEMBERED = 1 << 15

#: Below this folder stand packages, whose names say nothing: `src/main/java/tools/jackson`.
PACKAGES = "/src/main/"

#: Folders of code that shows or measures other code.
_EXAMPLE_FOLDERS = """
example examples sample samples demo demos sandbox sandboxes playground playgrounds tutorial
tutorials benchmark benchmarks bench benches script scripts tool tools contrib scratch www website
site results man fixture fixtures
"""
EXAMPLE_FOLDERS = frozenset(_EXAMPLE_FOLDERS.split())


class Place(NamedTuple):
    """A path as the features see it. Words are those inside identifiers, case-folded."""

    folder: tuple[str, ...]  # words of the nearest folder's name
    stem: tuple[str, ...]  # words of the file's name
    is_example: bool


@lru_cache(REMEMBERED)
def place(path: str) -> Place:
    outside, _, _ = f"/{path}".casefold().rpartition("/")[0].partition(PACKAGES)
    is_example = not EXAMPLE_FOLDERS.isdisjoint(outside.split("/"))
    return Place(words_of(folder_of(path)), words_of(stem_of(path)), is_example)


def repository_words(repository: str) -> tuple[str, ...]:
    """The words of the last part of a repository's name."""
    return words_of(repository.rpartition("/")[2])


def stem_of(path: str) -> str:
    """`src/http/client.ts` → `client`, `Sql.Async.cs` → `Sql.Async`, `.env` → `env`."""
    name = path.rpartition("/")[2].lstrip(".")
    return name.rpartition(".")[0] or name


def folder_of(path: str) -> str:
    """`src/http/client.ts` → `http`; empty at the root."""
    return path.rpartition("/")[0].rpartition("/")[2]


@lru_cache(REMEMBERED)
def words_of(name: str) -> tuple[str, ...]:
    """The words of all identifiers in a name."""
    return tuple(word for part in tokens.identifiers(name) for word in tokens.words(part))
