"""Mask the attribute macros of C and C++: `printflike` in `void printflike(2, 3) log(…) {}`.

A grammar cannot know what a macro stands for. It reads one with arguments beside a function as the
name of the function, and often loses the functions after it. Before a function, the arguments of
such a macro contain numbers or strings, unlike parameters. After one, as in
`void Add(int n) LOCKS_EXCLUDED(mutex_) {}`, its name is in capital letters.
"""

from __future__ import annotations

import re

#: A qualifier, which a grammar accepts wherever a macro may be before a function.
_QUALIFIER = b"const"

#: Matches a macro with arguments, perhaps after a type, if a function with its type follows.
#: `before` begins a line and ends with the name of the macro.
_BEFORE = re.compile(
    rb"^(?P<before>[A-Za-z_][\w \t*]*+)\((?P<arguments>[\w \t,.\"]*+)\)(?=\s[\s\w*]*+\()",
    re.MULTILINE,
)
_VALUE = re.compile(rb"\"|\b\d")

#: Matches the end of the parameters of a function, and the macros between it and the body.
_AFTER = re.compile(
    rb"(?P<end>\)(?:\s++(?:const|noexcept|override|final)\b)*+)"
    rb"(?P<macros>(?:\s++[A-Z][A-Z\d_]{2,}+\([^(){};]*+\)){1,4}+)(?=\s*+\{)"
)

#: Keywords before parentheses that contain a condition or a value.
_STATEMENTS = frozenset(b"if while for switch return sizeof".split())

_BLANKS = bytes(c if c in b"\r\n" else ord(" ") for c in range(256))


def masked(data: bytes) -> bytes:
    """Return the text with a qualifier or blanks in place of each such macro."""
    return _AFTER.sub(_without_after, _BEFORE.sub(_without_before, data))


def _without_before(found: re.Match[bytes]) -> bytes:
    before, whole = found["before"], found[0]
    words = before.replace(b"*", b" ").split()
    start = before.rindex(words[-1])
    is_long = len(whole) - start >= len(_QUALIFIER)
    if not is_long or not _VALUE.search(found["arguments"]) or _STATEMENTS & set(words):
        return whole
    return whole[:start] + _QUALIFIER.ljust(len(whole) - start)


def _without_after(found: re.Match[bytes]) -> bytes:
    return found["end"] + found["macros"].translate(_BLANKS)
