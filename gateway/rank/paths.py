"""Split paths into the words that the ranker compares, cached for each path."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from codelode import tokens

#: Most paths, and most names, that are cached; about 400 bytes each.
MAX_CACHED = 1 << 15

#: Folders below this one are Java packages: `src/main/java/tools/jackson` holds no tools.
PACKAGES = "/src/main/"

#: Names of folders with examples, benchmarks, scripts and the like.
_EXAMPLE_FOLDERS = """
example examples sample samples demo demos sandbox sandboxes playground playgrounds tutorial
tutorials benchmark benchmarks bench benches script scripts tool tools contrib scratch www website
site results man fixture fixtures
"""
EXAMPLE_FOLDERS = frozenset(_EXAMPLE_FOLDERS.split())


class PathWords(NamedTuple):
    """The words of a path, case-folded, split inside identifiers."""

    folder: tuple[str, ...]  # words of the nearest folder's name
    stem: tuple[str, ...]  # words of the file's name
    is_example: bool


@lru_cache(MAX_CACHED)
def path_words(path: str) -> PathWords:
    """Split the names of the file and its folder; recognise examples by the folders of the path."""
    outside, _, _ = f"/{path}".casefold().rpartition("/")[0].partition(PACKAGES)
    is_example = not EXAMPLE_FOLDERS.isdisjoint(outside.split("/"))
    return PathWords(words_of(folder_of(path)), words_of(stem_of(path)), is_example)


def repository_words(repository: str) -> tuple[str, ...]:
    """Return the words of the last part of a repository's name."""
    return words_of(repository.rpartition("/")[2])


def stem_of(path: str) -> str:
    """Return the file name without suffix: `src/client.ts` → `client`, `.env` → `env`."""
    name = path.rpartition("/")[2].lstrip(".")
    return name.rpartition(".")[0] or name


def folder_of(path: str) -> str:
    """Return the name of the nearest folder: `src/http/client.ts` → `http`; empty at the root."""
    return path.rpartition("/")[0].rpartition("/")[2]


@lru_cache(MAX_CACHED)
def words_of(name: str) -> tuple[str, ...]:
    """Return the words of all identifiers in a name."""
    return tuple(word for part in tokens.identifiers(name) for word in tokens.words(part))
