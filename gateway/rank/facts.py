"""What the ranker asks of a chunk whatever the query, found once and remembered.

Splitting the names of 200 chunks takes longer than the rest of a search, and the chunks of one
query come back with the next. A chunk's id says where it stands and what it holds; what it is
named can change with the parser, so both are the key.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from functools import lru_cache

from codelode import tokens
from codelode.model import Chunk

#: Chunks that are remembered, about 4 kB each.
REMEMBERED = 1 << 13

#: Below this folder stand packages, whose names say nothing: `src/main/java/tools/jackson`.
PACKAGES = "/src/main/"

#: A longer name is looked at in full: it may be no identifier.
QUICK_CHARS = tokens.MAX_IDENTIFIER_CHARS // 2

#: Folders of code that shows or measures other code.
_EXAMPLE_FOLDERS = """
example examples sample samples demo demos sandbox sandboxes playground playgrounds tutorial
tutorials benchmark benchmarks bench benches script scripts tool tools contrib scratch www website
site results man fixture fixtures
"""
EXAMPLE_FOLDERS = frozenset(_EXAMPLE_FOLDERS.split())


@dataclass(frozen=True, slots=True)
class Facts:
    """A chunk as the features see it. Words are those inside identifiers, case-folded."""

    file: tuple[str, str]
    place: tuple[str, str, int, str]
    text: str  # its content, case-folded
    repository: tuple[str, ...]  # words of the last part of the repository's name
    folder: tuple[str, ...]  # words of the nearest folder's name
    stem: tuple[str, ...]  # words of the file's name
    terms: frozenset[str]  # index terms of all names it has
    symbol: str  # what it is mainly about, as `spelling` gives it
    defined: frozenset[str]  # what starts in it, likewise
    is_constructor: bool  # `Client.Client`: named as its class, and not what that name asks for
    is_example: bool


def facts(chunk: Chunk) -> Facts:
    """The chunk's facts, made or remembered."""
    key = (chunk.id, chunk.symbol, chunk.symbols)
    found = remembered.get(key)
    if found is None:
        if len(remembered) >= REMEMBERED:  # the oldest goes; to drop all takes 10 ms
            remembered.popitem(last=False)
        found = remembered[key] = _facts(chunk)
    return found


remembered: OrderedDict[tuple[str, str, tuple[str, ...]], Facts] = OrderedDict()


def _facts(chunk: Chunk) -> Facts:
    folder, stem, is_example = _of_path(chunk.path)
    names = "\n".join((chunk.symbol, *chunk.symbols))
    symbol, *defined = _spellings(names)
    return Facts(
        file=(chunk.repository, chunk.path),
        place=(chunk.repository, chunk.path, chunk.start_line, chunk.id),
        text=chunk.content.casefold(),
        repository=words_of(chunk.repository.rpartition("/")[2]),
        folder=folder,
        stem=stem,
        terms=frozenset(tokens.terms(names)),
        symbol=symbol,
        defined=frozenset(filter(None, defined)),
        is_constructor=is_constructor(chunk.symbol),
        is_example=is_example,
    )


@lru_cache(REMEMBERED)
def _of_path(path: str) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
    """Words of its folder and of its stem, and whether it is an example's."""
    outside, _, _ = f"/{path}".casefold().rpartition("/")[0].partition(PACKAGES)
    folders = outside.split("/")
    is_example = not EXAMPLE_FOLDERS.isdisjoint(folders)
    return words_of(folder_of(path)), words_of(stem_of(path)), is_example


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


def is_constructor(symbol: str) -> bool:
    """`Client.Client` of C++, C#, Java and their like."""
    *_, outer, name = ("", *symbol.split("."))
    return bool(name) and name == outer


def spelling(name: str) -> str:
    """One spelling for the last part of a name: `Http.getUser()` and `get_user` → `getuser`."""
    terms = tokens.terms(name)  # of the last identifier the whole comes last
    return terms[-1] if terms else ""


def _spellings(names: str) -> list[str]:
    """The spelling of each line; nearly all need no splitting into words."""
    quick = names.replace("_", "").lower() if names.isascii() else "\n" * names.count("\n")
    return [
        last
        if (last := line.rpartition(".")[2]).isalnum() and len(last) <= QUICK_CHARS
        else spelling(name)
        for line, name in zip(quick.split("\n"), names.split("\n"), strict=True)
    ]
