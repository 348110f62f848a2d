"""What a person without an index does: grep for the words of a question and read the files.

The baseline that search is compared with. Files are ranked by how many different words of the query
they hold, then by how many lines hold one; each is read whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from codelode.evaluation import Place
from codelode.judged import CHARS_PER_TOKEN, TOP_K, Shown

#: Words that grep is not asked for.
SHORTEST = 3
#: Larger files and those with a NUL byte are not text that one reads.
MAX_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Text:
    """A file as grep sees it."""

    lines: tuple[str, ...]  # in lower case
    tokens: int


def read(folder: Path) -> dict[str, Text]:
    """The text files of a checkout, by path; `.git` and links are left out."""
    return dict(_texts(folder))


def search(query: str, files: Mapping[str, Text], *, top_k: int = TOP_K) -> list[Shown]:
    """The best files, whole."""
    words = {word for word in re.findall(r"\w+", query.lower()) if len(word) >= SHORTEST}
    scored = [(_score(text, words), path) for path, text in files.items()]
    best = sorted((-distinct, -lines, path) for (distinct, lines), path in scored if distinct)
    return [Shown(Place(path), files[path].tokens) for _, _, path in best[:top_k]]


def _score(text: Text, words: set[str]) -> tuple[int, int]:
    """How many of the words occur, and in how many lines one does."""
    held: set[str] = set()
    lines = 0
    for line in text.lines:
        found = {word for word in words if word in line}
        held |= found
        lines += bool(found)
    return len(held), lines


def _texts(folder: Path) -> Iterator[tuple[str, Text]]:
    for file in sorted(folder.rglob("*")):
        if ".git" in file.parts or file.is_symlink() or not file.is_file():
            continue
        if file.stat().st_size > MAX_BYTES:
            continue
        raw = file.read_bytes()
        if b"\0" in raw:
            continue
        text = raw.decode("utf-8", "replace")
        path = file.relative_to(folder).as_posix()
        yield path, Text(tuple(text.lower().split("\n")), len(text) // CHARS_PER_TOKEN)
