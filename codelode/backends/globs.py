"""Globs as regular expressions, in the syntax that Python and Rust's `regex` share.

`[` is an ordinary character: paths such as `pages/[id].tsx` are common in repositories, character
classes in a search filter are not. The expressions are not anchored; match them in full, with `.`
matching newlines.
"""

from __future__ import annotations

import re

_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$]")
_PATH_PART = re.compile(r"\*\*/|\*\*|\*|\?|[^*?]+")
_NAME_PART = re.compile(r"\*+|\?|[^*?]+")
_PATH_WILDCARDS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def is_literal(glob: str) -> bool:
    """Whether the glob matches one text only."""
    return "*" not in glob and "?" not in glob


def literal_prefix(glob: str) -> str:
    """What everything that matches begins with: `src/**/*.py` → `src/`."""
    return re.split(r"[*?]", glob, maxsplit=1)[0]


def path_expression(glob: str) -> str:
    """`src/**/*.py` → `src/(?:.*/)?[^/]*\\.py`: only `**` crosses `/`."""
    parts = _PATH_PART.findall(glob)
    return "".join(_PATH_WILDCARDS.get(part) or escape(part) for part in parts)


def name_expression(glob: str) -> str:
    """`User*` → `User[^\\n]*`."""
    parts = _NAME_PART.findall(glob)
    wildcard = {"*": "[^\n]*", "?": "[^\n]"}
    return "".join(wildcard.get(part[0]) or escape(part) for part in parts)


def escape(text: str) -> str:
    """The text as an expression that matches only it.

    Narrower than `re.escape`, whose `\\ ` and `\\<` Rust does not accept.
    """
    return _SPECIAL.sub(lambda match: "\\" + match.group(), text)
