"""Globs for paths and symbol names, matched in time proportional to the text.

`[` is an ordinary character: paths such as `pages/[id].tsx` are common in repositories, character
classes in a search filter are not. In paths only `**` crosses `/`.

Globs come from callers, and Python's `re` backtracks: a naive translation of `*a*a*a*b` takes time
polynomial in the length. Here a wildcard never gives back the first match of the literal after it
(an atomic group), because that match leaves the most text for the rest. The exception is `**/`
after a part of a name (`x**/y` also matches `xy`), whose two readings become alternatives.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from codelode.errors import InvalidQuery
from codelode.model import Chunk, Filters

#: Maximum number of `x**/` in a glob; each doubles the size of the expression.
MAX_PARTIAL_NAMES = 5

_PART = re.compile(r"\*\*/|\*\*|\*|[^*]+")
#: Separators of the literal parts of a glob. The `/` is part of `**/`, which may match nothing.
_LITERALS = re.compile(r"\*\*/|[*?]")
_DEEP = {"**": ".*?", "**/": "(?:.*?/)??"}
_IN_PATH, _IN_NAME = "[^/]", "[^\\n]"
#: A bracket that is neither closed nor followed by a wildcard that could close it.
_UNCLOSED = re.compile(r"\[[^\]*?]*\Z")


def is_literal(glob: str) -> bool:
    """Return whether the glob matches exactly one text."""
    return "*" not in glob and "?" not in glob


def signed(values: Iterable[str]) -> tuple[list[str], list[str]]:
    """Split the values into those without a leading `!` and those with one, which is removed."""
    split: tuple[list[str], list[str]] = ([], [])
    for value in values:
        split[value.startswith("!")].append(value.removeprefix("!"))
    return split


def path_problem(glob: str) -> str:
    """Return why no path can match the glob, with the remedy; empty if a path can match.

    `[` is an ordinary character: `pages/[id].tsx` matches the file of that name.
    """
    shown, parts = repr(glob[:100]), glob.split("/")
    if not parts[0]:
        return f"{shown} starts with '/'; paths are relative to the repository's root"
    if not parts[-1]:
        return f"{shown} ends with '/'; write '{glob[:100]}**' for everything inside"
    if not {"", ".", ".."}.isdisjoint(parts):
        return (
            f"{shown} can match no path; write it relative to the repository's root: 'src/**/*.py'"
        )
    if _UNCLOSED.search(glob):
        return (
            f"{shown} has an unclosed '['; brackets match themselves, as in "
            "'pages/[id].tsx', and '?' matches any one character"
        )
    return ""


def literal_prefix(glob: str) -> str:
    """Return the prefix of everything that matches: `src/**/*.py` → `src/`."""
    return re.split(r"[*?]", glob, maxsplit=1)[0]


def matches_path(glob: str) -> Callable[[str], bool]:
    """Return a predicate that tells whether the glob matches a whole path."""
    return _finds(_path_expression(glob), longest_literal(glob))


def matches_a_name(glob: str) -> Callable[[str], bool]:
    """Return a predicate that tells whether the glob matches one of several names, one per line."""
    return _finds(_names_expression(glob), longest_literal(glob))


def name_needles(glob: str) -> list[str]:
    """Return texts that occur in a list of names if the glob matches one of them.

    A line break surrounds each name: `get*` → a line break and `get`. There are no texts if a
    wildcard or a line break is inside the glob, or if it consists of wildcards.
    """
    literal = glob.strip("*")
    if not literal or not is_literal(literal) or "\n" in literal:
        return []
    before, after = "" if glob[0] == "*" else "\n", "" if glob[-1] == "*" else "\n"
    return [f"{before}{literal}{after}"]


def longest_literal(glob: str) -> str:
    """Return the longest literal part, which every match contains: `*ByName` → `ByName`."""
    return max(_LITERALS.split(glob), key=len)


def path_needles(glob: str) -> list[str]:
    """Return texts that occur in every path that the glob matches, with a line break around it.

    `src/**/a*.py` → a line break and `src/`, `a`, and `.py` and a line break. There are none for a
    glob with a line break, which could be found where two paths meet.
    """
    if "\n" in glob:
        return []
    first, *others = _LITERALS.split(glob)
    *inner, last = others or [""]
    if not others:
        return [f"\n{first}\n"]
    ends = (f"\n{first}" if first else "", f"{last}\n" if last else "")
    return [one for one in (ends[0], *inner, ends[1]) if one]


def is_inside(chunk: Chunk, filters: Filters) -> bool:
    """Return whether the chunk matches the filters, the ref included."""
    return (
        filters.ref in chunk.refs
        and _is_among(chunk.repository, filters.repositories)
        and _is_among(chunk.language, filters.languages)
        and _is_among(chunk.kind, filters.kinds)
        and _is_among(chunk.category, filters.categories)
        and _is_among(chunk.block_type, filters.block_types)
        and _any_matches(filters.paths, matches_path, chunk.path)
        and (not filters.symbols or _any_matches(filters.symbols, matches_a_name, _names(chunk)))
        and not is_excluded(chunk, filters)
    )


def _names(chunk: Chunk) -> str:
    """Return the names that the chunk defines, one per line."""
    return "\n".join({name for name in (chunk.symbol, *chunk.symbols) if name})


def is_excluded(chunk: Chunk, filters: Filters) -> bool:
    """Return whether an exclusion matches the chunk, or its path is outside of the scope."""
    return (
        chunk.repository in filters.not_repositories
        or chunk.language in filters.not_languages
        or any(matches_path(glob)(chunk.path) for glob in filters.not_paths)
        or not _any_matches(filters.within, matches_path, chunk.path)
    )


def _is_among(value: str, wanted: Sequence[str]) -> bool:
    return not wanted or value in wanted


def _any_matches(
    wanted: Sequence[str], matcher: Callable[[str], Callable[[str], bool]], text: str
) -> bool:
    return not wanted or any(matcher(glob)(text) for glob in wanted)


def _finds(expression: str, literal: str) -> Callable[[str], bool]:
    search = re.compile(expression).search
    return lambda text: literal in text and search(text) is not None


def _path_expression(glob: str) -> str:
    variants = _variants(_merged(_PART.findall(glob)))
    return rf"(?s)\A(?:{'|'.join(_whole(parts, _IN_PATH) for parts in variants)})\Z"


def _names_expression(glob: str) -> str:
    parts = _PART.findall(re.sub(r"\*+", "*", glob))
    return rf"(?m)^(?!$){_whole(parts, _IN_NAME)}$"


def _merged(parts: Sequence[str]) -> list[str]:
    """Drop wildcards that add nothing to the one before: `**/**/a` → `**/a`."""
    merged: list[str] = []
    for part in parts:
        if part in _DEEP and merged and merged[-1] in _DEEP:
            merged[-1] = min(part, merged[-1])  # "**" matches everything that "**/" does
        else:
            merged.append(part)
    return merged


def _variants(parts: list[str]) -> list[list[str]]:
    """Return the parts in every reading of `**/` after a part of a name. Raises InvalidQuery."""
    variants: list[list[str]] = [[]]
    for before, part in zip(["/", *parts], parts, strict=False):
        if part == "**/" and not before.endswith("/"):
            variants = [[*v, *way] for v in variants for way in ([], ["**", "/"])]
        else:
            variants = [[*v, part] for v in variants]
        if len(variants) > 1 << MAX_PARTIAL_NAMES:
            raise InvalidQuery(
                "filters.paths",
                f"has `**/` after a part of a name more than {MAX_PARTIAL_NAMES} times; "
                "write `**/` after a `/`",
            )
    return variants


def _whole(parts: Sequence[str], any_char: str) -> str:
    """Split at deep wildcards and translate; each block but the last keeps its first match."""
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
    """Translate the block that ends with the text: its last wildcard has no next literal."""
    if parts == ["**"]:
        return ".*"
    if "*" not in parts:
        return _block(parts, any_char)
    star = len(parts) - 1 - parts[::-1].index("*")
    end = "".join(_literal(part, any_char) for part in parts[star + 1 :])
    return f"{_block(parts[:star], any_char)}{any_char}*{end}"


def _literal(part: str, any_char: str) -> str:
    return any_char.join(map(re.escape, part.split("?")))
