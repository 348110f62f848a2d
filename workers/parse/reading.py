"""What the tree of a file holds: definitions, imports, uses of names, and where it may be cut.

Most files are one tree in one language. Files with sections are several, a notebook is code inside
JSON, and a file of infrastructure has blocks instead of what its format defines.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache

from tree_sitter import Node, Query, QueryCursor

from codelode.infrastructure import Family
from codelode.languages import Language
from codelode.model import Import, Reference
from workers.parse import grammars, imports, infrastructure, notebooks, references, sections
from workers.parse.comments import Comments
from workers.parse.definitions import Definition, Matches, capture
from workers.parse.lines import Lines
from workers.parse.own_queries import OwnQuery
from workers.parse.references import Uses, exported, renamed
from workers.parse.sections import Composed, Section

#: Queries take time in the square of an error's children; beyond this they are not asked.
MAX_ERROR_CHILDREN = 5_000


@dataclass(frozen=True, slots=True)
class Reading:
    """Of one file. Offsets and lines are the file's."""

    root: Node | Composed  # for cutting
    definitions: tuple[Definition, ...] = ()  # by start, outer before inner
    imports: tuple[Import, ...] = ()
    references: tuple[Reference, ...] = ()
    errors: int = 0
    note: str = ""  # why a query of one's own was not used


def read(
    language: Language,
    family: Family | None,
    lines: Lines,
    comments: Comments,
    *,
    own: OwnQuery | None = None,
) -> Reading | None:
    """The reading of `lines`; None where the language has no grammar."""
    tree = grammars.tree(language.grammar or "", infrastructure.masked(lines.data, family))
    if tree is None:
        return None
    root = tree.root_node
    errors = grammars.errors(tree)
    if errors.widest > MAX_ERROR_CHILDREN:
        return Reading(root, errors=errors.count)
    blocks = infrastructure.read(language.name, family, root, lines, comments)
    if blocks is not None:
        return Reading(root, blocks, errors=errors.count)
    if language.name == "notebook":
        return replace(_notebook(root, lines), errors=errors.count)
    parts = sections.composed(language, root, lines.data)
    if parts is not None:
        return replace(_joined(parts[1], lines), root=parts[0])
    return _section(Section(language, tree), lines, comments, errors.count, own)


def _section(
    section: Section, lines: Lines, comments: Comments, errors: int, own: OwnQuery | None
) -> Reading:
    language = section.language
    matches, uses, note = _matches(section, own)
    found = capture(language, section.root, lines, comments, matches=matches)
    imported = imports.read(found.imports, language.name, lines)
    return Reading(
        root=section.root,
        definitions=infrastructure.typed(found.definitions, language.name),
        imports=imported,
        references=(
            *references.among(
                uses,
                lines.data,
                renames=renamed.read(
                    imported, found.definitions, lines.data, language=language.name
                ),
            ),
            *exported.read(language.name, lines.data),
        ),
        errors=errors,
        note=note,
    )


def _matches(section: Section, own: OwnQuery | None) -> tuple[Matches, Uses, str]:
    """By the query of one's own where it works, else by the built-in one and why.

    A query of one's own looks for definitions only; uses of names are always the built-in ones.
    """
    if own is None or own.language != section.language.name:
        return *_built_in(section), ""
    matches = own.matches(section.root)
    if isinstance(matches, str):
        return *_built_in(section), f"{own.origin}: {matches}; the built-in query was used"
    return matches, references.uses(section.language, section.root), ""


def _built_in(section: Section) -> tuple[Matches, Uses]:
    asked = _query(section.language.name, section.language.grammar or "")
    if asked is None:
        return (), ()
    query, first_use = asked
    found = QueryCursor(query).matches(section.root)
    return (
        [match for match in found if match[0] < first_use],
        [captures for pattern, captures in found if pattern >= first_use],
    )


@cache
def _query(language: str, grammar_name: str) -> tuple[Query, int] | None:
    """Definitions, imports and uses of names in one query: the walk costs more than patterns.

    The number is that of the first pattern about uses.
    """
    grammar = grammars.grammar(grammar_name)
    defined, used = grammars.query_source(language), references.source(language)
    if grammar is None or not (defined or used):
        return None
    query = Query(grammar, f"{defined}\n{used}")
    size = len(defined.encode())
    starts = map(query.start_byte_for_pattern, range(query.pattern_count))
    return query, sum(start < size for start in starts)


def _joined(parts: Iterable[Section], lines: Lines) -> Reading:
    """The readings of sections as one; uses of a name count once."""
    readings = [
        _section(
            part, lines, Comments(part.language, lines), grammars.errors(part.tree).count, None
        )
        for part in parts
    ]
    return Reading(
        root=Composed("", 0, 0, ()),
        definitions=tuple(one for reading in readings for one in reading.definitions),
        imports=tuple(one for reading in readings for one in reading.imports),
        references=tuple(dict.fromkeys(one for reading in readings for one in reading.references)),
        errors=sum(reading.errors for reading in readings),
    )


def _notebook(root: Node, lines: Lines) -> Reading:
    """The code of all cells, brought back to the lines of the file."""
    notebook = notebooks.read(root, lines.data)
    tree = grammars.tree(notebook.language.grammar or "", notebook.code) if notebook else None
    if notebook is None or tree is None:
        return Reading(root)
    language = notebook.language
    code = Lines(notebook.code)
    found = capture(language, tree.root_node, code, Comments(language, code))
    definitions = [
        notebook.placed(one, code.row(one.start), code.row(max(one.start, one.end - 1)))
        for one in found.definitions
    ]
    ordered = sorted([*notebook.headings, *definitions], key=lambda one: (one.start, -one.end))
    imported = imports.read(found.imports, language.name, code)
    return Reading(
        root=root,
        definitions=tuple(ordered),
        imports=tuple(
            replace(one, line=lines.row(notebook.row(one.line - 1)) + 1) for one in imported
        ),
        references=references.read(
            language,
            tree.root_node,
            notebook.code,
            renames=renamed.read(
                imported, found.definitions, notebook.code, language=language.name
            ),
        ),
    )
