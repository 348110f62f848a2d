"""Read the name at a position, `PATH:LINE:COLUMN`, as compilers and editors write it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from codelode.access import Visibility
from codelode.errors import InvalidQuery
from codelode.grams import NOTHING
from codelode.model import FileKey, FileQuery, Filters, LocatedSymbol, RefName
from gateway.expand.passages import lines
from gateway.service.audit import involve
from gateway.state import Backends

#: Maximum number of files that are read if several have the path. Their names may be the same.
MAX_FILES = 20

#: Maximum number of files that an error names.
MAX_NAMED = 3

_NUMBERS = re.compile(r":(\d{1,9})(?::(\d{1,9}))?\Z")
_NAME = re.compile(r"[^\W\d][\w$]*|\$[\w$]+")


class Position(NamedTuple):
    """A position in a file; line and column begin at 1."""

    path: str  # or its end, or the repository and the path
    line: int
    column: int  # 0: not given


def position(text: str) -> Position | None:
    """Return the position that the text is; None if it is a name."""
    found = _NUMBERS.search(text.strip())
    if found is None:
        return None
    path, (line, column) = text.strip()[: found.start()], map(int, found.groups(default="0"))
    if not (column or "." in path or "/" in path):
        return None
    return Position(path.removeprefix("./").strip("/"), line, column)


async def name_at(at: Position, ref: RefName, visible: Visibility, backends: Backends) -> str:
    """Return the name at the position; for a definition, its qualified name.

    Raises InvalidQuery("name") if there is no file, line, or name, and if several files have the
    path and different names there.
    """
    files = await _files(at.path, ref, visible, backends)
    involve(repository for repository, _ in files)
    read = await backends.chunks.files(files[:MAX_FILES], ref)
    names = {await _name_in(file, lines(read[file]), at, ref, backends) for file in read}
    if len(files) > MAX_FILES or len(names) > 1:
        shown = ", ".join(f"{repository}/{path}" for repository, path in files[:MAX_NAMED])
        more = len(files) - MAX_NAMED
        others = f", and {more:,} more" if more > 0 else ""
        raise InvalidQuery(
            "name", f"means several files: {shown}{others}; write the repository before the path"
        )
    return names.pop()


async def _files(
    path: str, ref: RefName, visible: Visibility, backends: Backends
) -> Sequence[FileKey]:
    """Return the files that the path means: a whole path if there is one, else ends of paths."""
    parts = re.sub(r"[*?]", "?", path).split("/")  # else a part of a glob
    ends = ("/".join(parts[start:]) for start in range(len(parts)))
    globs = (f"**/{'/'.join(parts)}", *ends)
    query = FileQuery(NOTHING, Filters(paths=globs, ref=ref), visible=visible)
    found = await backends.chunks.holding(query)
    whole = [one for one in found if path in (one[1], "/".join(one))]
    files = whole or [one for one in found if f"/{'/'.join(one)}".endswith(f"/{path}")]
    if not files:
        raise InvalidQuery("name", f"is at a position, but no indexed file is {path[:200]!r}")
    return files


async def _name_in(
    file: FileKey, text: Mapping[int, str], at: Position, ref: RefName, backends: Backends
) -> str:
    line = text.get(at.line, "")
    starts = {found.start() + 1: found.group() for found in _NAME.finditer(line)}
    name = next((n for start, n in starts.items() if start <= at.column < start + len(n)), "")
    if not name:
        columns = ", ".join(f"{name} at {start}" for start, name in [*starts.items()][:10])
        raise InvalidQuery(
            "name",
            f"has no name at column {at.column} of line {at.line}; "
            f"{f'the line has {columns}' if columns else 'the line has no names'}",
        )
    if backends.symbols is None:
        return name
    repository, path = file
    defined = await asyncio.to_thread(backends.symbols.defined_in, repository, ref, [path])
    return _qualified(name, at.line, text, defined[path])


def _qualified(
    name: str, line: int, text: Mapping[int, str], defined: Iterable[LocatedSymbol]
) -> str:
    """Return the qualified name of the definition with this name at the line, else the name."""
    written = re.compile(rf"(?<![\w$]){re.escape(name)}(?![\w$])")
    for symbol in (one.symbol for one in defined if one.symbol.name == name):
        numbers = range(symbol.start_line, symbol.end_line + 1)
        if line == next((n for n in numbers if written.search(text.get(n, ""))), 0):
            return symbol.qualified_name
    return name
