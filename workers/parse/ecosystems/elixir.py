"""Resolve Elixir modules to files with snake-case names below `lib` and Phoenix's folders."""

from __future__ import annotations

import re
from collections.abc import Sequence

from codelode.model import Import
from codelode.references import MODULE
from workers.parse.ecosystems.layout import Layout, nearest_to
from workers.parse.ecosystems.resolution import Resolved
from workers.parse.ecosystems.statement import Statement, Statements, names

_ROOTS = ("lib/", "support/", "test/", "controllers/", "live/", "views/", "schemas/")


_STATEMENT = re.compile(
    r"\s*+\w++\s*+(?:\(\s*+)?([A-Z](?:\w|\.(?!\{))*+)(?:\.\{([^}]*+)\})?(?=[\s,)]|$)"
)


def statements(text: str) -> Statements:
    """Read `alias A.{B, C}`, `alias A, as: B`, `use A, option: 1`."""
    found = _STATEMENT.match(text)
    if found:
        own = re.search(r"\bas:\s*(\w+)", text)
        yield Statement(
            found.group(1),
            names(found.group(2) or "", r"\s+as\s"),
            ((own.group(1), MODULE),) if own else (),
        )


def resolve(imp: Import, path: str, layout: Layout) -> Resolved:
    """Resolve `Plug.Conn.Query` to `…/plug/conn/query.ex`, or to the file of `Plug.Conn`."""
    targets: dict[str, None] = {}
    keys: list[str] = []
    prefix = imp.module.rstrip(".")
    for module in [f"{prefix}.{name}" for name in imp.names] or [prefix]:
        if not module[:1].isupper():
            continue
        parts = [_snake(part) for part in module.split(".")]
        found = _file(parts, path, layout)
        keys += [] if found else [f"b:{parts[-1]}.ex"]
        if found is None and len(parts) > 2:  # a module inside the file of another
            found = _file(parts[:-1], path, layout)
        targets |= dict.fromkeys([found] if found else ())
    return Resolved(tuple(targets), tuple(keys))


def _file(parts: Sequence[str], path: str, layout: Layout) -> str | None:
    tail = "/".join(parts)
    files = [
        file
        for end in (".ex", ".exs")
        for file in layout.ending(tail + end)
        if file.removesuffix(tail + end).endswith(_ROOTS)
    ]
    return nearest_to(path, files)


def _snake(name: str) -> str:
    return re.sub(r"(?<=[A-Z])(?=[A-Z][a-z])|(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
