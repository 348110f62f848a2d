"""Read the frames of a stack trace that was pasted as a query. Pure.

Read are traces of Go and Python: other traces name the function and its file in one line, which the
search of the words finds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from gateway.state import Frame

#: Most frames of a trace that are looked up, innermost first. Chosen by hand.
MAX_FRAMES = 10

_GO_PLACE = re.compile(r"\s+(?P<path>\S+\.go):(?P<line>\d{1,7})\b")
_PYTHON = re.compile(
    r'[ \t]*File "(?P<path>[^"\n]+)", line (?P<line>\d{1,7}), in (?P<function>\w+)'
)
#: Part of the name of a function literal in Go: `main.run.func1`.
_LITERAL = re.compile(r"(?:func)?\d+")


def frames(text: str) -> tuple[Frame, ...]:
    """Return the frames of the first trace in the text, innermost first; empty: it has none."""
    lines = text.splitlines()
    return tuple(_go(_from_panic(lines)))[:MAX_FRAMES] or tuple(_python(lines))[::-1][:MAX_FRAMES]


def _from_panic(lines: list[str]) -> list[str]:
    """Leave out the deferred functions, which a trace has above the panic that they ran in.

    A function that handles a panic and panics again is such a function too.
    """
    calls = [at for at, line in enumerate(lines) if line.startswith("panic(")]
    return lines[calls[-1] :] if calls else lines


def _go(lines: list[str]) -> Iterator[Frame]:
    """Yield the frames of a goroutine: a call, and below it the place, innermost first."""
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
