"""Split paths into the words that the ranker compares, cached for each path."""

from __future__ import annotations

import re
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
site results man fixture fixtures docs_src
"""
EXAMPLE_FOLDERS = frozenset(_EXAMPLE_FOLDERS.split())


#: Depth from which on more folders do not count.
MAX_DEPTH = 10

#: Suffixes of files that declare what others define: headers of C and C++, types of JavaScript and
#: Python.
_DECLARING = (".h", ".hh", ".hpp", ".hxx", ".d.ts", ".d.cts", ".d.mts", ".pyi")

#: Matches a folder that is named after a version: `v3/` in `src/v3/types.ts`.
_VERSION = re.compile(r"(?:^|/)v(?P<version>\d{1,4})/")


class Tree(NamedTuple):
    """One of several versions of a tree in one folder: `src/v3/`, `src/v4/`."""

    folder: str  # above the versions
    version: int


class PathWords(NamedTuple):
    """The words of a path, case-folded and split inside identifiers, and other facts about it."""

    folder: tuple[str, ...]  # words of the nearest folder's name
    stem: tuple[str, ...]  # words of the file's name
    is_example: bool
    is_declaration: bool
    depth: int  # number of folders that the file is below, at most MAX_DEPTH
    tree: Tree | None  # the version that the file is below; None: no such folder


@lru_cache(MAX_CACHED)
def path_words(path: str) -> PathWords:
    """Split the names of the file and its folder, and recognise the kind of file by its path."""
    outside, _, _ = f"/{path}".casefold().rpartition("/")[0].partition(PACKAGES)
    found = _VERSION.search(path)
    return PathWords(
        folder=words_of(folder_of(path)),
        stem=words_of(stem_of(path)),
        is_example=any(name.strip("_") in EXAMPLE_FOLDERS for name in outside.split("/")),
        is_declaration=path.casefold().endswith(_DECLARING),
        depth=min(path.count("/"), MAX_DEPTH),
        tree=Tree(path[: found.start()], int(found["version"])) if found else None,
    )


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
