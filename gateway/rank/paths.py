"""Split paths into the words that the ranker compares, and recognise kinds of files by them."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from codelode import tokens

#: Maximum number of paths that are cached, and of names; each entry takes about 400 bytes.
MAX_CACHED = 1 << 15

#: Names of folders below this one are those of Java packages and say nothing about the kind of
#: file: `src/main/java/tools/jackson` holds no tools.
JAVA_SOURCE_ROOT = "/src/main/"

#: Names of folders with code that shows or checks other code, such as examples and benchmarks.
_EXAMPLE_FOLDERS = """
example examples sample samples demo demos sandbox sandboxes playground playgrounds tutorial
tutorials benchmark benchmarks bench benches script scripts tool tools contrib scratch www website
site results man fixture fixtures docs_src
"""
EXAMPLE_FOLDERS = frozenset(_EXAMPLE_FOLDERS.split())

#: Words in the names of files, or names of folders, that hold settings and their defaults.
SETTINGS = frozenset(
    {"config", "conf", "configuration", "settings", "options", "defaults", "preferences"}
)

#: Depth above which a file does not count as deeper.
MAX_DEPTH = 10

#: Suffixes of files that declare what other files define: headers of C and C++, and files of types
#: of TypeScript and Python.
_DECLARING = (".h", ".hh", ".hpp", ".hxx", ".d.ts", ".d.cts", ".d.mts", ".pyi")

#: Matches a folder that is named after a version: `v3/` in `src/v3/types.ts`.
_VERSION = re.compile(r"(?:^|/)v(?P<version>\d{1,4})/")


class VersionFolder(NamedTuple):
    """A folder that is named after a version, such as `src/v3/`, which `src/v4/` may supersede."""

    parent: str  # the path of its parent folder: `src`
    version: int


class PathWords(NamedTuple):
    """The words in a path, case-folded and split inside identifiers, and the kind of file."""

    folder: tuple[str, ...]  # words of the nearest folder's name
    stem: tuple[str, ...]  # words of the file's name
    is_example: bool
    is_declaration: bool
    is_of_settings: bool
    depth: int  # number of folders that contain the file, at most MAX_DEPTH
    version_folder: VersionFolder | None  # the outermost one that contains the file


@lru_cache(MAX_CACHED)
def path_words(path: str) -> PathWords:
    """Split the names of the file and its folder, and recognise the kind of file by its path."""
    before_packages, _, _ = f"/{path}".casefold().rpartition("/")[0].partition(JAVA_SOURCE_ROOT)
    found = _VERSION.search(path)
    folder, stem = words_of(folder_of(path)), words_of(stem_of(path))
    return PathWords(
        folder=folder,
        stem=stem,
        is_example=any(name.strip("_") in EXAMPLE_FOLDERS for name in before_packages.split("/")),
        is_declaration=path.casefold().endswith(_DECLARING),
        is_of_settings=not SETTINGS.isdisjoint((*stem, *folder[-1:])),
        depth=min(path.count("/"), MAX_DEPTH),
        version_folder=(
            VersionFolder(path[: found.start()], int(found["version"])) if found else None
        ),
    )


def repository_words(repository: str) -> tuple[str, ...]:
    """Return the words of the last part of a repository's name: `acme/http-kit` → `http`, `kit`."""
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
    """Return the words of all identifiers in a name: `retry-callOnce` → `retry`, `call`, `once`."""
    return tuple(word for part in tokens.identifiers(name) for word in tokens.words(part))
