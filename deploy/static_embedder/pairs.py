"""Extract (sentence, code) pairs: what people wrote about code, and the code without it.

There are three kinds: a definition's documentation → the definition; a comment inside a body → the
lines below it; a file's opening documentation → its beginning. They are found by line patterns, so
a language needs only one row in COMMENTS. The path precedes the code, as in the texts that the
index embeds; in half of the pairs, the code has the lines around it, as in a chunk.
"""

from __future__ import annotations

import ast
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from corpus import Source

CODE_LINES = 50
MIN_WORDS, MAX_WORDS = 3, 60
MIN_CODE_CHARS = 40
PATH_PARTS = 4  # from the end of a path, because its start only shows the layout of the registry

_C = r"^\s*(?://[/!]?|/\*+!?|\*(?!/)(?:\s|$)|\*/)"
_HASH = r"^\s*#(?!\[|!|include|define|if|else|endif|pragma|undef)"
COMMENTS = {
    **dict.fromkeys(("go", "javascript", "java", "kotlin", "scala", "rust", "c", "zig"), _C),
    "php": rf"{_C}|{_HASH}",
    **dict.fromkeys(("python", "ruby", "shell"), _HASH),
    "lua": r"^\s*--+\[*",
}
_COMMENTS = {language: re.compile(pattern) for language, pattern in COMMENTS.items()}

_MARKUP = re.compile(
    r"\{@\w++\s++([^{}]*+)\}|</?\w++[^<>]*+>|:\w+:`~?([^`]*)`|`+([^`]*)`+|\[([^\[\]]*)\]\([^()]*\)"
)
_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z@(`*-])|\n\s*\n|\n\s*[@\\:-]\s?\w+|\n\s*(?:=|-|\*){2,}")
_NOISE = re.compile(
    r"copyright|licen[cs]e|todo|fixme|xxx|eslint|prettier|noqa|nolint|pylint|pragma|"
    r"type:|ts-ignore|@internal|see the|inheritdoc|-\*-|vim:|https?://|coding:|auto-?generated|"
    r"all rights|spdx|=====|-----|\+build|go:\w+|SAFETY|deprecated|;$| = |->",
    re.IGNORECASE,
)
_ANNOTATION = re.compile(r"^\s*(?:@\w|#\[|#!\[|\[\w+|template\s*<)")
_WORD = re.compile(r"[A-Za-z]{2,}")


@dataclass(frozen=True, slots=True)
class Pair:
    package: str
    language: str
    kind: str  # definition, comment or file
    sentence: str
    code: str


@dataclass(frozen=True, slots=True)
class _Documented:
    """Code and its documentation; rows are 0-based."""

    kind: str
    doc: str
    doc_rows: range
    row: int  # where the code starts
    code: str


def extract(source: Source) -> Iterator[Pair]:
    """Yield the pairs of a file, in file order."""
    lines = source.text.split("\n")
    path = "/".join(source.path.split("/")[-PATH_PARTS:])
    found = _docstrings(source.text, lines) if source.language == "python" else iter(())
    for one in (*found, *_commented(source.language, lines)):
        sentence = first_sentence(one.doc)
        if not sentence or len(one.code) < MIN_CODE_CHARS:
            continue
        is_window = zlib.crc32(sentence.encode()) % 2 == 1
        code = _window(lines, one) if is_window else one.code
        yield Pair(source.package, source.language, one.kind, sentence, f"{path}\n{code}")


def first_sentence(text: str) -> str:
    """Return the first sentence without markup; empty if it says nothing about code."""
    text = _MARKUP.sub(lambda match: next((g for g in match.groups() if g), " "), text.strip())
    sentence = " ".join(_END.split(text, maxsplit=1)[0].split())
    known = len(_WORD.findall(sentence))
    if not MIN_WORDS <= known <= MAX_WORDS or _NOISE.search(sentence):
        return ""
    letters = sum(char.isalpha() or char.isspace() for char in sentence)
    return sentence if letters >= 0.75 * len(sentence) else ""


def _window(lines: list[str], one: _Documented) -> str:
    """Return CODE_LINES lines around the code, without its documentation."""
    before = zlib.crc32(one.doc.encode()) % (CODE_LINES // 2)
    start = max(0, min(one.row, one.doc_rows.start) - before)
    rows = range(start, min(len(lines), start + CODE_LINES))
    return "\n".join(lines[row] for row in rows if row not in one.doc_rows)


def _docstrings(text: str, lines: list[str]) -> Iterator[_Documented]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        doc = ast.get_docstring(node)
        if not doc or not node.body:
            continue
        string = node.body[0]
        start = 0 if isinstance(node, ast.Module) else node.lineno - 1
        end = len(lines) if isinstance(node, ast.Module) else node.end_lineno or len(lines)
        code = lines[start : string.lineno - 1] + lines[string.end_lineno or 0 : end]
        kind = "file" if isinstance(node, ast.Module) else "definition"
        rows = range(string.lineno - 1, string.end_lineno or string.lineno)
        yield _Documented(kind, doc, rows, start, "\n".join(code[:CODE_LINES]))


def _commented(language: str, lines: list[str]) -> Iterator[_Documented]:
    comment = _COMMENTS[language]
    row = 0
    while row < len(lines):
        start = row
        while row < len(lines) and comment.match(lines[row]):
            row += 1
        if row == start:
            row += 1
            continue
        text = "\n".join(comment.sub("", line).removesuffix("*/") for line in lines[start:row])
        code = _block(lines, row, comment)
        if code and (row - start < 40):
            is_inner = lines[start][:1] in (" ", "\t") and row - start < 3
            kind = "comment" if is_inner else "definition"
            yield _Documented(kind, text, range(start, row), row, code)


def _block(lines: list[str], row: int, comment: re.Pattern[str]) -> str:
    """Return the code from `row` on until its indentation ends, without comments."""
    while row < len(lines) and _ANNOTATION.match(lines[row]):
        row += 1
    if row >= len(lines) or not lines[row].strip() or lines[row].strip()[0] in "}])":
        return ""
    indent = _indent(lines[row])
    out = [lines[row]]
    for line in lines[row + 1 : row + CODE_LINES]:
        if line.strip() and _indent(line) < indent:
            break
        if line.strip() and _indent(line) == indent and _is_next(line, out):
            break
        if not comment.match(line):
            out.append(line)
    return "\n".join(out)


def _is_next(line: str, above: list[str]) -> bool:
    """Return whether a line at the block's own indentation begins another block."""
    closes = line.strip()[0] in "}])" or line.strip().startswith("end")
    return not closes and not above[-1].strip()


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
