"""Queries that users write themselves, in place of a built-in one of the same language.

They stand in a repository (`.codelode/queries/<language>.scm`) or in the operator's folder, and may
begin with `; inherits: <language>` to add to a built-in one. They are not trusted: their size is
bounded and so is their time over a file, and one that does not work is a reason in the file's
health, never a file less.
"""

from __future__ import annotations

import hashlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from tree_sitter import Node, Query, QueryCursor

from codelode.languages import BY_NAME, QUERIES_FOLDER
from codelode.model import Kind
from workers.parse import grammars
from workers.parse.grammars import Matches

SUFFIX = ".scm"

#: A built-in query has 3 kB at most, bytes.
MAX_QUERY_BYTES = 64_000

#: Over one file, seconds. A built-in query takes some milliseconds.
MAX_QUERY_S = 2.0

#: States that a match may be in at once: what a query of many wildcards multiplies.
_MATCH_LIMIT = 10_000

_CAPTURES = frozenset(
    {"name", "scope", "namespace", "receiver", "exported", "import", "body", "open", "doc"}
    | {f"definition.{kind}" for kind in Kind}
)


@dataclass(frozen=True, slots=True)
class OwnQuery:
    """One query file, as it was found."""

    language: str
    source: str
    origin: str  # what its author calls it, for messages
    fault: str = ""  # why it is not even looked at

    def matches(self, root: Node) -> Matches | str:
        """What it finds in a tree, or why it cannot be used."""
        query = self.fault or _compiled(self.language, self.source)
        if isinstance(query, str):
            return query
        return _tried(partial(_run, query, root)) or _run(query, root)


OwnQueries = Mapping[str, OwnQuery]  # by language

NONE: OwnQueries = {}


def load(files: Iterable[tuple[str, bytes]], *, origin: str = "") -> dict[str, OwnQuery]:
    """The queries in files of these names; those named after no language are left out.

    Of a larger file than MAX_QUERY_BYTES no more need be given: it is a query with a fault.
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
    """The queries of the operator's folder; none when there is no such folder."""
    files = sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []
    return load((file.name, _head(file)) for file in files)


def of_operator(folder: str) -> OwnQueries:
    """Those of the folder in the settings, as they are now."""
    return in_folder(Path(folder).expanduser()) if folder else NONE


def of_repository(files: Iterable[tuple[str, bytes]], *, operators: OwnQueries) -> OwnQueries:
    """Those in the files of a repository's folder, then the operator's."""
    return {**operators, **load(files, origin=QUERIES_FOLDER)}


def digest(queries: OwnQueries) -> str:
    """Names all of them by their texts; empty for none."""
    if not queries:
        return ""
    texts = "\0".join(
        f"{name}\0{queries[name].source}\0{queries[name].fault}" for name in sorted(queries)
    )
    return hashlib.sha256(texts.encode()).hexdigest()[:16]


def _run(query: Query, root: Node) -> Matches:
    return QueryCursor(query, match_limit=_MATCH_LIMIT).matches(root, _custom_predicate)


def _tried(run: Callable[[], object]) -> str:
    """Why a call cannot be made, empty when it ends within MAX_QUERY_S in a process of its own.

    Nothing else stops it: the library lets nobody else run meanwhile, and its own way, a callback
    that is asked whether to go on, crashes on trees of some dozen nodes (tree-sitter 0.26.1).
    """
    child = os.fork()
    if not child:
        try:
            run()
        finally:
            os._exit(0)  # and no clean-up of what is the parent's
    deadline, pause_s = time.monotonic() + MAX_QUERY_S, 0.000_5
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return f"it takes longer than {MAX_QUERY_S:g} s"
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.02)
    return "" if not ended[1] else f"it crashes ({signal.Signals(os.WTERMSIG(ended[1])).name})"


def _custom_predicate(predicate: str, args: Any, pattern_index: int, captures: Any) -> bool:
    """Those that tree-sitter does not know say something to other programs, not to this one."""
    return True


def _head(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(MAX_QUERY_BYTES + 1)


@lru_cache(maxsize=64)
def _compiled(language: str, source: str) -> Query | str:
    """The query, or why it is none."""
    grammar = grammars.grammar(BY_NAME[language].grammar or "")
    if grammar is None:
        return "the language has no grammar"
    try:
        query = Query(grammar, grammars.with_inherited(source))
    except (ValueError, OSError) as exc:
        return f"it is no query: {' '.join(str(exc).split())}"
    names = {query.capture_name(at) for at in range(query.capture_count)}
    unknown = sorted(n for n in names if n.startswith("definition.") and n not in _CAPTURES)
    return f"there is no @{unknown[0]}" if unknown else query
