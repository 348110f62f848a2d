"""Imports as written, from the text of the nodes a query captured.

An import is a line or two in every language, so its text is taken apart by expression; one reader
per syntax, and languages of one syntax share it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from tree_sitter import Node

from codelode.model import Import
from workers.parse.lines import Lines

#: A longer import statement is not written by hand.
MAX_IMPORT_BYTES = 20_000

_Written = Iterator[tuple[str, tuple[str, ...]]]  # module, names

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
        end = min(node.end_byte, node.start_byte + MAX_IMPORT_BYTES)
        text = lines.data[node.start_byte : end].decode("utf-8", "ignore")
        line = lines.row(node.start_byte) + 1
        out += [Import(module, line, names) for module, names in reader(text)]
    return tuple(out)


def _names(text: str, renames: str) -> tuple[str, ...]:
    """`a as b, c` → `("a", "c")`."""
    parts = (re.split(renames, part.strip(), maxsplit=1)[0] for part in text.split(","))
    return tuple(name for name in (part.strip(" (){}\n\t\\") for part in parts) if name)


def _python(text: str) -> _Written:
    text = _PYTHON_COMMENT.sub("", text)
    found = re.match(r"from\s+(\S+)\s+import\b(.*)", text, re.DOTALL)
    if found:
        yield found.group(1), _names(found.group(2), r"\s+as\s")
        return
    for module in _names(text.removeprefix("import"), r"\s+as\s"):
        yield module, ()


def _javascript(text: str) -> _Written:
    text = _C_COMMENT.sub("", text)
    quoted = _QUOTED.findall(text)
    if not quoted:
        return
    clause = re.match(r"(?:import|export)\s+(?:type\s+)?([^\"']*?)\s*from\b", text, re.DOTALL)
    yield quoted[-1], _javascript_names(clause.group(1)) if clause else ()


def _javascript_names(clause: str) -> tuple[str, ...]:
    """`X, {a as b}` → `("default", "a")`; `* as ns` → `("*",)`."""
    braces = re.search(r"\{(.*)\}", clause, re.DOTALL)
    outside = clause[: braces.start()] if braces else clause
    names = ["*" if name == "*" else "default" for name in _names(outside, r"\s+as\s")]
    inside = _names(braces.group(1), r"\s+as\s") if braces else ()
    return (*names, *(name.removeprefix("type ") for name in inside))


def _rust(text: str) -> _Written:
    text = " ".join(_C_COMMENT.sub("", text).split()).rstrip("; ")
    module = re.search(r"\bmod (\w+)$", text)
    if module:
        yield f"self::{module.group(1)}", ()
        return
    used = re.sub(r"^.*?\b(?:use|extern crate)\s+", "", text, count=1)
    for path in _rust_paths(used):
        yield path, ()


def _rust_paths(tree: str) -> Iterator[str]:
    """`a::{b, c::{d, self}}` → `a::b`, `a::c::d`, `a::c`, by a stack of prefixes."""
    prefixes, path = [""], ""
    for token in re.findall(r"[{},]|[^{},]+", tree):
        if token == "{":
            prefixes.append(prefixes[-1] + path.strip())
            path = ""
        elif token in ",}":
            if path.strip():
                yield _rust_path(prefixes[-1] + path.strip())
            path = ""
            if token == "}" and len(prefixes) > 1:
                prefixes.pop()
        else:
            path = token
    if path.strip():
        yield _rust_path(prefixes[-1] + path.strip())


def _rust_path(path: str) -> str:
    return re.sub(r"\s+as\s+\w+$", "", path).removesuffix("::self").removeprefix("::")


def _c(text: str) -> _Written:
    found = re.search(r"<[^>\n]+>|\"[^\"\n]+\"", text)
    if found:
        yield found.group(), ()


def _grouped(text: str) -> _Written:
    """`import x.y.{A, B => C}`, `use X\\{A, B as C}`: the prefix, and the names in braces."""
    text = re.sub(r"^\s*(?:import|use|alias|require)\s+(?:function\s+|const\s+)?", "", text)
    braces = re.search(r"[.\\]?\{([^}]*)\}", text)
    if braces:
        yield text[: braces.start()].strip(), _names(braces.group(1), r"\s+as\s|\s*=>")
        return
    for module in _names(text.rstrip("; \n"), r"\s+as\s|\s*=>|\s"):
        yield module.removeprefix("\\"), ()


def _elixir(text: str) -> _Written:
    """`alias A.{B, C}`, `use A, option: 1`."""
    found = re.match(r"\s*\w+\s*\(?\s*([A-Z][\w.]*?)(?:\.\{([^}]*)\})?(?=[\s,)]|$)", text)
    if found:
        yield found.group(1), _names(found.group(2) or "", r"\s+as\s")


def _php(text: str) -> _Written:
    if text.startswith("use"):
        yield from _grouped(text)
        return
    for module in _QUOTED.findall(text):
        yield module.removeprefix("/"), ()


def _ruby(text: str) -> _Written:
    for module in _QUOTED.findall(text)[:1]:
        is_relative = text.startswith("require_relative") and not module.startswith(".")
        yield f"./{module}" if is_relative else module, ()


def _by_pattern(pattern: str) -> Callable[[str], _Written]:
    """A reader of one module per statement: the pattern's first group."""
    expression = re.compile(pattern)

    def reader(text: str) -> _Written:
        found = expression.search(text)
        if found:
            yield found.group(1).strip(), ()

    return reader


_READERS: dict[str, Callable[[str], _Written]] = {
    "python": _python,
    "javascript": _javascript,
    "typescript": _javascript,
    "tsx": _javascript,
    "go": _by_pattern(r"[\"`]([^\"`]+)[\"`]"),
    "java": _by_pattern(r"import\s+(?:static\s+)?([\w.*]+)"),
    "kotlin": _by_pattern(r"import\s+([\w.*`]+)"),
    "rust": _rust,
    "c": _c,
    "cpp": _c,
    "scala": _grouped,
    "elixir": _elixir,
    "php": _php,
    "ruby": _ruby,
    "csharp": _by_pattern(r"using\s+(?:static\s+)?(?:\w+\s*=\s*)?(?:global::)?([\w.]+)"),
    "swift": _by_pattern(r"import\s+(?:(?:class|struct|func|enum|protocol)\s+)?([\w.]+)"),
    "haskell": _by_pattern(r"import\s+(?:qualified\s+)?([\w.]+)"),
    "lua": _by_pattern(r"[\"']([^\"'\n]+)[\"']"),
    "zig": _by_pattern(r"\"([^\"\n]+)\""),
    "bash": _by_pattern(r"(?:source|\.)\s+[\"']?([^\s\"';]+)"),
}
