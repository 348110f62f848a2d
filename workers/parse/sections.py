"""Files of several languages: the sections of Vue, Svelte and Astro, each by its own grammar.

A section's tree has the offsets of the file, so its definitions and cuts need no translation. The
trees are put together as one `Composed` for cutting: the host's tree with each section's in the
place of the text that the host's grammar does not read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tree_sitter import Node, Parser, Tree

from codelode.languages import BY_NAME, Language
from workers.parse import grammars

#: Where hosts keep text of other languages.
_HOSTS = frozenset({"vue", "svelte", "astro"})
_TEXTS = frozenset({"raw_text", "frontmatter_js_block"})
_DEFAULTS = {
    "script_element": "javascript",
    "style_element": "css",
    "frontmatter": "typescript",
}
_LANG = re.compile(rb"""\blang\s*=\s*["']?([\w-]+)""")
_NAMES = {
    "ts": "typescript",
    "typescript": "typescript",
    "tsx": "tsx",
    "js": "javascript",
    "jsx": "javascript",
    "scss": "scss",
    "css": "css",
    "postcss": "css",
    "less": "less",
    "sass": "sass",
}

#: More sections of one file are not written by hand.
MAX_SECTIONS = 50


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a file in one language, and its tree."""

    language: Language
    tree: Tree

    @property
    def root(self) -> Node:
        return self.tree.root_node


@dataclass(frozen=True, slots=True)
class Composed:
    """A node for cutting, made of others."""

    type: str
    start_byte: int
    end_byte: int
    children: Sequence[Node | Composed]

    @property
    def child_count(self) -> int:
        return len(self.children)


def composed(host: Language, root: Node, data: bytes) -> tuple[Composed, list[Section]] | None:
    """The tree for cutting and the sections in it; None for a file of one language."""
    if host.name not in _HOSTS:
        return None
    sections: list[Section] = []
    children: list[Node | Composed] = []
    for child in root.children:
        found = _section(child, data) if len(sections) < MAX_SECTIONS else None
        children.append(child if found is None else _inside(child, found))
        sections += [found] if found else []
    return Composed(root.type, root.start_byte, root.end_byte, children), sections


def _section(element: Node, data: bytes) -> Section | None:
    default = _DEFAULTS.get(element.type)
    text = next((child for child in element.children if child.type in _TEXTS), None)
    if default is None or text is None:
        return None
    tag = _LANG.search(data, element.start_byte, text.start_byte)
    name = _NAMES.get(tag.group(1).decode().lower(), "") if tag else default
    language = BY_NAME.get(name)
    grammar = grammars.grammar(language.grammar) if language and language.grammar else None
    if language is None or grammar is None:
        return None
    return Section(language, Parser(grammar, included_ranges=[text.range]).parse(data))


def _inside(element: Node, section: Section) -> Composed:
    children = [section.root if child.type in _TEXTS else child for child in element.children]
    return Composed(element.type, element.start_byte, element.end_byte, children)
