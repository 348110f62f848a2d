"""Read the frames of a stack trace, or the lines of files, that were pasted as a query. Pure.

Traces of Go and Python are read frame by frame. In other text, such as traces of other languages
and messages of compilers, each place of the form `src/server.c:1840` is a frame.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from codelode.languages import resolve
from gateway.state import Frame

#: Maximum number of frames of a trace that are looked up, innermost first. Chosen by hand.
MAX_FRAMES = 10

_GO_PLACE = re.compile(r"\s+(?P<path>\S+\.go):(?P<line>\d{1,7})\b")
_PYTHON = re.compile(
    r'[ \t]*File "(?P<path>[^"\n]+)", line (?P<line>\d{1,7}), in (?P<function>\w+)'
)
#: `src/server.c:1840`, also as `Server.java:18)`, `./main.rs:4:5`, `app.php(123)`, in links as
#: `app.py#L12`, `app.py#L12C5`, `app.md?plain=1#L12`, `app.py#lines-12`, and in words as
#: `A.cs:line 12`, `run.sh: line 12`, `app.php on line 12`, `"app.py", line 12`, `app.py (line 12)`.
_PLACE = re.compile(
    r"(?<![\w@+./\\-])(?P<path>[\w@+./\\-]++)"
    r"(?::|\(|(?:\?[\w=&/.%-]*+)?#(?:L|lines-)"
    r"|(?P<words>(?P<quote>[\"'`]?)[:,]? ?\(?(?:on |at )?[Ll]ine ))"
    r"(?P<line>\d{1,7})(?:\b|(?=C\d))"
)
_EXTENSION = re.compile(r"\.[A-Za-z]\w{0,9}")
#: Matches words of prose that look like names of files: `e.g`, `a.m`, `Node.js`. Chosen by hand.
_PROSE = re.compile(
    r"\w\.\w|(?:backbone|chart|d3|ember|express|moment|next|node|nuxt|three|vue)\.js", re.IGNORECASE
)
#: Folders with installed packages. Packages of Python are direct children. For Rust and Ruby, the
#: value is the number of folders in between; the name of a package's folder ends with its version.
_PYTHON_PACKAGES = frozenset({"site-packages", "dist-packages"})
_VERSIONED = {"registry": 2, "gems": 0}
#: Matches where the version begins in the name of a folder: `tokio-1.38.0`, in Go `sdk@v1.2.0`.
_VERSION = re.compile(r"-\d|@v\d")
#: Matches the part of a Go name that stands for a function literal: `func1` in `main.run.func1`.
_LITERAL = re.compile(r"(?:func)?\d+")


def frames(text: str) -> tuple[Frame, ...]:
    """Return the frames of the first trace in the text, innermost first.

    Without a trace, return the lines of files that the text names, in the order of the text.
    """
    lines = text.splitlines()
    found = tuple(_go(_from_panic(lines))) or tuple(_python(lines))[::-1] or tuple(_places(text))
    return tuple(replace(frame, path=_in_package(frame.path)) for frame in found[:MAX_FRAMES])


def _in_package(path: str) -> str:
    """Return the path of an installed file from its package on, without the version.

    The folders above it differ from those of the repository: `site-packages/flask/app.py` may be
    `src/flask/app.py` there. Other paths stay as they are.
    """
    parts = path.split("/")
    for at, part in enumerate(parts):
        if part in _PYTHON_PACKAGES:
            return "/".join(parts[at + 1 :])
        package = at + 1 + _VERSIONED.get(part, len(parts))
        if package < len(parts) and _VERSION.search(parts[package]):
            return "/".join((_unversioned(parts[package]), *parts[package + 1 :]))
    return "/".join(map(_unversioned, parts)) if "@v" in path else path


def _unversioned(folder: str) -> str:
    """Return the name of a package's folder without the version."""
    found = _VERSION.search(folder)
    return folder[: found.start()] if found else folder


def _from_panic(lines: list[str]) -> list[str]:
    """Return the lines from the last call of `panic` on, without the deferred functions above it.

    These ran during the panic. One of them may itself have panicked again.
    """
    calls = [at for at, line in enumerate(lines) if line.startswith("panic(")]
    return lines[calls[-1] :] if calls else lines


def _go(lines: list[str]) -> Iterator[Frame]:
    """Yield the frames of a goroutine, innermost first: each is a call with its place below it."""
    for call, place in pairwise(lines):
        if place.startswith("goroutine "):
            continue
        found = _GO_PLACE.match(place)
        name, opened, _ = call.rpartition("(")
        if not found or not opened or call.startswith("created by "):
            continue
        parts = [part for part in re.findall(r"\w+", name) if not _LITERAL.fullmatch(part)]
        if parts:
            yield Frame(found["path"], int(found["line"]), parts[-1])


def _python(lines: list[str]) -> Iterator[Frame]:
    """Yield the frames of a traceback, outermost first."""
    for found in filter(None, map(_PYTHON.match, lines)):
        yield Frame(found["path"], int(found["line"]), found["function"])


def _places(text: str) -> Iterator[Frame]:
    """Yield the distinct lines of files that the text names."""
    found = filter(_is_place, _PLACE.finditer(text))
    for path, line in dict.fromkeys((one["path"], one["line"]) for one in found):
        yield Frame(path.replace("\\", "/").removeprefix("./"), int(line))


def _is_place(found: re.Match[str]) -> bool:
    """Return whether the path looks like that of a file.

    Before the word `line`, it must have a folder, quotes, or the extension of a language.
    """
    path = found["path"]
    stem, dot, extension = path.rpartition(".")
    if not stem or not _EXTENSION.fullmatch(f"{dot}{extension}"):
        return False
    if not found["words"] or found["quote"] or set(path) & set("/\\"):
        return True
    return not _PROSE.fullmatch(path) and resolve(f"{dot}{extension}") is not None
