"""Resolve Rust paths through `crate`, `self`, `super` and the crates of the workspace."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence

from codelode.model import Import
from workers.parse.ecosystems.layout import Layout
from workers.parse.ecosystems.resolution import EXTERNAL, Resolved, at
from workers.parse.ecosystems.statement import Statement, Statements, renamed, without_c_comments

_PLATFORM = frozenset({"std", "core", "alloc", "proc_macro", "test"})
_ROOTS = frozenset({"mod", "lib", "main", "build"})


def statements(text: str) -> Statements:
    """Read `use a::{b, c as d}`, `extern crate a`, `mod a`."""
    text = " ".join(without_c_comments(text).split()).rstrip("; ")
    module = re.search(r"\bmod (\w+)$", text)
    if module:
        yield Statement(f"self::{module.group(1)}")
        return
    used = re.sub(r"^.*?\b(?:use|extern crate)\s+", "", text, count=1)
    for path in _paths(used):
        module_path = re.sub(r" as \w+$", "", path).removesuffix("::self").removeprefix("::")
        last = module_path.rpartition("::")[2]
        new = renamed(f"{last}{path[path.rfind(' as ') :]}") if " as " in path else ()
        yield Statement(module_path, (), new)


def _paths(tree: str) -> Iterator[str]:
    """Yield the paths of a use tree: `a::{b, c::{d, self}}` → `a::b`, `a::c::d`, `a::c::self`."""
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


def resolve(imp: Import, path: str, layout: Layout) -> Resolved:
    """Resolve a path to the file of the longest module in it."""
    first, *parts = imp.module.removeprefix("r#").split("::")
    parts = [part for part in parts if part not in ("*", "self")]
    folder, name = posixpath.split(path)
    bare = posixpath.splitext(name)[0]
    inner = folder if bare in _ROOTS or _is_target(path) else posixpath.join(folder, bare)
    if first == "crate":
        return _module(_crate_root(path, layout), parts, layout, owner=True)
    if first == "self":
        found = _module(inner, parts, layout)
        return found if found.targets else Resolved((path,), found.keys)
    if first == "super":
        base = posixpath.dirname(inner)
        while parts and parts[0] == "super":
            base, parts = posixpath.dirname(base), parts[1:]
        return _module(base, parts, layout, owner=True)
    if first in _PLATFORM:
        return EXTERNAL
    crate = _crate(first, path, layout)
    if crate is not None:
        return _module(crate, parts, layout, owner=True)
    local = _module(inner, [first, *parts], layout)  # a module declared in the same file
    return local if local.targets else Resolved(keys=(f"^{first}", *local.keys[:1]))


def packages(imp: Import) -> Iterator[str]:
    """Yield the crate that a path begins with."""
    first = imp.module.partition("::")[0]
    if first not in ("std", "core", "alloc", "crate", "self", "super"):
        yield f"crate:{first}"


def _is_target(path: str) -> bool:
    """Return whether the file is a separate crate: `tests/a.rs`, `src/bin/c.rs`."""
    return posixpath.basename(posixpath.dirname(path)) in ("tests", "examples", "benches", "bin")


def _crate_root(path: str, layout: Layout) -> str:
    near = layout.nearest("cargo", path)
    head, found, _ = f"/{path}".rpartition("/src/")
    if near and f"/{path}".startswith(f"/{posixpath.join(near[0], 'src')}/".replace("//", "/")):
        return posixpath.join(near[0], "src")
    return f"{head}/src".lstrip("/") if found else posixpath.dirname(path)


def _crate(name: str, path: str, layout: Layout) -> str | None:
    """Return the source folder of a crate of the repository."""
    near = layout.nearest("cargo", path)
    if near:
        name = dict(near[1].pairs).get(name, name)
    for folder, facts in layout.of_kind("cargo"):
        if facts.name == name:
            root = dict(facts.pairs).get("<lib>", "src/lib.rs")
            return posixpath.normpath(posixpath.join(folder, posixpath.dirname(root)))
    return None


def _module(base: str, parts: Sequence[str], layout: Layout, *, owner: bool = False) -> Resolved:
    """Return the file of the longest path that is a module. The rest of the path names an item.

    With `owner`, an item may be in the module of `base` itself.
    """
    base = "" if base == "." else base
    for length in range(len(parts), 0, -1):
        module = posixpath.join(base, *parts[:length])
        found = next((p for p in (f"{module}.rs", f"{module}/mod.rs") if p in layout), None)
        if found:
            longer = (posixpath.join(base, *parts[:n]) for n in range(length + 1, len(parts) + 1))
            return Resolved((found,), at(*longer) if length < len(parts) else ())
    keys = at(*(posixpath.join(base, *parts[:n]) for n in range(1, len(parts) + 1)))
    if not owner:
        return Resolved((), keys)
    files = ("lib.rs", "main.rs", "mod.rs")
    roots = [posixpath.join(base, file) for file in files] + ([f"{base}.rs"] if base else [])
    found = next((p for p in roots if p in layout), None)
    likelier = roots[: roots.index(found)] if found else roots
    return Resolved((found,) if found else (), (*keys, *at(*likelier)))
