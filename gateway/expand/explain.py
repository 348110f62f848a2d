"""Explain a file or a symbol, from the index, the symbol table, and the graph.

The summary is composed of stored values, without a call of a language model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from codelode import languages
from codelode.counts import counted
from codelode.definitions import definition
from codelode.display import quoted
from codelode.graph import edges_of_files
from codelode.model import (
    Category,
    Chunk,
    EdgeKind,
    FileKey,
    Kind,
    LocatedSymbol,
    RefName,
    RepositoryName,
    Symbol,
)
from codelode.ports import DependencyGraph, SymbolTable
from gateway import summaries
from gateway.expand.subject import NO_SYMBOLS, Subject, find_subject, shared
from gateway.state import Backends

#: Maximum number of files listed for each relation, and of definitions listed. Chosen by hand.
MAX_PATHS = 100
MAX_DEFINITIONS = 100
#: Maximum number of files whose imports and tests are read for a name with several definitions.
#: Chosen by hand.
MAX_FILES = 10

NO_GRAPH = "no dependency graph is configured: imports and tests are missing"


@dataclass(frozen=True, slots=True)
class Explanation:
    """The description of a file or a symbol."""

    kind: str  # file or symbol
    summary: str
    definitions: tuple[LocatedSymbol, ...]
    imports: tuple[str, ...] = ()
    imported_by: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    repositories: tuple[RepositoryName, ...] = ()  # that have the subject


async def explain(
    subject: str, *, repositories: Sequence[RepositoryName], ref: RefName, backends: Backends
) -> Explanation:
    """Explain the subject. Raises NotFound if none of the repositories has it."""
    found = await find_subject(subject, repositories=repositories, ref=ref, backends=backends)
    files = list(found.files)
    near, notices = await asyncio.to_thread(_neighbours, files[:MAX_FILES], ref, backends.graph)
    if found.definitions:
        definitions: Sequence[LocatedSymbol] = found.definitions
        summary = f"{_symbol_summary(subject, definitions)} {_of_its_files(len(files), near)}"
    else:
        definitions, missing = await _defined(found, ref, backends.symbols)
        summary = _file_summary(found, near)
        notices = (*notices, *missing)
    return Explanation(
        kind=found.kind,
        summary=summary.strip(),
        definitions=tuple(definitions[:MAX_DEFINITIONS]),
        notices=(
            *shared(subject, found, is_cut=found.kind == "file"),
            *notices,
            *_cut(definitions),
        ),
        repositories=tuple(dict.fromkeys(repository for repository, _ in files)),
        **{relation: paths[:MAX_PATHS] for relation, paths in near.items()},
    )


def _file_summary(file: Subject, near: Mapping[str, Sequence[str]]) -> str:
    [((_, path), chunks)] = file.files.items()
    made = summaries.of_file(quoted(path), chunks).splitlines()
    sentences = " ".join(line if line.endswith(".") else f"{line}." for line in made)
    return f"{sentences} {_counts(quoted(path), near)}"


def _symbol_summary(name: str, found: Sequence[LocatedSymbol]) -> str:
    first = found[0]
    symbol = first.symbol
    doc = f" {_sentence(symbol.doc)}" if symbol.doc else ""
    more = f" {_others(len(found) - 1)}." if len(found) > 1 else ""
    place = f"{quoted(first.path)}:{symbol.start_line}-{symbol.end_line}"
    return f"{quoted(name)} is a {symbol.kind} in {place} of {first.repository}.{doc}{more}"


def _sentence(line: str) -> str:
    """Return the first line of a comment as a sentence, with `…` if the sentence goes on."""
    if line.endswith((".", "!", "?")):
        return line
    said = line.rstrip(" ,;:(-–—")
    return f"{said}." if said == line else f"{said} …"


def _others(count: int) -> str:
    return f"{counted(count, 'more definition')} {'has' if count == 1 else 'have'} that name"


def _of_its_files(count: int, near: Mapping[str, Sequence[str]]) -> str:
    if count == 1:
        return _counts("Its file", near)
    which = f"The first {MAX_FILES} of its {count:,}" if count > MAX_FILES else f"Its {count}"
    return _counts(f"{which} files", near, are_many=True)


def _counts(who: str, near: Mapping[str, Sequence[str]], *, are_many: bool = False) -> str:
    if not any(near.values()):
        return ""
    # Counts imports, not files, because some are external packages.
    imports = counted(len(near["imports"]), "import")
    importers = counted(len(near["imported_by"]), "file")
    have, are = ("have", "are") if are_many else ("has", "is")
    return (
        f"{who} {have} {imports}, {are} imported by {importers} and "
        f"tested by {len(near['tests']):,}."
    )


async def _defined(
    file: Subject, ref: RefName, symbols: SymbolTable | None
) -> tuple[Sequence[LocatedSymbol], tuple[str, ...]]:
    """Return the definitions in a file, by line, and a notice if there is no symbol table.

    If the table has none, the chunks are used: the table may not be configured, or not be rebuilt
    yet after an upgrade.
    """
    [((repository, path), chunks)] = file.files.items()
    if symbols is None:
        return tuple(_definitions(chunks)), (NO_SYMBOLS,)
    found = (await asyncio.to_thread(symbols.defined_in, repository, ref, [path]))[path]
    return found or tuple(_definitions(chunks)), ()


def _cut(definitions: Sequence[LocatedSymbol]) -> tuple[str, ...]:
    if len(definitions) <= MAX_DEFINITIONS:
        return ()
    return (f"the first {MAX_DEFINITIONS} of {len(definitions):,} definitions are listed",)


def _definitions(chunks: Sequence[Chunk]) -> Iterable[LocatedSymbol]:
    """Yield the main definition of each chunk; the parts of a long definition count once."""
    seen: set[str] = set()
    ends: dict[str, int] = {}
    for chunk in chunks:
        ends[chunk.symbol] = max(chunk.end_line, ends.get(chunk.symbol, 0))
    for chunk in chunks:
        at = definition(chunk)
        if at is None or chunk.symbol in seen or chunk.kind in (Kind.BLOCK, Kind.TEXT):
            continue
        seen.add(chunk.symbol)
        last = chunk.symbol.rpartition(".")[2]
        symbol = Symbol(
            name=last,
            qualified_name=chunk.symbol,
            kind=chunk.kind,
            signature=at.signature,
            start_line=at.line,
            end_line=ends[chunk.symbol],
            is_exported=not last.startswith("_"),
        )
        yield LocatedSymbol(chunk.repository, chunk.path, symbol)


def _neighbours(
    files: Sequence[FileKey], ref: RefName, graph: DependencyGraph | None
) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    """Return the imports, the importers, and the tests of the files, as sorted paths."""
    if graph is None:
        return {"imports": (), "imported_by": (), "tests": ()}, (NO_GRAPH,)
    out = [edge for edges in edges_of_files(graph.outgoing, ref, files).values() for edge in edges]
    into = [edge for edges in edges_of_files(graph.incoming, ref, files).values() for edge in edges]
    importers = {edge.source for edge in into if edge.kind is EdgeKind.IMPORTS}
    tests = {edge.source for edge in into if edge.kind is EdgeKind.TESTS}
    tests |= {path for path in importers if languages.category(path) is Category.TEST}
    found = {
        "imports": {edge.target for edge in out if edge.kind is EdgeKind.IMPORTS},
        "imported_by": importers - tests,
        "tests": tests,
    }
    return {relation: tuple(sorted(paths)) for relation, paths in found.items()}, ()
