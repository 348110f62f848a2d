"""A file's bytes → what can be indexed of it: chunks, symbols, imports, health.

`parse` is pure and answers for every input: what has no grammar, or too much text for a tree, is
cut as text, and the health says so. It does not bound its time: a grammar may loop for ever in
C, so a worker runs it in a process that may be killed. `guard` names the files not worth parsing.
"""

from __future__ import annotations

from itertools import pairwise

from codelode import languages
from codelode.languages import Language
from codelode.model import Category, FileHealth, HealthStatus, Kind, ParsedFile
from workers.parse import chunk, grammars, imports, pieces, prose
from workers.parse.comments import Comments
from workers.parse.definitions import Captured, capture
from workers.parse.encoding import Decoded, decode, read
from workers.parse.guards import HEAD_BYTES, guard
from workers.parse.imports import candidates
from workers.parse.lines import Lines

__all__ = ["PARSER_VERSION", "candidates", "decode", "guard", "parse"]

#: Part of every derivation key: raised whenever any input could parse differently.
PARSER_VERSION = "2"

#: A tree takes about 30 times the memory of its text; larger files are cut as text, bytes.
MAX_TREE_BYTES = 4_000_000

#: Queries take time in the square of an error's children; beyond this they are not asked.
MAX_ERROR_CHILDREN = 5_000


def parse(data: bytes, *, path: str) -> ParsedFile:
    """Everything parsing derives from one content. The path decides language and category only."""
    decoded = read(data)
    head = decoded.text[:HEAD_BYTES]
    language = languages.detect(path, head.encode())
    category = languages.category(path, head)
    return _with_grammar(decoded, language, category) or _as_text(decoded, language, category)


def _with_grammar(decoded: Decoded, language: Language, category: Category) -> ParsedFile | None:
    """The file by its syntax tree; None where there can be none."""
    if language.grammar is None or not decoded.utf8 or len(decoded.utf8) > MAX_TREE_BYTES:
        return None
    tree = grammars.tree(language.grammar, decoded.utf8)
    if tree is None:
        return None
    lines = Lines(decoded.utf8)
    comments = Comments(language, lines)
    errors = grammars.errors(tree)
    is_readable = errors.widest <= MAX_ERROR_CHILDREN
    found = capture(language, tree.root_node, lines, comments) if is_readable else Captured()
    spans = chunk.spans(tree.root_node, lines, comments)
    return ParsedFile(
        language=language.name,
        category=category,
        health=FileHealth(
            HealthStatus.PARTIAL if errors.count else HealthStatus.OK, errors.count, decoded.note
        ),
        pieces=pieces.build(spans, found.definitions, decoded, plain=Kind.BLOCK),
        symbols=tuple(d.symbol(lines) for d in found.definitions if d.kind),
        imports=imports.read(found.imports, language.name, lines),
    )


def _as_text(decoded: Decoded, language: Language, category: Category) -> ParsedFile:
    size = len(decoded.utf8)
    bounds = [0, *prose.cuts(decoded.utf8, 0, size), size]
    spans = [(a, b) for a, b in pairwise(bounds) if a < b]
    is_prose = language.category is Category.DOCS and language is not languages.TEXT
    return ParsedFile(
        language=language.name,
        category=category,
        health=FileHealth(
            HealthStatus.OK if is_prose else HealthStatus.UNSUPPORTED, detail=decoded.note
        ),
        pieces=pieces.build(spans, (), decoded, plain=Kind.TEXT),
    )
