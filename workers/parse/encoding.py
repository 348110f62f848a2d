"""Decode bytes to text without failing and without losing a byte.

A file is UTF-16 if it has a byte order mark or every other byte is NUL, else UTF-8 if it decodes,
else Latin-1, which maps every byte to one character. So offsets in the text can be mapped to
offsets in the file. The byte order mark is not part of the text.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass

#: Number of bytes in which NULs are searched: as many as git examines to call a file binary.
HEAD_BYTES = 8_000

#: Minimum share of zero high bytes (Latin characters) in UTF-16 without a byte order mark; a file
#: with fewer is binary.
_LATIN_SHARE = 0.7

_UTF16 = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


@dataclass(frozen=True, slots=True)
class Decoded:
    """A file as text and as UTF-8, which grammars read, with its encoding."""

    text: str
    utf8: bytes  # `text` in UTF-8
    encoding: str  # of the file, after its byte order mark
    bom_bytes: int
    note: str = ""  # the encoding if it is not UTF-8, for FileHealth.detail

    def size_bytes(self, text: str, utf8: bytes) -> int:
        """Return the size of a part of the text in the file; `utf8`: that part in UTF-8."""
        return len(utf8) if self.encoding == "utf-8" else len(text.encode(self.encoding))


_ORDER_MARKS = tuple(mark for mark, _ in _UTF16)


def decode(data: bytes) -> tuple[str, str]:
    """Return the text of a file without byte order mark, and a note if it is not UTF-8."""
    decoded = read(data)
    return decoded.text, decoded.note


def read(data: bytes) -> Decoded:
    """Return the file as text in every form that parsing needs."""
    unmarked = unmarked_utf16(data)
    if unmarked:
        text = data.decode(unmarked)
        return Decoded(text, text.encode(), unmarked, 0, f"decoded as {unmarked}")
    bom = len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0
    body = data[bom:] if bom else data
    try:
        return Decoded(body.decode("utf-8"), body, "utf-8", bom)
    except UnicodeDecodeError:
        return _utf16(data) or _latin1(data)


def unmarked_utf16(data: bytes) -> str:
    """Return the encoding of UTF-16 without a byte order mark; empty for anything else.

    It is recognised by NULs in most high bytes (_LATIN_SHARE) and in no low byte.
    """
    head = data[:HEAD_BYTES]
    if b"\0" not in head or len(data) % 2 or data.startswith(_ORDER_MARKS):
        return ""
    for even, encoding in ((0, "utf-16-be"), (1, "utf-16-le")):
        high, low = head[even::2], head[1 - even :: 2]
        if high.count(0) >= _LATIN_SHARE * len(high) and not low.count(0):
            return encoding if _decodes(data, encoding) else ""
    return ""


def _decodes(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def _utf16(data: bytes) -> Decoded | None:
    for bom, encoding in _UTF16:
        if data.startswith(bom):
            try:
                text = data[len(bom) :].decode(encoding)
            except UnicodeDecodeError:
                return None
            return Decoded(text, text.encode(), encoding, len(bom), f"decoded as {encoding}")
    return None


def _latin1(data: bytes) -> Decoded:
    text = data.decode("latin-1")
    return Decoded(text, text.encode(), "latin-1", 0, "decoded as latin-1")
