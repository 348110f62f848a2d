"""Resolve classes of PHP by the autoload rules of composer.json, and included files by path."""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from codelode import deadline
from codelode.model import Import
from workers.parse.ecosystems.layout import Layout, likely, nearest_to, per_layout
from workers.parse.ecosystems.resolution import Resolved, at, first, inside
from workers.parse.ecosystems.statement import QUOTED, Statement, Statements, grouped


def statements(text: str) -> Statements:
    """Read `use A\\B`, `use A\\{B, C as D}`, `require "a.php"`."""
    if text.startswith("use"):
        yield from grouped(text)
        return
    for module in QUOTED.findall(text):
        yield Statement(module.removeprefix("/"))


def resolve(imp: Import, path: str, layout: Layout) -> Resolved:
    """Resolve classes by autoload rules; without a rule that fits, by the end of their name."""
    if imp.module.endswith((".php", ".inc", ".phtml")):
        return _file(imp.module, path, layout)
    targets: dict[str, None] = {}
    keys: list[str] = []
    prefix = imp.module.strip("\\")
    for name in [f"{prefix}\\{one}" for one in imp.names] or [prefix]:
        places = list(_psr(name, layout))
        found = first(layout, places)
        if found is None and name.count("\\") > 1:
            tail = "/".join(name.split("\\")[-2:]) + ".php"
            found = nearest_to(path, likely(path, layout.ending(tail))) if not places else None
        targets |= dict.fromkeys([found] if found else ())
        if found is None:
            last = name.rpartition("\\")[2]
            keys += at(*(place.removesuffix(".php") for place in places)) or [f"b:{last}.php"]
    return Resolved(tuple(targets), tuple(dict.fromkeys(keys)))


def packages(imp: Import) -> Iterator[str]:
    """Yield the namespace prefixes that a package may publish."""
    parts = imp.module.strip("\\").split("\\")
    if not imp.module.endswith(".php"):
        yield from (f"php:{chr(92).join(parts[:n])}" for n in range(1, min(len(parts), 4) + 1))


def _psr(name: str, layout: Layout) -> Iterator[str]:
    """Yield the places of a class by the autoload rules, the longest prefix first."""
    rules = _psr_rules(layout)
    parts = name.split("\\")
    for length in range(len(parts) - 1, -1, -1):
        prefix = "".join(f"{part}\\" for part in parts[:length])
        for folder in rules.get(prefix, ()):
            deadline.check()
            place = posixpath.join(folder, *parts[length:])
            yield inside(f"{place}.php")
            if not parts[-1][:1].isupper():  # a function, by convention in this file
                yield inside(posixpath.join(posixpath.dirname(place), "functions.php"))


@per_layout
def _psr_rules(layout: Layout) -> Mapping[str, Sequence[str]]:
    """Return the folders of each namespace prefix."""
    rules: defaultdict[str, list[str]] = defaultdict(list)
    for folder, facts in layout.of_kind("composer"):
        for pair, to in facts.pairs:
            prefix = pair.rpartition(" ")[0]
            rules[prefix].append(posixpath.join(folder, to))
    return dict(rules)


def _file(written: str, path: str, layout: Layout) -> Resolved:
    name = written.lstrip("/")
    place = inside(posixpath.join(posixpath.dirname(path), name))
    found = first(layout, (place, name))
    return Resolved((found,)) if found else Resolved(keys=(f"b:{posixpath.basename(name)}",))
