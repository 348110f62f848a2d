"""Decide by the content of a file whether it is left out of the index, and for which reason."""

from __future__ import annotations

import codecs

from codelode import languages
from workers.parse.encoding import decode, unmarked_utf16
from workers.parse.language_rules import rules_of

#: Number of bytes in which a NUL makes a file binary: as many as git examines.
BINARY_WINDOW_BYTES = 8_000

#: Number of bytes at the start of a file in which marks of generated code are searched.
HEAD_BYTES = 4_096

#: Maximum average length of lines written by a person, bytes, and the size of a file below which it
#: is not checked.
MINIFIED_LINE_BYTES = 300
MINIFIED_MIN_BYTES = 2_000

_LFS = b"version https://git-lfs.github.com/spec/"
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def guard(data: bytes, *, path: str, max_bytes: int) -> str | None:
    """Return the reason to leave a file out of the index; None if there is none."""
    if not data.strip():
        return "empty"
    if len(data) > max_bytes:
        return f"too large: {len(data)} bytes, limit {max_bytes}"
    if data.startswith(_LFS):
        return "git lfs pointer"
    if b"\0" in data[:BINARY_WINDOW_BYTES] and not _is_utf16(data):
        return "binary"
    if languages.is_lock_file(path):
        return "generated: lock file"
    if languages.is_generated(path, decode(data[:HEAD_BYTES])[0]):
        return "generated"
    if _is_minified(data, path):
        return "minified"
    return None


def _is_utf16(data: bytes) -> bool:
    return data.startswith(_UTF16) or bool(unmarked_utf16(data))


def _is_minified(data: bytes, path: str) -> bool:
    if len(data) < MINIFIED_MIN_BYTES:
        return False
    if not rules_of(languages.detect(path).name).is_minified_often:
        return False
    return len(data) / (data.count(b"\n") + 1) > MINIFIED_LINE_BYTES
