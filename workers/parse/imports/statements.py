"""Read imports as they are written, in import statements or anywhere in a text.

An import is a line or two in every language, so its text is read by the regular expressions of its
ecosystem's module. Formats without import statements (YAML, manifests, prose) are read as a whole.
The result depends only on the content and the family, not on the path, so that equal files give
equal imports.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import islice

from tree_sitter import Node

from codelode.infrastructure import Family
from codelode.model import Import
from workers.parse.ecosystems import kustomize
from workers.parse.lines import Lines
from workers.parse.rules import Rules

#: Maximum size of an import statement, bytes; longer ones are not written by hand.
MAX_IMPORT_BYTES = 20_000

#: Maximum number of imports of a file; the others are left out.
MAX_IMPORTS = 5_000
#: Maximum length of the name of a module.
MAX_MODULE_CHARS = 1_000

#: Maximum number of references of a text; a text with more is generated.
MAX_REFERENCES = 2_000
#: Maximum length of a text, characters; a longer one is data.
MAX_CHARS = 400_000


def read(nodes: Sequence[Node], rules: Rules, lines: Lines) -> tuple[Import, ...]:
    """Return the imports of import statements, in file order.

    A statement that names several modules gives several imports.
    """
    if rules.statements is None:
        return ()
    out: list[Import] = []
    for node in nodes:
        start = node.start_byte
        text = lines.data[start : min(node.end_byte, start + MAX_IMPORT_BYTES)]
        if text.startswith(_CALLED):
            text = _bound(text, start, node.end_byte, lines.data)
        line = lines.row(start) + 1
        found = rules.statements(text.decode("utf-8", "ignore"))
        out += [Import(one.module, line, one.names, one.renamed) for one in found]
    return tuple(out)


def bounded(found: Iterable[Import]) -> tuple[Import, ...]:
    """Return the first MAX_IMPORTS imports whose modules may exist.

    Without a limit, nested statements could repeat a long prefix many times.
    """
    return tuple(islice((one for one in found if is_sound(one)), MAX_IMPORTS))


def is_sound(imp: Import) -> bool:
    return 0 < len(imp.module) <= MAX_MODULE_CHARS and "\0" not in imp.module


#: Beginnings of imports that are expressions. A declaration around them names what is imported.
_CALLED = (b"require(", b"import(")
_DECLARING = re.compile(
    rb"\b(?:const|let|var)\s+(?:[\w$]+|\{[^{}=]*\})\s*(?::[^=\n]*)?=\s*(?:await\s+)?$"
)
_MEMBER_OF_IT = re.compile(rb"\.[\w$]+(?=\s*(?:[;,\n]|$))")
_MAX_DECLARATION_BYTES = 300


def _bound(text: bytes, start: int, end: int, data: bytes) -> bytes:
    """Return an import with the declaration around it: `const {a: b} = require("c")`."""
    declaring = _DECLARING.search(data, max(0, start - _MAX_DECLARATION_BYTES), start)
    if not declaring:
        return text
    member = _MEMBER_OF_IT.match(data, end)
    if member:
        return declaring.group() + text + member.group()
    is_whole = data[end : end + 1] not in (b".", b"(", b"[")
    return declaring.group() + text if is_whole else text


def references(text: str, rules: Rules, family: Family | None = None) -> tuple[Import, ...]:
    """Return the references of a text in file order, with their kind in `names`.

    The kind is `uses`, `image`, `build`, `chart`, `file`, `base` …, or `package` for a dependency
    that a manifest declares.
    """
    reader = kustomize.references if family is Family.KUSTOMIZATION else rules.references
    if reader is None or len(text) > MAX_CHARS:
        return ()
    found: dict[Import, None] = {}
    line, last = 1, 0
    for offset, module, kind in sorted(reader(text)):
        line, last = line + text.count("\n", last, offset), offset
        found[Import(module, line, (kind,) if kind else ())] = None
        if len(found) == MAX_REFERENCES:
            break
    return tuple(found)
