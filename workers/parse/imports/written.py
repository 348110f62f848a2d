"""Imports as written, from the text of the nodes a query captured.

An import is a line or two in every language, so its text is taken apart by expression; one reader
per syntax, and languages of one syntax share it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from tree_sitter import Node

from codelode.model import Import
from codelode.references import DEFAULT, MODULE
from workers.parse.lines import Lines

#: A longer import statement is not written by hand.
MAX_IMPORT_BYTES = 20_000


class _Import(NamedTuple):
    """An import without its line."""

    module: str
    names: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()  # the file's own name, the imported one


_Written = Iterator[_Import]

_QUOTED = re.compile(r"""["'`]([^"'`\n]+)["'`]""")
_PYTHON_COMMENT = re.compile(r"#[^\n]*")
#: After whitespace only: `https://…` is a module to some.
_C_COMMENT = re.compile(r"(?<!\S)//[^\n]*|/\*.*?\*/", re.DOTALL)


def read(nodes: Sequence[Node], language: str, lines: Lines) -> tuple[Import, ...]:
    """The imports in file order; a statement that names several modules gives several."""
    reader = _READERS.get(language)
    if reader is None:
        return ()
    out: list[Import] = []
    for node in nodes:
        start = node.start_byte
        text = lines.data[start : min(node.end_byte, start + MAX_IMPORT_BYTES)]
        if text.startswith(_CALLED):
            text = _bound(text, start, node.end_byte, lines.data)
        line = lines.row(start) + 1
        found = reader(text.decode("utf-8", "ignore"))
        out += [Import(one.module, line, one.names, one.renamed) for one in found]
    return tuple(out)


#: Imports that are expressions, to which a declaration around them gives names.
_CALLED = (b"require(", b"import(")
_DECLARING = re.compile(
    rb"\b(?:const|let|var)\s+(?:[\w$]+|\{[^{}=]*\})\s*(?::[^=\n]*)?=\s*(?:await\s+)?$"
)
_MEMBER_OF_IT = re.compile(rb"\.[\w$]+(?=\s*(?:[;,\n]|$))")
_MAX_DECLARATION_BYTES = 300


def _bound(text: bytes, start: int, end: int, data: bytes) -> bytes:
    """The import with the declaration around it: `const {a: b} = require("c")`."""
    declaring = _DECLARING.search(data, max(0, start - _MAX_DECLARATION_BYTES), start)
    if not declaring:
        return text
    member = _MEMBER_OF_IT.match(data, end)
    if member:
        return declaring.group() + text + member.group()
    is_whole = data[end : end + 1] not in (b".", b"(", b"[")
    return declaring.group() + text if is_whole else text


_RENAMED = re.compile(r"([\w$]+)(?:\s+as\s+|\s*=>\s*)([\w$]+)")


def _renamed(text: str) -> tuple[tuple[str, str], ...]:
    """`a as b, c.d => e` → `(("b", "a"), ("e", "d"))`."""
    if " as" not in text and "=>" not in text:
        return ()
    return tuple((own, name) for name, own in _RENAMED.findall(text) if own not in ("_", name))


def _names(text: str, renames: str) -> tuple[str, ...]:
    """`a as b, c` → `("a", "c")`."""
    parts = (re.split(renames, part.strip(), maxsplit=1)[0] for part in text.split(","))
    return tuple(name for name in (part.strip(" (){}\n\t\\") for part in parts) if name)


def _python(text: str) -> _Written:
    text = _PYTHON_COMMENT.sub("", text)
    found = re.match(r"from\s+(\S+)\s+import\b(.*)", text, re.DOTALL)
    if found:
        names = found.group(2)
        yield _Import(found.group(1), _names(names, r"\s+as\s"), _renamed(names))
        return
    for part in text.removeprefix("import").split(","):
        module, _, own = (side.strip(" ()\n\t\\") for side in part.partition(" as "))
        if module:
            yield _Import(module, (), ((own, MODULE),) if own else ())


def _javascript(text: str) -> _Written:
    text = _C_COMMENT.sub("", text)
    quoted = _QUOTED.findall(text)
    if not quoted:
        return
    clause = re.match(r"(?:import|export)\s+(?:type\s+)?([^\"']*?)\s*from\b", text, re.DOTALL)
    if clause is None:
        yield _Import(quoted[-1], (), _javascript_bound(text))
    elif text.startswith("export"):
        yield _Import(quoted[-1], _javascript_names(clause.group(1)))
    else:
        names = clause.group(1)
        yield _Import(quoted[-1], _javascript_names(names), _javascript_renamed(names))


def _javascript_names(clause: str) -> tuple[str, ...]:
    """`X, {a as b}` → `("default", "a")`; `* as ns` → `("*",)`."""
    braces = re.search(r"\{(.*)\}", clause, re.DOTALL)
    outside = clause[: braces.start()] if braces else clause
    names = ["*" if name == "*" else "default" for name in _names(outside, r"\s+as\s")]
    inside = _names(braces.group(1), r"\s+as\s") if braces else ()
    return (*names, *(name.removeprefix("type ") for name in inside))


def _javascript_renamed(clause: str) -> tuple[tuple[str, str], ...]:
    """`X, {a as b}` → `(("X", "default"), ("b", "a"))`; `* as ns` → `(("ns", "*"),)`."""
    outside, _, inside = clause.partition("{")
    whole = re.findall(r"(\*\s*as\s+)?([\w$]+)", outside)
    return (
        *((own, MODULE if star else DEFAULT) for star, own in whole),
        *_renamed(inside),
    )


_JAVASCRIPT_BOUND = re.compile(
    r"(?:const|let|var|import)\s+(?:([\w$]+)|\{([^{}]*)\})[^=]*=.*?\)(?:\.([\w$]+))?\s*;?$",
    re.DOTALL,
)


def _javascript_bound(text: str) -> tuple[tuple[str, str], ...]:
    """`const x = require("c")` → `(("x", "default"),)`; `const {a: b} = …` → `(("b", "a"),)`."""
    found = _JAVASCRIPT_BOUND.match(text)
    if not found:
        return ()
    own, inside, member = found.groups()
    if own:
        return ((own, member or DEFAULT),) if own != member else ()
    if member:
        return ()
    pairs = re.findall(r"([\w$]+)\s*:\s*([\w$]+)", inside)
    return tuple((own, name) for name, own in pairs)


def _rust(text: str) -> _Written:
    text = " ".join(_C_COMMENT.sub("", text).split()).rstrip("; ")
    module = re.search(r"\bmod (\w+)$", text)
    if module:
        yield _Import(f"self::{module.group(1)}")
        return
    used = re.sub(r"^.*?\b(?:use|extern crate)\s+", "", text, count=1)
    for path in _rust_paths(used):
        module_path = _rust_path(path)
        renamed = _renamed(f"{module_path.rpartition('::')[2]}{path[path.rfind(' as ') :]}")
        yield _Import(module_path, (), renamed if " as " in path else ())


def _rust_paths(tree: str) -> Iterator[str]:
    """`a::{b, c::{d, self}}` → `a::b`, `a::c::d`, `a::c`, by a stack of prefixes."""
    prefixes, path = [""], ""
    for token in re.findall(r"[{},]|[^{},]+", tree):
        if token == "{":
            prefixes.append(prefixes[-1] + path.strip())
            path = ""
        elif token in ",}":
            if path.strip():
                yield prefixes[-1] + path.strip()
            path = ""
            if token == "}" and len(prefixes) > 1:
                prefixes.pop()
        else:
            path = token
    if path.strip():
        yield prefixes[-1] + path.strip()


def _rust_path(path: str) -> str:
    return re.sub(r"\s+as\s+\w+$", "", path).removesuffix("::self").removeprefix("::")


def _c(text: str) -> _Written:
    found = re.search(r"<[^>\n]+>|\"[^\"\n]+\"", text)
    if found:
        yield _Import(found.group())


def _grouped(text: str) -> _Written:
    """`import x.y.{A, B => C}`, `use X\\{A, B as C}`: the prefix, and the names in braces."""
    text = re.sub(r"^\s*(?:import|use|alias|require)\s+(?:function\s+|const\s+)?", "", text)
    braces = re.search(r"[.\\]?\{([^}]*)\}", text)
    if braces:
        names = braces.group(1)
        prefix = text[: braces.start()].strip()
        yield _Import(prefix, _names(names, r"\s+as\s|\s*=>"), _renamed(names))
        return
    for part in text.rstrip("; \n").split(","):
        for module in _names(part, r"\s+as\s|\s*=>|\s"):
            yield _Import(module.removeprefix("\\"), (), _renamed(part))


def _elixir(text: str) -> _Written:
    """`alias A.{B, C}`, `use A, option: 1`."""
    found = re.match(r"\s*\w+\s*\(?\s*([A-Z][\w.]*?)(?:\.\{([^}]*)\})?(?=[\s,)]|$)", text)
    if found:
        own = re.search(r"\bas:\s*(\w+)", text)
        yield _Import(
            found.group(1),
            _names(found.group(2) or "", r"\s+as\s"),
            ((own.group(1), MODULE),) if own else (),
        )


def _php(text: str) -> _Written:
    if text.startswith("use"):
        yield from _grouped(text)
        return
    for module in _QUOTED.findall(text):
        yield _Import(module.removeprefix("/"))


def _ruby(text: str) -> _Written:
    for module in _QUOTED.findall(text)[:1]:
        is_relative = text.startswith("require_relative") and not module.startswith(".")
        yield _Import(f"./{module}" if is_relative else module)


def _by_pattern(pattern: str) -> Callable[[str], _Written]:
    """A reader of one module per statement: the pattern's group `m`, and `own` if it renames it."""
    expression = re.compile(pattern)
    can_rename = "own" in expression.groupindex

    def reader(text: str) -> _Written:
        found = expression.search(text)
        if found:
            module = found["m"].strip()
            own = found["own"] if can_rename else None
            yield _Import(module, (), ((own, re.split(r"[./]", module)[-1]),) if own else ())

    return reader


_READERS: dict[str, Callable[[str], _Written]] = {
    "python": _python,
    "javascript": _javascript,
    "typescript": _javascript,
    "tsx": _javascript,
    "go": _by_pattern(r"(?:(?P<own>[^\W_]\w*|_\w+)\s*)?[\"`](?P<m>[^\"`]+)[\"`]"),
    "java": _by_pattern(r"import\s+(?:static\s+)?(?P<m>[\w.*]+)"),
    "kotlin": _by_pattern(r"import\s+(?P<m>[\w.*`]+)(?:\s+as\s+(?P<own>\w+))?"),
    "rust": _rust,
    "c": _c,
    "cpp": _c,
    "scala": _grouped,
    "elixir": _elixir,
    "php": _php,
    "ruby": _ruby,
    "csharp": _by_pattern(
        r"using\s+(?:static\s+)?(?:(?P<own>\w+)\s*=\s*)?(?:global::)?(?P<m>[\w.]+)"
    ),
    "swift": _by_pattern(r"import\s+(?:(?:class|struct|func|enum|protocol)\s+)?(?P<m>[\w.]+)"),
    "haskell": _by_pattern(r"import\s+(?:qualified\s+)?(?P<m>[\w.]+)"),
    "lua": _by_pattern(r"[\"'](?P<m>[^\"'\n]+)[\"']"),
    "zig": _by_pattern(r"\"(?P<m>[^\"\n]+)\""),
    "bash": _by_pattern(r"(?:source|\.)\s+[\"']?(?P<m>[^\s\"';]+)"),
}
