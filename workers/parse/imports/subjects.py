"""Find the files that a test is about, by its name and by what it imports."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from functools import lru_cache

from codelode import languages
from codelode.model import Category
from workers.parse.ecosystems.layout import Layout, nearest_to

#: `test_x`, `x_test`, `x.spec`, `XTest`, `XTests`, `XIT` → `x`
_MARKS = re.compile(
    r"^(?:test[_-]|Test(?=[A-Z]))|(?:[._-](?:test|spec|tests|specs|unit|e2e|it)|Tests?|TestCase|Specs?|IT)$"
)
#: Groups of extensions: a test with one of them may be about a file with any other of the group.
_FAMILIES = (
    (".ts", ".tsx", ".js", ".jsx", ".mjs", ".cjs", ".vue", ".svelte"),
    (".java", ".kt", ".scala", ".groovy"),
    (".c", ".cc", ".cpp", ".cxx", ".h", ".hpp"),
    (".ex", ".exs"),
)

#: Number of paths whose category is cached, because tests import the same files.
SOURCES_KEPT = 1 << 14


def subjects_of(path: str, imported: Sequence[str], layout: Layout) -> tuple[tuple[str, ...], str]:
    """Return the files, usually one, and the file name that the name of the test suggests.

    The name is empty if a file has it, or if the test's name suggests none. If no file has it, the
    test is about the only source file that it imports.
    """
    folder, name = posixpath.split(path)
    stem, extension = posixpath.splitext(name)
    subject = _subject(stem)
    sources = [one for one in imported if _is_source(one)]
    if subject is None:
        return (tuple(sources) if len(sources) == 1 else ()), ""
    named = [one for one in sources if _stem(one) == subject.lower()]
    if named:
        return (nearest_to(path, named) or named[0],), ""
    found = [
        file
        for end in _extensions(extension)
        for written in dict.fromkeys((subject, subject.lower()))
        for file in layout.ending(written + end)
        if file != path and _is_source(file)
    ]
    chosen = _closest(folder, found)
    if chosen is not None:
        return (chosen,), ""
    return (tuple(sources) if len(sources) == 1 else ()), f"{subject}{extension}"


def _subject(stem: str) -> str | None:
    found = _MARKS.sub("", stem)
    return found if found and found != stem else None


def _stem(path: str) -> str:
    return posixpath.splitext(posixpath.basename(path))[0].lower().lstrip("_")


def _extensions(extension: str) -> tuple[str, ...]:
    return next((family for family in _FAMILIES if extension in family), (extension,))


@lru_cache(maxsize=SOURCES_KEPT)
def _is_source(path: str) -> bool:
    return languages.category(path) in (Category.SOURCE, Category.CONFIGURATION)


def _closest(folder: str, found: Sequence[str]) -> str | None:
    """Return the file whose folders are most similar to the test's; None if several are."""
    if len(found) < 2:
        return found[0] if found else None
    mine = set(folder.split("/"))
    scores = {file: _likeness(mine, file) for file in found}
    best = max(scores.values())
    chosen = [file for file, score in scores.items() if score == best]
    return chosen[0] if len(chosen) == 1 else None


def _likeness(mine: set[str], file: str) -> float:
    theirs = set(posixpath.dirname(file).split("/"))
    return len(mine & theirs) - 0.1 * len(theirs - mine)
