"""Resolve links in Markdown to files of the repository."""

from __future__ import annotations

import posixpath
import re

from codelode.model import Import
from workers.parse.ecosystems.layout import Layout
from workers.parse.ecosystems.resolution import EXTERNAL, Resolved, at, beside, first
from workers.parse.ecosystems.statement import References

_LINK = re.compile(
    r"\]\(\s*<?([^()\s<>]+)>?(?:\s+\"[^\"\n]*\")?\s*\)|^\[[^\]\n]+\]:\s+(\S+)", re.MULTILINE
)
_CODE = re.compile(r"^(```|~~~).*?^\1|`[^`\n]*`", re.DOTALL | re.MULTILINE)
_PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp", ".ico", ".mp4", ".pdf")


def references(text: str) -> References:
    """Read the targets of links outside code, without addresses and anchors."""
    plain = _CODE.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)
    for found in _LINK.finditer(plain):
        target = found.group(1) or found.group(2)
        if not re.match(r"[a-zA-Z][\w+.-]*:|#|//", target):
            yield found.start(), target, "file"


def resolve(imp: Import, path: str, layout: Layout) -> Resolved:
    """Resolve a link to a file; a link to a folder means its README."""
    written = re.split(r"[#?]", imp.module, maxsplit=1)[0]
    if not written or written.lower().endswith(_PICTURES):
        return EXTERNAL
    base = written.lstrip("/") if written.startswith("/") else beside(path, written)
    if base is None:
        return EXTERNAL
    names = (base, f"{base}.md", f"{base}/README.md", f"{base}/index.md")
    found = first(layout, names) if base else None
    return Resolved((found,)) if found else Resolved(keys=at(posixpath.splitext(base)[0]))
