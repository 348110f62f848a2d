"""Find the blocks of Helm charts and templates.

No YAML grammar can read the actions of a template, `{{ … }}`, so they are masked: an action alone
on a line becomes blank, any other becomes a word of the same length. Offsets do not change, so
those of blocks and chunks are valid in the file itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from workers.parse.infrastructure import mappings
from workers.parse.infrastructure.blocks import Block

_OPEN, _CLOSE = b"{{", b"}}"
_BLANKS = bytes(c if c in b"\r\n" else ord(" ") for c in range(256))
_WORD = bytes(c if c in b"\r\n" else ord("x") for c in range(256))
#: Keywords that open a part of a template, and the `end` that closes the last one opened.
_KEYWORDS = re.compile(
    rb"\{\{-?\s*(?:(if|range|with|block|end)\b|define\s+\"([^\"\n]{1,200})\")[^{}]{0,500}\}\}"
)


def masked(data: bytes) -> bytes:
    """Return the template as YAML of the same length."""
    blank = bytearray(data)
    actions = list(_actions(data))
    for start, end in actions:
        blank[start:end] = data[start:end].translate(_BLANKS)
    out = bytearray(blank)
    line, is_alone = (-1, -1), False
    for start, end in actions:
        last = data.find(b"\n", end)
        around = (data.rfind(b"\n", 0, start) + 1, last if last >= 0 else len(data))
        if around != line:  # examine each line once: a long one may have many actions
            line, is_alone = around, not blank[slice(*around)].strip()
        if not is_alone:
            out[start:end] = data[start:end].translate(_WORD)
    return bytes(out)


def templates(data: bytes) -> Iterator[Block]:
    """Yield the named templates, each from its `define` to the `end` that closes it."""
    opened: list[tuple[int, bytes]] = []  # offset, and the name of a `define`
    for found in _KEYWORDS.finditer(data):
        if found.group(1) != b"end":
            opened.append((found.start(), found.group(2) or b""))
        elif opened:
            start, raw = opened.pop()
            if raw:
                name = raw.decode("utf-8", "replace")
                signature = f'define "{name}"'
                yield Block(start, found.end(), f"template.{name}", name, "template", signature)


def chart(root: Node, data: bytes) -> Iterator[Block]:
    """Yield the chart and its dependencies."""
    for document in mappings.documents(root):
        name = mappings.scalar(mappings.get(document, data, "name"), data)
        if not name:
            continue
        hierarchy = f"chart.{name}"
        yield Block(document.start_byte, document.end_byte, hierarchy, name, "chart")
        for item in mappings.items(mappings.get(document, data, "dependencies")):
            on = mappings.scalar(mappings.get(item, data, "name"), data)
            if on:
                yield Block(
                    item.start_byte,
                    item.end_byte,
                    f"{hierarchy}.dependency.{on}",
                    on,
                    "dependency",
                )


def _actions(data: bytes) -> Iterator[tuple[int, int]]:
    at = 0
    while (start := data.find(_OPEN, at)) >= 0 and (close := data.find(_CLOSE, start)) >= 0:
        at = close + len(_CLOSE)
        yield start, at
