"""Put the text of a file together from its chunks."""

from __future__ import annotations

from collections.abc import Sequence

from codelode.model import Chunk


def in_file_order(chunk: Chunk) -> tuple[int, int]:
    """Return the key by which the chunks of a file are ordered."""
    return chunk.start_line, chunk.part


def file_text(chunks: Sequence[Chunk]) -> str:
    """Return the text of a file, given its chunks in file order, with `\\n` as line break.

    Chunks leave out only blank lines, which are put back.
    """
    parts: list[str] = []
    line = 1
    for chunk in chunks:
        if chunk.start_line > line:
            parts.append("\n" * (chunk.start_line - line))
        parts.append(chunk.content)
        line = chunk.end_line + chunk.content.endswith("\n")
    text = "".join(parts)
    return text.replace("\r\n", "\n") if "\r" in text else text
