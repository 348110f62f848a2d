"""Read Jupyter notebooks: the code of all cells, and the headings.

The file is JSON, and chunks are parts of it. The code of all cells is joined to one text and read
by its own grammar; positions are mapped back to the JSON strings with the code. A heading of a
Markdown cell becomes the header of the chunks below it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tree_sitter import Node

from codelode.languages import BY_NAME, Language, resolve
from workers.parse.definitions import Definition

#: Commands for the notebook and the shell, which the language's grammar cannot read.
_MAGIC = re.compile(r"^[ \t]*[%!?].*", re.MULTILINE)
_HEADING = re.compile(r"^ {0,3}(#{1,6})[ \t]+(\S.*)$", re.MULTILINE)

_MAX_HEADING_CHARS = 120


@dataclass(frozen=True, slots=True)
class Notebook:
    """The code of a notebook as one text, and the string that each of its rows comes from."""

    language: Language
    code: bytes
    origins: tuple[tuple[int, int], ...]  # per row: start and end of the string in the file
    headings: tuple[Definition, ...]

    def placed(self, definition: Definition, first: int, last: int, line: int) -> Definition:
        """Return a definition of rows `first` to `last` of the code with its place in the file."""
        start, end = self._origin(first)[0], self._origin(last)[1]
        return definition._replace(start=start, end=end, line=line)

    def row(self, code_row: int) -> int:
        """Return the offset in the file of a row of the code."""
        return self._origin(code_row)[0]

    def _origin(self, row: int) -> tuple[int, int]:
        return self.origins[min(row, len(self.origins) - 1)]


def read(root: Node, data: bytes) -> Notebook | None:
    """Return the notebook in a tree of JSON; None if it has no code."""
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
    """Yield the strings of a cell's source with their nodes; the last one ends with a newline."""
    source = _get(cell, data, "source")
    if source is None:
        return
    strings = [source] if source.type == "string" else list(_items(source))
    for at, node in enumerate(strings):
        text = _text(node, data).replace("\r\n", "\n")
        is_last = at == len(strings) - 1
        yield node, text + "\n" if is_last and not text.endswith("\n") else text


def _headings(cells: Sequence[Node], data: bytes) -> Iterator[Definition]:
    """Yield a scope per heading, which ends at the next heading of its rank or a higher one."""
    found: list[tuple[int, str, Node]] = []  # rank, title, cell
    for cell in cells:
        if _text(_get(cell, data, "cell_type"), data) == "markdown":
            text = "".join(text for _, text in _source(cell, data))
            heading = _HEADING.search(text)
            if heading:
                rank, title = len(heading.group(1)), heading.group(2)
                title = title.rstrip(" \t#") or title
                found.append((rank, title[:_MAX_HEADING_CHARS], cell))
    for at, (rank, title, cell) in enumerate(found):
        following = (other.start_byte for level, _, other in found[at + 1 :] if level <= rank)
        end, line = next(following, len(data)), cell.start_point.row + 1
        yield Definition(cell.start_byte, end, line, title, title, None, title, True)


def _get(node: Node | None, data: bytes, key: str) -> Node | None:
    """Return the value of a key of a JSON object; None if it has none."""
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
    """Return the value of a JSON string; empty for anything else."""
    if node is None or node.type != "string":
        return ""
    try:
        text = json.loads(data[node.start_byte : node.end_byte])
    except ValueError:
        return ""
    # A JSON string may contain half of a surrogate pair, which UTF-8 cannot encode.
    return text.encode("utf-8", "replace").decode() if isinstance(text, str) else ""
