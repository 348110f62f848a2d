"""Resolve headers of C, C++, Objective-C, CUDA: next to the file, then the nearest of that path."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

from codelode.model import Import
from workers.parse.ecosystems.layout import Layout, likely, nearest_to
from workers.parse.ecosystems.resolution import EXTERNAL, Resolved
from workers.parse.ecosystems.statement import Statement, Statements

_STANDARD_NAMES = (
    "assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal "
    "stdalign stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string tgmath "
    "threads time uchar wchar wctype unistd fcntl pthread"
)
_STANDARD = frozenset(_STANDARD_NAMES.split())
_INCLUDE_FOLDERS = frozenset({"include", "inc", "includes", "headers"})


def statements(text: str) -> Statements:
    """Read `#include <a.h>` and `#include "a.h"`, with the brackets or quotes."""
    found = re.search(r"<[^<>\n]+>|\"[^\"\n]+\"", text)
    if found:
        yield Statement(found.group())


def resolve(imp: Import, path: str, layout: Layout) -> Resolved:
    """Resolve a header; if it is in quotes, first look next to the file."""
    name = imp.module.strip('<>"')
    is_quoted = imp.module.startswith('"')
    if not is_quoted and "/" not in name and name.removesuffix(".h") in _STANDARD:
        return EXTERNAL
    beside = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
    if is_quoted and beside in layout:
        return Resolved((beside,))
    tail = posixpath.normpath(name)
    while tail.startswith("../"):
        tail = tail[3:]
    keys = (f"b:{posixpath.basename(tail)}",)
    found = [file for file in layout.ending(tail) if is_quoted or _is_public(file, tail)]
    found = list(likely(path, found))
    chosen = nearest_to(path, _in_include_folders(found, tail) or found)
    return Resolved((chosen,) if chosen else (), keys)  # a nearer header may be added later


def _is_public(file: str, tail: str) -> bool:
    """Return whether `<tail>` may be the file; a bare name must be at the root or in `include`."""
    root = _root(file, tail)
    return "/" in tail or not root or posixpath.basename(root) in _INCLUDE_FOLDERS


def _in_include_folders(found: Sequence[str], tail: str) -> list[str]:
    return [file for file in found if posixpath.basename(_root(file, tail)) in _INCLUDE_FOLDERS]


def _root(file: str, tail: str) -> str:
    return file.removesuffix(tail).rstrip("/")
