"""Read files of several languages: the sections of Vue, Svelte and Astro, each by its grammar.

A section's tree has the offsets of the file, so its definitions and cuts need no translation. For
cutting, the trees are combined into one `Composed`: the host's tree, in which each section's tree
replaces the text that the host's grammar does not read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tree_sitter import Node, Parser, Tree

from codelode.languages import BY_NAME, Language, resolve
from workers.parse import grammars
from workers.parse.nesting import is_too_deep

#: Types of nodes that hold the text of a section.
_TEXTS = frozenset({"raw_text", "frontmatter_js_block"})
_LANG = re.compile(rb"""\blang\s*=\s*["']?([\w-]+)""")

#: Maximum number of sections of a file; more are not written by hand.
MAX_SECTIONS = 50


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a file in one language, and its tree."""

    language: Language
    tree: Tree

    @property
    def root(self) -> Node:
        """Return the root of the tree."""
        return self.tree.root_node


@dataclass(frozen=True, slots=True)
class Composed:
    """A node for cutting that is made of other nodes."""

    type: str
    start_byte: int
    end_byte: int
    children: Sequence[Node | Composed]

    @property
    def child_count(self) -> int:
        """Return the number of children."""
        return len(self.children)


def composed(
    root: Node, defaults: Mapping[str, str], data: bytes
) -> tuple[Composed, list[Section]]:
    """Return the tree for cutting and the sections in it.

    `defaults`: types of nodes that contain a section → its language if it names none.
    """
    sections: list[Section] = []
    children: list[Node | Composed] = []
    for child in root.children:
        found = _section(child, defaults, data) if len(sections) < MAX_SECTIONS else None
        children.append(child if found is None else _inside(child, found))
        sections += [found] if found else []
    return Composed(root.type, root.start_byte, root.end_byte, children), sections


def _section(element: Node, defaults: Mapping[str, str], data: bytes) -> Section | None:
    default = defaults.get(element.type)
    text = next((child for child in element.children if child.type in _TEXTS), None)
    if default is None or text is None:
        return None
    tag = _LANG.search(data, element.start_byte, text.start_byte)
    language = BY_NAME.get((resolve(tag.group(1).decode()) if tag else default) or "")
    grammar = grammars.grammar(language.grammar) if language and language.grammar else None
    if language is None or grammar is None or is_too_deep(language.grammar or "", text.text or b""):
        return None
    return Section(language, Parser(grammar, included_ranges=[text.range]).parse(data))


def _inside(element: Node, section: Section) -> Composed:
    children = [section.root if child.type in _TEXTS else child for child in element.children]
    return Composed(element.type, element.start_byte, element.end_byte, children)
