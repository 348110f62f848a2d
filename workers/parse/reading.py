"""Read one file: its definitions, its imports, its uses of names, and the tree by which it is cut.

Most files are one tree in one language. Files with sections are several trees, a notebook is code
inside JSON, and the definitions of an infrastructure file are its blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from tree_sitter import Node

from codelode.infrastructure import Family
from codelode.languages import Language
from codelode.model import Import, Reference, ReferenceKind
from workers.parse import (
    grammars,
    imports,
    infrastructure,
    macros,
    notebooks,
    renames,
    sections,
    uses,
)
from workers.parse.comments import Comments
from workers.parse.definitions import Captured, Definition, capture
from workers.parse.grammars import Captures, Matches
from workers.parse.language_rules import rules_of
from workers.parse.lines import Lines
from workers.parse.own_queries import OwnQuery
from workers.parse.rules import Rules
from workers.parse.sections import Composed, Section

#: Maximum number of children of an error node; with more, no query is run, because its time is
#: quadratic in them.
MAX_ERROR_CHILDREN = 5_000


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of reading one file. Offsets and lines are those of the file."""

    root: Node | Composed  # for cutting
    definitions: tuple[Definition, ...] = ()  # by start, outer before inner
    imports: tuple[Import, ...] = ()
    references: tuple[Reference, ...] = ()
    errors: int = 0
    note: str = ""  # why a custom query was not used


def read(
    language: Language,
    family: Family | None,
    lines: Lines,
    comments: Comments,
    *,
    own: OwnQuery | None = None,
) -> Reading | None:
    """Read `lines` by the grammar of the language; None if there is none or it would crash."""
    rules = rules_of(language.name)
    masked = rules.masked(lines.data) if rules.masked else lines.data
    tree = grammars.tree(language.grammar or "", infrastructure.masked(masked, family))
    if tree is None:
        return None
    root = tree.root_node
    errors = grammars.errors(tree)
    if errors.widest > MAX_ERROR_CHILDREN:
        return Reading(root, errors=errors.count)
    blocks = infrastructure.read(rules.blocks, family, root, lines, comments)
    if blocks is not None:
        return Reading(root, blocks, errors=errors.count)
    if language.name == "notebook":
        return replace(_notebook(root, lines), errors=errors.count)
    if rules.sections:
        composed, found = sections.composed(root, rules.sections, lines.data)
        return replace(_joined(found, lines), root=composed)
    return _section(Section(language, tree), lines, comments, errors.count, own)


def _section(
    section: Section, lines: Lines, comments: Comments, errors: int, own: OwnQuery | None
) -> Reading:
    language = section.language
    rules = rules_of(language.name)
    matches, used, note = _matches(section, own, lines.data)
    found = capture(language, rules, matches, section.root, lines, comments)
    imported = imports.read(found.imports, rules, lines)
    return Reading(
        root=section.root,
        definitions=_typed(found.definitions, rules),
        imports=imported,
        references=(
            *_references(used, imported, found, lines.data, rules),
            *_default_export(lines.data, rules),
        ),
        errors=errors,
        note=note,
    )


def _matches(
    section: Section, own: OwnQuery | None, data: bytes
) -> tuple[Matches, Sequence[Captures], str]:
    """Run the user's query, or the built-in one if that fails; the returned text says why.

    A user's query finds only definitions and imports; uses always come from the built-in query.
    """
    matches, used = _built_in(section.language, section.root, data)
    if own is None or own.language != section.language.name:
        return matches, used, ""
    found = own.matches(section.root)
    if isinstance(found, str):
        return matches, used, f"{own.origin}: {found}; the built-in query was used"
    return found, used, ""


def _built_in(language: Language, root: Node, data: bytes) -> tuple[Matches, Sequence[Captures]]:
    query = grammars.query(language.name, language.grammar or "")
    if query is None:
        return (), ()
    matches, used = query.run(root)
    return macros.with_blocks(matches, used, query, data)


def _references(
    used: Sequence[Captures],
    imported: Iterable[Import],
    found: Captured,
    data: bytes,
    rules: Rules,
) -> tuple[Reference, ...]:
    given = renames.read(imported, found.definitions, data, rules)
    return uses.distinct(used, data, given)


def _default_export(data: bytes, rules: Rules) -> Iterator[Reference]:
    name = rules.default_export(data) if rules.default_export else ""
    if name:
        yield Reference(name, ReferenceKind.DEFAULT)


def _typed(definitions: tuple[Definition, ...], rules: Rules) -> tuple[Definition, ...]:
    """Return the definitions of a script, those that are infrastructure blocks with their type."""
    types = rules.block_types
    if not types:
        return definitions
    return tuple(
        one._replace(block_type=types.get(one.kind, "") if one.kind else "") for one in definitions
    )


def _joined(parts: Iterable[Section], lines: Lines) -> Reading:
    """Join the readings of sections; a use counts once."""
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
        references=uses.joined(one for reading in readings for one in reading.references),
        errors=sum(reading.errors for reading in readings),
    )


def _notebook(root: Node, lines: Lines) -> Reading:
    """Read the code of all cells, with positions mapped back to the lines of the file."""
    notebook = notebooks.read(root, lines.data)
    tree = grammars.tree(notebook.language.grammar or "", notebook.code) if notebook else None
    if notebook is None or tree is None:
        return Reading(root)
    language, rules = notebook.language, rules_of(notebook.language.name)
    code = Lines(notebook.code)
    matches, used = _built_in(language, tree.root_node, notebook.code)
    found = capture(language, rules, matches, tree.root_node, code, Comments(language, code))

    def line_of(line: int) -> int:
        return lines.row(notebook.row(line - 1)) + 1

    definitions = [
        notebook.placed(
            one, code.row(one.start), code.row(max(one.start, one.end - 1)), line_of(one.line)
        )
        for one in found.definitions
    ]
    ordered = sorted([*notebook.headings, *definitions], key=lambda one: (one.start, -one.end))
    imported = imports.read(found.imports, rules, code)
    return Reading(
        root=root,
        definitions=tuple(ordered),
        imports=tuple(replace(one, line=line_of(one.line)) for one in imported),
        references=tuple(
            replace(one, lines=tuple(map(line_of, one.lines)))
            for one in _references(used, imported, found, notebook.code, rules)
        ),
    )
