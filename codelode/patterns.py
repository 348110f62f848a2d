"""Match the patterns of an ignore file as git does, in linear time.

The patterns come from untrusted repositories and users. Libraries translate a pattern into one
backtracking expression, where a line such as `*a*a*a*ab` takes 40 seconds for one deep path. Here a
path is matched name by name, and every star but the last is an atomic group. The rules are those of
gitignore(5) and git's wildmatch.c, except that `?` and `[…]` match one character, not one byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

#: Limits of an ignore file; whatever exceeds them is ignored.
MAX_FILE_BYTES = 256_000
MAX_PATTERNS = 2_000
MAX_PATTERN_CHARS = 1_000

#: The expression for one name of a path; None stands for `**`, any number of names.
_Step = re.Pattern[str] | None

_TOKEN = re.compile(
    r"(?P<escaped>\\.)"
    r"|(?P<stars>\*+)"
    r"|(?P<any>\?)"
    r"|\[(?P<negated>[!^])?(?P<members>\]?(?:\\.|\[:[a-z]+:\]|[^\]\\])*)\]"
    r"|(?P<literal>[^\\\[])",
    re.DOTALL,
)
_MEMBER = re.compile(r"\[:(?P<named>[a-z]+):\]|\\?(?P<low>.)(?:-\\?(?P<high>.))?", re.DOTALL)
_NAMED = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\s",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}
_ANY_NAME = re.compile(r".+", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Pattern:
    steps: tuple[_Step, ...]
    is_negated: bool
    is_for_folders: bool
    is_for_names: bool  # no slash in it: one step, compared with the last name of a path

    def matches(self, names: Sequence[str], *, is_folder: bool) -> bool:
        if self.is_for_folders and not is_folder:
            return False
        return _match(self.steps, names[-1:] if self.is_for_names else names)


@dataclass(frozen=True, slots=True)
class Patterns:
    """The patterns of one file, last first, because the last match decides."""

    patterns: tuple[_Pattern, ...]
    names: re.Pattern[str] | None = field(repr=False)  # of all patterns without a slash

    def verdict(self, names: Sequence[str], *, is_folder: bool) -> bool | None:
        """Return True if the path is ignored, False if it is re-included, None without a match.

        `names` are the parts of the path, relative to the folder of the ignore file. Only the path
        itself is matched, not the folders above it.
        """
        may_match_name = self.names is not None and self.names.fullmatch(names[-1]) is not None
        for pattern in self.patterns:
            if pattern.is_for_names and not may_match_name:
                continue
            if pattern.matches(names, is_folder=is_folder):
                return not pattern.is_negated
        return None


def parse(content: bytes) -> Patterns:
    """Parse an ignore file, without lines that can match nothing."""
    text = content[:MAX_FILE_BYTES].decode("utf-8-sig", "backslashreplace")
    found = [pattern for line in text.split("\n") if (pattern := _pattern(line)) is not None]
    patterns = tuple(reversed(found[:MAX_PATTERNS]))
    names = [
        step.pattern
        for pattern in patterns
        if pattern.is_for_names
        for step in pattern.steps
        if step
    ]
    return Patterns(patterns, re.compile("|".join(names), re.DOTALL) if names else None)


def can_match(line: str) -> bool:
    """Return whether a line can match a path; a comment or an unclosed `[` cannot."""
    return _pattern(line) is not None


def _pattern(line: str) -> _Pattern | None:
    line = _without_trailing_spaces(line.removesuffix("\r"))
    if not line or line.startswith("#") or len(line) > MAX_PATTERN_CHARS:
        return None
    body = line.removeprefix("!")
    path = body.removesuffix("/")
    steps = _steps(path.removeprefix("/")) if path else None
    if steps is None:
        return None
    return _Pattern(
        steps,
        is_negated=body != line,
        is_for_folders=path != body,
        is_for_names="/" not in path and None not in steps,
    )


def _without_trailing_spaces(line: str) -> str:
    stripped = line.rstrip(" ")
    backslashes = len(stripped) - len(stripped.rstrip("\\"))
    return stripped + " " if backslashes % 2 and stripped != line else stripped


def _steps(path: str) -> tuple[_Step, ...] | None:
    """Return one step per name of the pattern, or None if it can match nothing."""
    parts = path.split("/")
    try:
        steps: list[_Step] = [None if part == "**" else _name(part) for part in parts]
    except ValueError:
        return None
    if steps[-1] is None:  # `a/**` matches everything inside `a`, not `a` itself
        steps.append(_ANY_NAME)
    return tuple(steps)


def _name(part: str) -> re.Pattern[str]:
    """Return the expression for one name; raises ValueError for an invalid pattern."""
    pieces = [""]  # between the stars
    end = 0
    while token := _TOKEN.match(part, end):  # a search would look for the end of every `[`
        end = token.end()
        if token["stars"]:
            pieces.append("")
        else:
            pieces[-1] += _token(token)
    if end != len(part) or part in ("", ".", ".."):  # no path has these names
        raise ValueError(part)
    first, *rest = pieces
    # A piece has a fixed length, so its first occurrence is as good as any other.
    middle = "".join(f"(?>.*?{piece})" for piece in rest[:-1])
    last = f".*{rest[-1]}" if rest else ""
    return re.compile(f"(?:{first}{middle}{last})", re.DOTALL)


def _token(token: re.Match[str]) -> str:
    if token["any"]:
        return "."
    if token["members"] is not None:
        return _set(token["members"], is_negated=bool(token["negated"]))
    return re.escape(token["literal"] or token["escaped"][1:])


def _set(members: str, *, is_negated: bool) -> str:
    inside = "".join(_members(members))
    if not inside:
        return "." if is_negated else "(?!)"
    return f"[{'^' if is_negated else ''}{inside}]"


def _members(members: str) -> Iterator[str]:
    for member in _MEMBER.finditer(members):
        low, high = member["low"], member["high"]
        if member["named"]:
            yield _NAMED.get(member["named"], "")
        elif high is None:
            yield _literal(low)
        elif low <= high:
            yield f"{_literal(low)}-{_literal(high)}"


def _literal(character: str) -> str:
    """Escape a character inside `[…]`, where more are special than `re.escape` escapes."""
    return f"\\{character}" if character in r"\]^-[&~|" else character


def _match(steps: Sequence[_Step], names: Sequence[str]) -> bool:
    """Return whether the steps match all names.

    For globs, it is enough to backtrack to the last `**`.
    """
    step = name = 0
    star = retry = -1
    while name < len(names):
        wanted = steps[step] if step < len(steps) else _NOTHING
        if wanted is None:
            star, retry = step, name
            step += 1
        elif wanted.fullmatch(names[name]):
            step += 1
            name += 1
        elif star >= 0:
            retry += 1
            step, name = star + 1, retry
        else:
            return False
    return all(left is None for left in steps[step:])


_NOTHING = re.compile(r"(?!)")
