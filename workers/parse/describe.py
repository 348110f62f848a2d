"""Extract the signature of a definition, and the first line of its documentation.

Both are read from the text around the node and not from other nodes, so that a few rules serve all
grammars.
"""

from __future__ import annotations

import re

from tree_sitter import Node

from codelode.definitions import head
from workers.parse.comments import Comments
from workers.parse.lines import Lines

MAX_SIGNATURE_CHARS = 200
MAX_DOC_CHARS = 200

#: Number of bytes of a definition in which its signature is searched.
_HEAD_BYTES = 800

_LINE_START = re.compile(rb"[ \t]*+((?:[\w@]++[ \t]++)+)\Z")
_ATTRIBUTE_MARKS = (b"@", b"#", b"[", b"t")
#: First characters of texts that `_ATTRIBUTES` can change: a cheap test that few texts pass.
_ATTRIBUTE_STARTS = ("@", "#", "[")
_HEAD_MARKS = re.compile(r"[(\[)\]{\n]")
_DOCSTRING = re.compile(rb"[rRuUbBfF]{0,2}(\"{3}|'{3}|\"|')\s*([^\n]*)")
_CLOSED = re.compile(rb"[{};]")
_SPACES = "".join(filter(str.isspace, map(chr, range(0x3001))))
_OPENING_MARKS = _SPACES + "/*#;!%<>|\"'(){}=~-"
_CLOSING_MARKS = _SPACES + "*/#=~-"
#: `@Override`, `[Fact]`, `#[inline]` before a head; definitions with `@` (Elixir, Java) stay.
_ATTRIBUTES = re.compile(
    r"\A(?:@(?!type|opaque|callback|macrocallback|interface)\w[\w.]*"
    r"(?:\((?:[^()]|\([^()]*\))*\))?\s*|#?\[[^\]]*\]\s+(?=[\w\[#]))+"
)
_ATTRIBUTE_LINE = re.compile(rb"\s*(?:@[^;{}]*|#?\[.*\]\s*|template\s*<[^;{}]*)\Z", re.DOTALL)


def signature(node: Node, body: Node | None, lines: Lines) -> str:
    """Return the head of a definition without its body, at most MAX_SIGNATURE_CHARS.

    Words before the node on its line belong to it: `export const`, `pub`, `type`.
    """
    start, data = node.start_byte, lines.data
    before = _words_before(start, lines)
    stop = min(node.end_byte, start + _HEAD_BYTES)
    inside = body.start_byte if body else stop
    has_body = start < inside < stop
    text = data[start : inside if has_body else stop].decode("utf-8", "ignore")
    if text.startswith(_ATTRIBUTE_STARTS):
        text = _ATTRIBUTES.sub("", text)
    text = text if has_body else _head(text)
    text = head(before + text)
    return text if len(text) <= MAX_SIGNATURE_CHARS else text[: MAX_SIGNATURE_CHARS - 1] + "…"


def _words_before(start: int, lines: Lines) -> str:
    row = lines.row(start)
    if lines.begins(start, row):
        return ""
    found = _LINE_START.fullmatch(_CLOSED.split(lines.before(start, row))[-1])
    return found.group(1).decode("utf-8", "ignore") if found else ""


def _head(text: str) -> str:
    """Return the text up to the first `{` or line end outside of parentheses."""
    depth = 0
    for found in _HEAD_MARKS.finditer(text):
        char = found.group()
        if char in "([":
            depth += 1
        elif char in ")]":
            depth -= 1
        elif depth <= 0:
            return text[: found.start()]
    return text


def docstring(body: Node | None, data: bytes) -> str:
    """Return the first line of the string that a body begins with; empty without one."""
    if body is None:
        return ""
    found = _DOCSTRING.match(data, body.start_byte, min(body.end_byte, body.start_byte + 500))
    if not found:
        return ""
    text = found.group(2).split(found.group(1), 1)[0]
    return text.decode("utf-8", "ignore").strip()[:MAX_DOC_CHARS]


def _is_attribute(line: bytes) -> bool:
    return line.lstrip()[:1] in _ATTRIBUTE_MARKS and bool(_ATTRIBUTE_LINE.match(line))


def comment_above(start: int, lines: Lines, comments: Comments) -> str:
    """Return the first line of the comment right above an offset; empty without one."""
    row = lines.row(start)
    if not lines.begins(start, row) and _CLOSED.search(lines.before(start, row)):
        return ""  # the comment is about something else that begins the line
    row -= 1
    while row >= 0 and _is_attribute(lines.text(row)):
        row -= 1
    first = comments.start(row + 1)
    if first > row:
        return ""
    for at in range(first, row + 1):
        line = lines.text(at).decode("utf-8", "ignore")
        words = line.lstrip(_OPENING_MARKS).rstrip(_CLOSING_MARKS)
        if words and not words.startswith("@"):
            return words[:MAX_DOC_CHARS]
    return ""
