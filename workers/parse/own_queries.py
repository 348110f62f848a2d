"""Run queries that users write in place of the built-in query of a language.

They are in a repository (`.codelode/queries/<language>.scm`) or in the operator's folder, and may
begin with `; inherits: <language>` to extend a built-in one. They are not trusted: their size and
their time per file are bounded. If one fails, the file's health reports it, and the built-in query
is used. A query that takes too long twice is switched off for its repository.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from tree_sitter import Node, Query, QueryCursor

from codelode.languages import BY_NAME, QUERIES_FOLDER
from codelode.model import Kind
from workers import confined
from workers.parse import grammars
from workers.parse.grammars import Matches

SUFFIX = ".scm"

#: Paths at which a repository may have queries. Nothing else in that folder is read.
PATHS = tuple(f"{QUERIES_FOLDER}{language}{SUFFIX}" for language in BY_NAME)

#: Maximum size of a query file, bytes. Built-in queries have at most 3 kB.
MAX_QUERY_BYTES = 64_000

#: Time limit of a query for one file, seconds. A built-in query takes a few milliseconds.
MAX_QUERY_S = 2.0

#: Maximum number of states of unfinished matches, which grows fast with wildcards in a query.
_MATCH_LIMIT = 10_000

_CAPTURES = frozenset(
    {"name", "scope", "namespace", "receiver", "exported", "import", "body", "open", "doc"}
    | {f"definition.{kind}" for kind in Kind}
)


@dataclass(frozen=True, slots=True)
class OwnQuery:
    """The query that a user has written for one language."""

    language: str
    source: str
    origin: str  # its path as its author knows it, for messages
    fault: str = ""  # why it cannot be used, if that is known without compiling it
    repository: str = ""  # the repository for whose files it is used

    def matches(self, root: Node) -> Matches | str:
        """Return its matches in a tree, or the reason why it cannot be used."""
        query = self.fault or _compiled(self.language, self.source)
        if isinstance(query, str):
            return query
        if _slow[self] >= MAX_SLOW:
            return f"it took longer than {MAX_QUERY_S:g} s {MAX_SLOW} times, so it is switched off"
        started = time.monotonic()
        # A query cannot be stopped otherwise: the library holds the interpreter lock, and its
        # progress callback crashes on trees of a few dozen nodes (tree-sitter 0.26.1).
        reason = confined.tried(partial(_run, query, root), MAX_QUERY_S)
        _slow[self] += time.monotonic() - started > MAX_QUERY_S
        return reason or _run(query, root)


#: Number of time-outs after which a process no longer runs a query for a repository.
MAX_SLOW = 2

#: Number of time-outs of each query in this process. A changed query starts again from zero.
_slow: Counter[OwnQuery] = Counter()

OwnQueries = Mapping[str, OwnQuery]  # by language

NONE: OwnQueries = {}


def load(files: Iterable[tuple[str, bytes]], *, origin: str = "") -> dict[str, OwnQuery]:
    """Return the queries in these files, without those not named after a language.

    Content may be cut after MAX_QUERY_BYTES + 1 bytes: the query of a larger file has a fault.
    """
    found: dict[str, OwnQuery] = {}
    for name, data in files:
        language = name.removesuffix(SUFFIX)
        if name.endswith(SUFFIX) and language in BY_NAME:
            is_large = len(data) > MAX_QUERY_BYTES
            found[language] = OwnQuery(
                language=language,
                source="" if is_large else data.decode("utf-8", "replace"),
                origin=f"{origin}{name}",
                fault=f"it is larger than {MAX_QUERY_BYTES} bytes" if is_large else "",
            )
    return found


def in_folder(folder: Path) -> dict[str, OwnQuery]:
    """Return the queries of the operator's folder; none if there is no such folder."""
    files = sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []
    return load((file.name, _head(file)) for file in files)


def of_operator(folder: str) -> OwnQueries:
    """Read the queries of the folder in the settings, which may be empty."""
    return in_folder(Path(folder).expanduser()) if folder else NONE


def of_repository(
    files: Iterable[tuple[str, bytes]], *, operators: OwnQueries, name: str
) -> OwnQueries:
    """Return the queries for a repository: for each language its own, else the operator's."""
    named = ((path.removeprefix(QUERIES_FOLDER), data) for path, data in files)
    queries = {**operators, **load(named, origin=QUERIES_FOLDER)}
    return {language: replace(query, repository=name) for language, query in queries.items()}


def digest(queries: OwnQueries) -> str:
    """Return a digest of all queries; empty without any."""
    if not queries:
        return ""
    texts = "\0".join(
        f"{name}\0{queries[name].source}\0{queries[name].fault}" for name in sorted(queries)
    )
    return hashlib.sha256(texts.encode()).hexdigest()[:16]


def _run(query: Query, root: Node) -> Matches:
    return QueryCursor(query, match_limit=_MATCH_LIMIT).matches(root, _custom_predicate)


def _custom_predicate(predicate: str, args: Any, pattern_index: int, captures: Any) -> bool:
    """Accept predicates that tree-sitter does not know; they are meant for other programs."""
    return True


def _head(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(MAX_QUERY_BYTES + 1)


@lru_cache(maxsize=64)
def _compiled(language: str, source: str) -> Query | str:
    """Return the compiled query, or the reason why it does not compile."""
    grammar = grammars.grammar(BY_NAME[language].grammar or "")
    if grammar is None:
        return "the language has no grammar"
    try:
        query = Query(grammar, grammars.with_inherited(source))
    except (ValueError, OSError) as exc:
        return f"it does not compile: {' '.join(str(exc).split())}"
    names = {query.capture_name(at) for at in range(query.capture_count)}
    unknown = sorted(n for n in names if n.startswith("definition.") and n not in _CAPTURES)
    return f"there is no @{unknown[0]}" if unknown else query
