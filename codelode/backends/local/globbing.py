"""Globs as expressions of Python's `re` that take time in proportion to the text.

Same meaning as `globs`, whose expressions suit engines that never go back. Python's goes back, so
that `*a*a*a*b` would cost a power of the length, and globs come from callers. Here a wildcard that
found its next literal holds on to it (an atomic group): the first place leaves the most for what
follows. That is not so where `**/` stands behind half a name (`x**/y`, also matching `xy`); the
two readings become alternatives.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from codelode.backends import globs
from codelode.errors import InvalidQuery

#: Of `x**/`: each doubles the expression.
MAX_HALF_NAMES = 5

_PART = re.compile(r"\*\*/|\*\*|\*|[^*]+")
_DEEP = {"**": ".*?", "**/": "(?:.*?/)??"}
_IN_PATH, _IN_NAME = "[^/]", "[^\\n]"


def matches_path(glob: str) -> Callable[[str], bool]:
    """Whether the glob matches all of a path."""
    return _finds(path_expression(glob), globs.literal_prefix(glob))


def matches_a_name(glob: str) -> Callable[[str], bool]:
    """Whether the glob matches one of several names, one a line."""
    return _finds(names_expression(glob), globs.literal_prefix(glob))


def _finds(expression: str, literal: str) -> Callable[[str], bool]:
    search = re.compile(expression).search
    return lambda text: literal in text and search(text) is not None


def path_expression(glob: str) -> str:
    """An expression whose search finds something in a path if the glob matches all of it."""
    variants = _variants(_merged(_PART.findall(glob)))
    return rf"(?s)\A(?:{'|'.join(_whole(parts, _IN_PATH) for parts in variants)})\Z"


def names_expression(glob: str) -> str:
    """An expression whose search finds something in names, one a line, if one of them matches."""
    parts = _PART.findall(re.sub(r"\*+", "*", glob))
    return rf"(?m)^(?!$){_whole(parts, _IN_NAME)}$"


def _merged(parts: Sequence[str]) -> list[str]:
    """Without wildcards that follow others and add nothing: `**/**/a` is `**/a`."""
    merged: list[str] = []
    for part in parts:
        if part in _DEEP and merged and merged[-1] in _DEEP:
            merged[-1] = min(part, merged[-1])  # "**" matches all that "**/" does
        else:
            merged.append(part)
    return merged


def _variants(parts: list[str]) -> list[list[str]]:
    """The parts, in all readings of `**/` behind half a name."""
    variants: list[list[str]] = [[]]
    for before, part in zip(["/", *parts], parts, strict=False):
        if part == "**/" and not before.endswith("/"):
            variants = [[*v, *way] for v in variants for way in ([], ["**", "/"])]
        else:
            variants = [[*v, part] for v in variants]
        if len(variants) > 1 << MAX_HALF_NAMES:
            raise InvalidQuery("filters.paths", "write `**/` behind a `/`")
    return variants


def _whole(parts: Sequence[str], any_char: str) -> str:
    """Blocks between the deep wildcards: each but the last holds on to where it first matched."""
    blocks: list[list[str]] = [[]]
    for part in parts:
        if part in _DEEP:
            blocks.append([])
        blocks[-1].append(part)
    *first, last = blocks
    return "".join(f"(?>{_block(block, any_char)})" for block in first) + _last(last, any_char)


def _block(parts: Sequence[str], any_char: str) -> str:
    made, is_after_star = "", False
    for part in parts:
        if part in _DEEP:
            made += _DEEP[part]
        elif part != "*":
            literal = _literal(part, any_char)
            made += f"(?>{any_char}*?{literal})" if is_after_star else literal
        is_after_star = part == "*"
    return made


def _last(parts: list[str], any_char: str) -> str:
    """The block that ends with the text: its last wildcard has nothing to hold on to."""
    if parts == ["**"]:
        return ".*"
    if "*" not in parts:
        return _block(parts, any_char)
    star = len(parts) - 1 - parts[::-1].index("*")
    end = "".join(_literal(part, any_char) for part in parts[star + 1 :])
    return f"{_block(parts[:star], any_char)}{any_char}*{end}"


def _literal(part: str, any_char: str) -> str:
    return any_char.join(map(re.escape, part.split("?")))
