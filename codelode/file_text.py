"""Put the text of a file together from its chunks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import AnyStr

from codelode.model import Chunk, FileKey, FileText


def in_file_order(chunk: Chunk) -> tuple[int, int]:
    """Return the key by which the chunks of a file are ordered."""
    return chunk.start_line, chunk.part


def file_text(chunks: Sequence[Chunk]) -> str:
    """Return the text of a file, given its chunks in file order, with `\\n` as line break.

    Chunks leave out only blank lines, which are put back.
    """
    return _joined(((one.start_line, one.end_line, one.content) for one in chunks), "\r", "\n")


def text_by_file(held: Mapping[FileKey, Sequence[Chunk]]) -> dict[FileKey, FileText]:
    """Return the text of each file, given its chunks in file order."""
    return {
        place: FileText(chunks[0].language, file_text(chunks).encode("utf-8", "replace"))
        for place, chunks in held.items()
        if chunks
    }


def shares_lines(chunks: Sequence[Chunk]) -> bool:
    """Return whether a line of the file may be in several chunks, which are in file order.

    If not, each chunk has whole lines and can be read without the others.
    """
    return any(after.start_line <= before.end_line for before, after in pairwise(chunks)) or any(
        one.start_line + one.content.count("\n") != one.end_line + one.content.endswith("\n")
        for one in chunks
    )


def raw_text(pieces: Iterable[tuple[int, int, bytes]]) -> bytes:
    """Return the text of a file as `file_text` does, in UTF-8.

    `pieces`: first and last line and content of each chunk, in file order. Lines of chunks that are
    left out are blank.
    """
    return _joined(pieces, b"\r", b"\n")


def _joined(pieces: Iterable[tuple[int, int, AnyStr]], mac: AnyStr, unix: AnyStr) -> AnyStr:
    parts: list[AnyStr] = []
    line = 1
    for start, end, content in pieces:
        if start > line:
            parts.append(unix * (start - line))
        parts.append(content)
        line = end + content.endswith(unix)
    text = unix[:0].join(parts)
    return text.replace(mac + unix, unix) if mac in text else text
