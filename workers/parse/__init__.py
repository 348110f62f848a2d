"""Parse a file's bytes into chunks, symbols, imports, uses of names, and health.

`parse` is pure and succeeds for every input: a file without a grammar, or too large for a tree, is
cut as text, and its health says so. Its time is not bounded: a grammar may loop forever in C, so
a worker runs it in a process that can be killed. `guard` decides which files are left out, and
`language_rules` explains how to add a language.
"""

from __future__ import annotations

from codelode import languages
from codelode.infrastructure import Family, family_of
from codelode.languages import Language
from codelode.model import Category, FileHealth, HealthStatus, Kind, ParsedFile
from workers.parse import chunk, imports, infrastructure, own_queries, pieces, prose, reading
from workers.parse.comments import Comments
from workers.parse.definitions import Definition
from workers.parse.encoding import Decoded, decode, read
from workers.parse.guards import HEAD_BYTES, guard
from workers.parse.language_rules import rules_of
from workers.parse.lines import Lines
from workers.parse.nesting import MAX_COLUMNS, is_too_deep
from workers.parse.own_queries import OwnQueries

__all__ = [
    "DETECTED_BYTES",
    "PARSER_VERSION",
    "OwnQueries",
    "decode",
    "guard",
    "own_queries",
    "parse",
]

#: Part of every cache key of a parse; raise it whenever any input could parse differently.
PARSER_VERSION = "21"

#: Number of bytes at the start of a file by which its language is detected. A header of C++ may
#: begin with a licence and pages of comments.
DETECTED_BYTES = 65_536

#: Larger files are cut as text, bytes: a tree takes about 30 times the memory of its text.
MAX_TREE_BYTES = 4_000_000


def parse(data: bytes, *, path: str, own: OwnQueries = own_queries.NONE) -> ParsedFile:
    """Return everything that parsing derives from the content of a file.

    The path determines only language, family, and category. `own`: the user's queries, which
    replace built-in ones.
    """
    decoded = read(data)
    head = decoded.text[:HEAD_BYTES]
    language = languages.detect(path, decoded.utf8[:DETECTED_BYTES])
    category = languages.category(path, head, language=language)
    family = family_of(path)
    return _with_grammar(decoded, language, category, family, own) or _as_text(
        decoded, language, category, family
    )


def _with_grammar(
    decoded: Decoded,
    language: Language,
    category: Category,
    family: Family | None,
    own: OwnQueries,
) -> ParsedFile | None:
    """Parse a file by its syntax tree; None if it cannot have one."""
    if language.grammar is None or not decoded.utf8 or len(decoded.utf8) > MAX_TREE_BYTES:
        return None
    lines = Lines(decoded.utf8)
    comments = Comments(language, lines)
    found = reading.read(language, family, lines, comments, own=own.get(language.name))
    if found is None:
        return None
    spans = chunk.spans(found.root, lines, comments)
    return ParsedFile(
        language=language.name,
        category=category,
        health=FileHealth(
            HealthStatus.PARTIAL if found.errors else HealthStatus.OK,
            found.errors,
            "; ".join(note for note in (decoded.note, found.note) if note),
        ),
        pieces=pieces.build(spans, found.definitions, decoded, plain=Kind.BLOCK),
        symbols=tuple(d.symbol(lines) for d in found.definitions if d.kind),
        imports=imports.bounded(
            found.imports + imports.references(decoded.text, rules_of(language.name), family)
        ),
        references=found.references,
    )


def _as_text(
    decoded: Decoded, language: Language, category: Category, family: Family | None
) -> ParsedFile:
    blocks = _blocks(decoded, language, family)
    lines = Lines(decoded.utf8) if blocks else None
    return ParsedFile(
        language=language.name,
        category=category,
        health=_health_of_text(decoded, language),
        pieces=pieces.build(prose.spans(decoded.utf8), blocks, decoded, plain=Kind.TEXT),
        symbols=tuple(block.symbol(lines) for block in blocks) if lines else (),
        imports=imports.bounded(imports.references(decoded.text, rules_of(language.name), family)),
    )


def _health_of_text(decoded: Decoded, language: Language) -> FileHealth:
    """Return the health of a file that was cut as text."""
    if language.category is Category.DOCS and language is not languages.TEXT:
        return FileHealth(HealthStatus.OK, detail=decoded.note)
    size = len(decoded.utf8)
    if size > MAX_TREE_BYTES and language.grammar:
        reason = f"{size:,} bytes are too many to parse, the limit is {MAX_TREE_BYTES:,}"
    elif is_too_deep(language.grammar or "", decoded.utf8):
        reason = f"blocks at more than {MAX_COLUMNS} columns are nested too deeply to parse"
    else:
        return FileHealth(HealthStatus.UNSUPPORTED, detail=decoded.note)
    detail = "; ".join(note for note in (decoded.note, f"{reason}: cut as text") if note)
    return FileHealth(HealthStatus.ERROR, detail=detail)


def _blocks(decoded: Decoded, language: Language, family: Family | None) -> tuple[Definition, ...]:
    """Return the infrastructure blocks that need no grammar."""
    if family is None:
        return ()
    lines = Lines(decoded.utf8)
    comments = Comments(language, lines)
    return infrastructure.read(None, family, None, lines, comments) or ()
