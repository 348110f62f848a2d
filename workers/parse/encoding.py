"""Bytes to text, without ever failing and without losing a byte.

UTF-8 first, UTF-16 where a byte order mark says so, Latin-1 for the rest: Latin-1 maps every byte
to one character, so offsets in the text lead back to offsets in the file. The order mark belongs
to the bytes, not to the text.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass

_UTF16 = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


@dataclass(frozen=True, slots=True)
class Decoded:
    """A file as text, as UTF-8 (what grammars read), and how it was written."""

    text: str
    utf8: bytes  # `text` in UTF-8
    encoding: str  # of the file, after its byte order mark
    bom_bytes: int
    note: str = ""  # why the text is not plainly the file, for FileHealth.detail

    def size_bytes(self, text: str, utf8: bytes) -> int:
        """How many bytes of the file this part of the text took; `utf8` is the part in UTF-8."""
        return len(utf8) if self.encoding == "utf-8" else len(text.encode(self.encoding))


def decode(data: bytes) -> tuple[str, str]:
    """The text of a file without byte order mark, and a note when it is not plain UTF-8."""
    decoded = read(data)
    return decoded.text, decoded.note


def read(data: bytes) -> Decoded:
    """The file as text in every form that parsing needs."""
    bom = len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0
    body = data[bom:] if bom else data
    try:
        return Decoded(body.decode("utf-8"), body, "utf-8", bom)
    except UnicodeDecodeError:
        return _utf16(data) or _latin1(data)


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
