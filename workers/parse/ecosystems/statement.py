"""Define import statements, and readers for syntaxes that several languages share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple


class Statement(NamedTuple):
    """An import as it is written."""

    module: str
    names: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()  # (name in this file, imported name)


Statements = Iterator[Statement]
StatementReader = Callable[[str], Statements]

#: The references of a whole text: offset, module, and kind (`image`, `file` …) of each.
References = Iterator[tuple[int, str, str]]
ReferenceReader = Callable[[str], References]

QUOTED = re.compile(r"""["'`]([^"'`\n]+)["'`]""")
#: A line comment counts after whitespace only, because `https://…` is a module in some languages.
_C_COMMENT = re.compile(r"(?<!\S)//|/\*")
_RENAMED = re.compile(r"(?<![\w$])([\w$]++)(?:\s++as\s++|\s*+=>\s*+)([\w$]++)")


def without_c_comments(text: str) -> str:
    """Return the text without its comments; a block comment that is not closed is kept."""
    kept: list[str] = []
    at = 0
    for found in _C_COMMENT.finditer(text):
        if found.start() < at:
            continue
        if found.group() == "//":
            end = text.find("\n", found.end())
            end = len(text) if end < 0 else end
        else:
            end = text.find("*/", found.end()) + 2
            if end < 2:  # no later one is closed either
                break
        kept.append(text[at : found.start()])
        at = end
    return "".join([*kept, text[at:]])


def renamed(text: str) -> tuple[tuple[str, str], ...]:
    """Return the renamed names of a list: `a as b, c.d => e` → `(("b", "a"), ("e", "d"))`."""
    if " as" not in text and "=>" not in text:
        return ()
    return tuple((own, name) for name, own in _RENAMED.findall(text) if own not in ("_", name))


def names(text: str, renames: str) -> tuple[str, ...]:
    """Return the imported names of a list: `a as b, c` → `("a", "c")`.

    `renames` is the pattern that separates a name from its new name.
    """
    parts = (re.split(renames, part.strip(), maxsplit=1)[0] for part in text.split(","))
    return tuple(name for name in (part.strip(" (){}\n\t\\") for part in parts) if name)


def grouped(text: str) -> Statements:
    """Read `import x.y.{A, B => C}` and `use X\\{A, B as C}`: a prefix and names in braces."""
    text = re.sub(r"^\s*(?:import|use|alias|require)\s+(?:function\s+|const\s+)?", "", text)
    before, _, after = text.partition("{")
    inside, is_closed, _ = after.partition("}")
    if is_closed:
        prefix = (before[:-1] if before.endswith((".", "\\")) else before).strip()
        yield Statement(prefix, names(inside, r"\s+as\s|\s*=>"), renamed(inside))
        return
    for part in text.rstrip("; \n").split(","):
        for module in names(part, r"\s+as\s|\s*=>|\s"):
            yield Statement(module.removeprefix("\\"), (), renamed(part))


def by_pattern(pattern: str) -> StatementReader:
    """Make a reader of one module per statement.

    Group `module` of the pattern is the module, group `own` the name it gets in the file, if any.
    """
    expression = re.compile(pattern)
    can_rename = "own" in expression.groupindex

    def statements(text: str) -> Statements:
        found = expression.search(text)
        if found:
            module = found["module"].strip()
            own = found["own"] if can_rename else None
            yield Statement(module, (), ((own, re.split(r"[./]", module)[-1]),) if own else ())

    return statements


def quoted_lines(pattern: str) -> ReferenceReader:
    """Make a reader of one module per matching line: group 1 of the multi-line pattern."""
    expression = re.compile(pattern, re.MULTILINE)

    def references(text: str) -> References:
        for found in expression.finditer(text):
            yield found.start(1), found.group(1), ""

    return references
