"""Files that are not worth parsing, each with the reason that is recorded for it."""

from __future__ import annotations

import codecs

from codelode import languages
from workers.parse.encoding import decode, unmarked_utf16

#: Git looks for a NUL in as many bytes to call a file binary.
BINARY_WINDOW_BYTES = 8_000

#: Head in which generated-markers are looked for, bytes.
HEAD_BYTES = 4_096

#: Longest average line of JavaScript and CSS that a person writes, bytes. Smaller files have too
#: few lines to tell.
MINIFIED_LINE_BYTES = 300
MINIFIED_MIN_BYTES = 2_000

_MINIFIED_LANGUAGES = frozenset({"javascript", "css"})
_LFS = b"version https://git-lfs.github.com/spec/"
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def guard(data: bytes, *, path: str, max_bytes: int) -> str | None:
    """Why the file is left out of the index; None: it belongs there."""
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
    if languages.detect(path).name not in _MINIFIED_LANGUAGES:
        return False
    return len(data) / (data.count(b"\n") + 1) > MINIFIED_LINE_BYTES
