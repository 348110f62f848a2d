"""Jupyter notebooks: symbols and imports of their code, at the lines of the file as git has it.

The file is JSON, and chunks are parts of it; the code of all cells is put together as one text and
read by its own grammar, and what is found there is brought back to the strings it was written in.
A heading of a Markdown cell is the header of the chunks below it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tree_sitter import Node

from codelode.languages import BY_NAME, Language, resolve
from workers.parse.definitions import Definition

#: Commands to the notebook and the shell, which are not of the language.
_MAGIC = re.compile(r"^[ \t]*[%!?].*", re.MULTILINE)
_HEADING = re.compile(r"^ {0,3}(#{1,6})[ \t]+(\S.*?)[ \t#]*$", re.MULTILINE)

_MAX_HEADING_CHARS = 120


@dataclass(frozen=True, slots=True)
class Notebook:
    """The code of a notebook as one text, and where each of its rows was written."""

    language: Language
    code: bytes
    origins: tuple[tuple[int, int], ...]  # of each row: the string's offsets in the file
    headings: tuple[Definition, ...]

    def placed(self, definition: Definition, first: int, last: int) -> Definition:
        """A definition of rows `first` to `last` of the code, at its offsets in the file."""
        start, end = self._origin(first)[0], self._origin(last)[1]
        return definition._replace(start=start, end=end)

    def row(self, code_row: int) -> int:
        """The offset in the file of a row of the code."""
        return self._origin(code_row)[0]

    def _origin(self, row: int) -> tuple[int, int]:
        return self.origins[min(row, len(self.origins) - 1)]


def read(root: Node, data: bytes) -> Notebook | None:
    """The notebook in a tree of JSON; None where it holds no code."""
    cells = list(_items(_get(root, data, "cells")))
    code: list[str] = []
    origins: list[tuple[int, int]] = []
    for cell in cells:
        if _text(_get(cell, data, "cell_type"), data) != "code":
            continue
        for node, text in _source(cell, data):
            code.append(text)
            origins += [(node.start_byte, node.end_byte)] * text.count("\n")
    text = _MAGIC.sub("", "".join(code))
    if not origins or len(origins) != text.count("\n"):
        return None
    language = _language(root, data)
    return Notebook(language, text.encode(), tuple(origins), tuple(_headings(cells, data)))


def _language(root: Node, data: bytes) -> Language:
    metadata = _get(root, data, "metadata")
    kernel = _get(_get(metadata, data, "kernelspec"), data, "language")
    info = _get(_get(metadata, data, "language_info"), data, "name")
    name = resolve(_text(info, data) or _text(kernel, data) or "python")
    return BY_NAME[name or "python"]


def _source(cell: Node, data: bytes) -> Iterator[tuple[Node, str]]:
    """The strings of a cell's source, the last one with a newline behind it."""
    source = _get(cell, data, "source")
    if source is None:
        return
    strings = [source] if source.type == "string" else list(_items(source))
    for at, node in enumerate(strings):
        text = _text(node, data).replace("\r\n", "\n")
        is_last = at == len(strings) - 1
        yield node, text + "\n" if is_last and not text.endswith("\n") else text


def _headings(cells: Sequence[Node], data: bytes) -> Iterator[Definition]:
    """Each cell that begins with a heading, up to the next of its rank, outer first."""
    found: list[tuple[int, str, int]] = []  # rank, title, offset
    for cell in cells:
        if _text(_get(cell, data, "cell_type"), data) == "markdown":
            text = "".join(text for _, text in _source(cell, data))
            heading = _HEADING.search(text)
            if heading:
                rank, title = len(heading.group(1)), heading.group(2)
                found.append((rank, title[:_MAX_HEADING_CHARS], cell.start_byte))
    for at, (rank, title, start) in enumerate(found):
        following = (other for other_rank, _, other in found[at + 1 :] if other_rank <= rank)
        yield Definition(start, next(following, len(data)), title, title, None, title, True)


def _get(node: Node | None, data: bytes, key: str) -> Node | None:
    """The value of a key of a JSON object."""
    if node is not None and node.type == "document":
        node = next((child for child in node.named_children if child.type == "object"), None)
    if node is None or node.type != "object":
        return None
    for pair in node.named_children:
        if pair.type == "pair" and _text(pair.child_by_field_name("key"), data) == key:
            return pair.child_by_field_name("value")
    return None


def _items(node: Node | None) -> Iterator[Node]:
    if node is not None and node.type == "array":
        yield from node.named_children


def _text(node: Node | None, data: bytes) -> str:
    """The text that a JSON string means; empty for anything else."""
    if node is None or node.type != "string":
        return ""
    try:
        text = json.loads(data[node.start_byte : node.end_byte])
    except ValueError:
        return ""
    return text if isinstance(text, str) else ""
