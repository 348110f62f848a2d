"""Summarise a file in a few sentences, given its stored chunks.

The summary has the path, the language model's summaries if there are any, the comment at the top of
the file, its exported names, and its imports. Staged retrieval compares queries with it, and
`explain` shows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from codelode.languages import BY_NAME
from codelode.model import Chunk, Kind

MAX_CHARS = 1_200
MAX_SYMBOLS = 20
MAX_IMPORTS = 10
MAX_SENTENCES = 8
MAX_HEAD_CHARS = 300

_DOCSTRING = re.compile(r"(?:\s*#[^\n]*\n)*\s*[rRuU]?(\"{3}|'{3})(.*?)\1", re.DOTALL)
_RULE = re.compile(r"^[\s*/#=~+-]*$")
#: Text at the top of many files that does not describe the file.
_BOILERPLATE = re.compile(
    r"copyright|licen[sc]e|all rights reserved|spdx-|^!|coding[:=]|vim:|-\*-|eslint|prettier"
    r"|go:build|pragma|@file$",
    re.IGNORECASE,
)


def of_file(path: str, chunks: Sequence[Chunk], imports: Iterable[str] = ()) -> str:
    """Return the summary of a file from its chunks in file order, at most MAX_CHARS."""
    first = chunks[0] if chunks else None
    sentences = dict.fromkeys(chunk.summary for chunk in chunks if chunk.summary)
    parts = (
        path,
        first.file_summary if first else "",
        head(first.content, first.language, first.kind) if first else "",
        " ".join(list(sentences)[:MAX_SENTENCES]),
        listed("Defines", exported(chunks), MAX_SYMBOLS),
        listed("Imports", imports, MAX_IMPORTS),
    )
    return "\n".join(part for part in parts if part)[:MAX_CHARS]


def exported(chunks: Iterable[Chunk]) -> tuple[str, ...]:
    """Return the public names of a file, outermost first; names with a leading `_` are private."""
    defined = dict.fromkeys(
        name for chunk in chunks for name in (chunk.symbol, *chunk.symbols) if name
    )
    shown = [name for name in defined if not any(part.startswith("_") for part in name.split("."))]
    return tuple(sorted(shown or defined, key=lambda name: name.count(".")))


def head(text: str, language: str, kind: Kind) -> str:
    """Return the first paragraph of the comment, docstring, or prose at the top; may be empty."""
    if kind is Kind.TEXT:
        return _paragraph(line.lstrip("# ") for line in text.split("\n"))
    docstring = _DOCSTRING.match(text)
    if docstring:
        return _paragraph(docstring.group(2).strip().split("\n"))
    return _paragraph(_comment_lines(text, language))


def listed(label: str, values: Iterable[str], limit: int) -> str:
    """Return `Defines a, b and 3 more.`; empty without values."""
    distinct = list(dict.fromkeys(values))
    more = f" and {len(distinct) - limit} more" if len(distinct) > limit else ""
    return f"{label} {', '.join(distinct[:limit])}{more}." if distinct else ""


def _comment_lines(text: str, language: str) -> Iterable[str]:
    """Return the lines of the comments before the first code, without comment markers."""
    row = BY_NAME.get(language)
    line_mark = row.line_comment if row else ""
    opening, closing = row.block_comment if row and row.block_comment else ("", "")
    is_open = False
    for line in map(str.strip, text.split("\n")):
        if not is_open and opening and line.startswith(opening):
            is_open, line = True, line.removeprefix(opening)
        if is_open:
            is_open = closing not in line
            yield line.partition(closing)[0].strip(" *")
        elif line_mark and line.startswith(line_mark):
            yield line.lstrip(line_mark[0]).strip()
        elif line:
            return
        else:
            yield ""


def _paragraph(lines: Iterable[str]) -> str:
    """Return the first lines that are not boilerplate."""
    paragraphs: list[list[str]] = [[]]
    for line in lines:
        if _RULE.match(line):
            paragraphs.append([])
        else:
            paragraphs[-1].append(line.strip())
    texts = (" ".join(paragraph) for paragraph in paragraphs)
    text = next((text for text in texts if text and not _BOILERPLATE.search(text)), "")
    return text if len(text) <= MAX_HEAD_CHARS else text[:MAX_HEAD_CHARS].rsplit(" ", 1)[0] + "…"
