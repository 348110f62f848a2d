"""Resolve JavaScript and TypeScript modules by Node's rules, tsconfig aliases, and workspaces.

Built files are not in git, so an entry in `dist` is resolved to its probable source.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping

from codelode.model import Import
from codelode.references import DEFAULT, MODULE
from workers.parse.ecosystems.layout import Layout, above, per_layout
from workers.parse.ecosystems.manifests import Facts
from workers.parse.ecosystems.resolution import Resolved, at, beside
from workers.parse.ecosystems.statement import QUOTED, Statement, Statements, without_c_comments
from workers.parse.ecosystems.statement import names as listed
from workers.parse.ecosystems.statement import renamed as renamed_in

_EXTENSIONS = (
    *(".ts", ".tsx", ".d.ts", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs"),
    *(".vue", ".svelte", ".json"),
)
#: The extension as written → the extensions that it may mean.
_WRITTEN = {
    ".js": (".ts", ".tsx", ".d.ts", ".js", ".jsx"),
    ".jsx": (".tsx", ".jsx"),
    ".mjs": (".mts", ".mjs"),
    ".cjs": (".cts", ".cjs"),
}
_ALIASES = ("@/", "~/")
_BUILT = re.compile(
    r"^(?:\./)?(?:dist|lib|build|out|es|esm|cjs|umd|types)(?:/(?:esm|cjs|types|src))?/"
)
#: Maximum length of a chain of configurations that extend one another.
MAX_EXTENDS = 8


# Statements


def statements(text: str) -> Statements:
    """Read `import`, `export … from`, `require(…)` and `import(…)`, with the names they bind."""
    text = without_c_comments(text)
    quoted = QUOTED.findall(text)
    if not quoted:
        return
    clause = _CLAUSE.match(text)
    if clause is None:
        yield Statement(quoted[-1], (), _bound(text))
    elif text.startswith("export"):
        yield Statement(quoted[-1], _names(clause.group(1)))
    else:
        names = clause.group(1)
        yield Statement(quoted[-1], _names(names), _renamed(names))


#: The names of a statement, up to the word before the quoted module.
_CLAUSE = re.compile(r"(?:import|export)\s++(?:type\s++)?([^\"']*?)\bfrom\s*+(?=[\"'])")


def _names(clause: str) -> tuple[str, ...]:
    """Return the imported names: `X, {a as b}` → `("default", "a")`; `* as ns` → `("*",)`."""
    start, end = clause.find("{"), clause.rfind("}")
    has_braces = 0 <= start < end
    outside = clause[:start] if has_braces else clause
    names = ["*" if name == "*" else "default" for name in listed(outside, r"\s+as\s")]
    inside = listed(clause[start + 1 : end], r"\s+as\s") if has_braces else ()
    return (*names, *(name.removeprefix("type ") for name in inside))


def _renamed(clause: str) -> tuple[tuple[str, str], ...]:
    """Return new names: `X, {a as b}` → `(("X", "default"), ("b", "a"))`."""
    outside, _, inside = clause.partition("{")
    whole = re.findall(r"(\*\s*as\s+)?([\w$]+)", outside)
    return (
        *((own, MODULE if star else DEFAULT) for star, own in whole),
        *renamed_in(inside),
    )


_BOUND = re.compile(
    r"(?:const|let|var|import)\s++(?:([\w$]++)|\{([^{}]*+)\})[^=]*+=.*?\)(?:\.([\w$]++))?\s*+;?$",
    re.DOTALL,
)


_PAIR = re.compile(r"(?<![\w$])([\w$]++)\s*+:\s*+([\w$]++)")


def _bound(text: str) -> tuple[tuple[str, str], ...]:
    """Return new names: `const x = require("c")` → `(("x", "default"),)`.

    `const {a: b} = require("c")` → `(("b", "a"),)`.
    """
    found = _BOUND.match(text)
    if not found:
        return ()
    own, inside, member = found.groups()
    if own:
        return ((own, member or DEFAULT),) if own != member else ()
    if member:
        return ()
    pairs = _PAIR.findall(inside)
    return tuple((own, name) for name, own in pairs)


# Default exports, by regular expression: in the query they would cost 2 % of a file's parsing time.

_EXPORTS = (b"export default ", b"module.exports =")
_NAMED = re.compile(
    rb"\s*+(?:(?:async\s++)?function\b\s*+(?:\*\s*+)?([\w$]++)"
    rb"|(?:abstract\s++)?class\s++(?!extends\b)([\w$]++)"
    rb"|([\w$]++)[^\S\n]*+(?:[;\n]|\Z))"
)


def default_export(data: bytes) -> str:
    """Return the name of the module's default export; empty if it has none or no name."""
    for export in _EXPORTS:
        at = data.find(export)
        if at < 0 or (at and data[at - 1 : at] != b"\n"):
            continue
        found = _NAMED.match(data, at + len(export))
        if found:
            return next(group for group in found.groups() if group).decode("utf-8", "replace")
    return ""


# Resolution


def resolve(imp: Import, path: str, layout: Layout) -> Resolved:
    """Resolve a relative path, an alias, or a package of the repository."""
    module = imp.module.split("?", 1)[0]
    if module.startswith("."):
        base = beside(path, module)
        found = base is not None and _file(base, layout)
        return Resolved((found,)) if found else Resolved(keys=_waiting(base))
    if module.startswith("/") or not module:
        return Resolved()
    missing: list[str] = []
    for base in _bases(module, path, layout):
        if found := _file(base, layout):
            return Resolved((found,), at(*missing))
        missing += _stems(base)
    return Resolved(keys=at(*dict.fromkeys(missing)))


def _bases(module: str, path: str, layout: Layout) -> Iterator[str]:
    """Yield the possible places of a module without a leading dot."""
    yield from _aliased(module, path, layout)
    yield from _of_packages(module, path, layout)
    if module.startswith(_ALIASES):
        yield from (posixpath.join(root, module[2:]) for root in _source_roots(path))


def _waiting(base: str | None) -> tuple[str, ...]:
    return at(*_stems(base)) if base is not None else ()


def _stems(base: str) -> list[str]:
    stem, extension = posixpath.splitext(base)
    return [stem] if extension in _WRITTEN else [base]


def _file(base: str, layout: Layout) -> str | None:
    """Return the file of a module: as written, with an extension, or the folder's index."""
    stem, extension = posixpath.splitext(base)
    written = [stem + meant for meant in _WRITTEN.get(extension, ())]
    for path in (*written, base, *(base + suffix for suffix in _EXTENSIONS)):
        if path in layout:
            return path
    if base and base not in layout.folders:
        return None
    package = layout.facts.get(posixpath.join(base, "package.json"))
    if package is not None and base and (found := _entry(base, package, ".", layout)):
        return found
    indexes = (posixpath.join(base, f"index{suffix}") for suffix in _EXTENSIONS)
    return next((path for path in indexes if path in layout), None)


# Aliases of tsconfig.json


def _aliased(module: str, path: str, layout: Layout) -> Iterator[str]:
    """Yield the places that `paths` and `baseUrl` of the nearest configuration give a module."""
    config = _config_of(layout, posixpath.dirname(path))
    if config is None:
        return
    paths, base = config
    for pattern, targets in paths:
        star = _matched(pattern, module)
        if star is not None:
            yield from (_normal(target.replace("*", star, 1)) for target in targets)
    if base is not None:
        yield _normal(posixpath.join(base, module))


_Config = tuple[tuple[tuple[str, tuple[str, ...]], ...], str | None]  # patterns, base folder


@per_layout
def _config_of(layout: Layout, folder: str) -> _Config | None:
    """Return the aliases that apply in a folder, most specific first, and the base folder.

    Targets are paths from the repository's root.
    """
    found = (_config_in(layout, around) for around in above(folder))
    return next((config for config in found if config is not None), None)


@per_layout
def _config_in(layout: Layout, folder: str) -> _Config | None:
    for name in ("tsconfig.json", "jsconfig.json"):
        file = posixpath.join(folder, name)
        if file in layout.facts:
            pairs, base = _extended(layout, file, 0)
            if pairs or base is not None:
                return tuple(sorted(pairs.items(), key=_specificity)), base
    return None


@per_layout
def _extended(
    layout: Layout, file: str, depth: int
) -> tuple[dict[str, tuple[str, ...]], str | None]:
    """Return the aliases and base folder of a configuration, or else those that it extends."""
    facts = layout.facts.get(file)
    if facts is None or depth > MAX_EXTENDS:
        return {}, None
    folder = posixpath.dirname(file)
    pairs: dict[str, tuple[str, ...]] = {}
    base: str | None = None
    for other in facts.extends:
        more, below = _extended(layout, _extends(folder, other, layout), depth + 1)
        pairs, base = {**pairs, **more}, below if below is not None else base
    own: dict[str, list[str]] = {}
    for key, to in facts.pairs:
        if key == "baseUrl":
            base = _normal(posixpath.join(folder, to))
    for key, to in facts.pairs:
        if key.startswith("paths "):
            pattern = key.split(" ", 1)[1].rpartition(" ")[0]
            own.setdefault(pattern, []).append(
                _normal(posixpath.join(base if base is not None else folder, to))
            )
    paths = {pattern: tuple(targets) for pattern, targets in own.items()}
    return paths or pairs, base


def _extends(folder: str, other: str, layout: Layout) -> str:
    """Return the path of an extended configuration; empty when it is not in the repository."""
    if other.startswith("."):
        base = _normal(posixpath.join(folder, other))
    else:
        name = package_name(other)
        place = next((at for at, f in layout.of_kind("npm") if f.name == name), None)
        inner = other[len(name) + 1 :]
        base = posixpath.join(place, inner or "tsconfig.json") if place is not None else ""
    choices = (base, f"{base}.json", posixpath.join(base, "tsconfig.json"))
    return next((path for path in choices if path in layout.facts), "")


def _specificity(item: tuple[str, tuple[str, ...]]) -> tuple[bool, int, str]:
    """Order patterns as the compiler does: exact ones first, then by the longest prefix."""
    pattern = item[0]
    return "*" in pattern, -len(pattern.partition("*")[0]), pattern


def _matched(pattern: str, module: str) -> str | None:
    """Return what the `*` of the pattern stands for; None if it does not match."""
    head, star, tail = pattern.partition("*")
    if not star:
        return "" if module == pattern else None
    is_match = (
        module.startswith(head) and module.endswith(tail) and len(module) >= len(head) + len(tail)
    )
    return module[len(head) : len(module) - len(tail)] if is_match else None


# Packages


def packages(imp: Import) -> Iterator[str]:
    """Yield the npm package of a module that is neither a path nor built into Node."""
    if imp.module[:1] not in ".#/~" and not imp.module.startswith(("node:", "@/")):
        yield f"npm:{package_name(imp.module)}"


def package_name(module: str) -> str:
    """Return the package of a module: `@acme/ui/button` → `@acme/ui`, `lodash/fp` → `lodash`."""
    parts = module.split("/")
    return "/".join(parts[:2] if module.startswith("@") else parts[:1])


def _of_packages(module: str, path: str, layout: Layout) -> Iterator[str]:
    """Yield entries of the repository's own packages, and of `#internal` subpaths."""
    if module.startswith("#"):
        near = layout.nearest("npm", path)
        if near:
            yield from _entries(*near, module, layout)
        return
    name = package_name(module)
    if name not in _packages(layout):
        return
    place, facts = _packages(layout)[name]
    subpath = f".{module[len(name) :]}"
    yield from _entries(place, facts, subpath, layout)


@per_layout
def _packages(layout: Layout) -> Mapping[str, tuple[str, Facts]]:
    found = reversed(layout.of_kind("npm"))
    return {facts.name: (place, facts) for place, facts in found if facts.name}


def _entry(place: str, facts: Facts, subpath: str, layout: Layout) -> str | None:
    for base in _entries(place, facts, subpath, layout):
        if base != place and (found := _file(base, layout)):
            return found
    return None


def _entries(place: str, facts: Facts, subpath: str, layout: Layout) -> Iterator[str]:
    """Yield the places that a subpath of a package may mean.

    Those that the package declares come first, with the sources of built files; then usual ones.
    """
    for target in _declared(facts, subpath):
        yield _normal(posixpath.join(place, target))
        source = _BUILT.sub("src/", target)
        if source != target:
            source = re.sub(r"(?:\.d)?\.[cm]?[jt]s$", "", source)
            yield _normal(posixpath.join(place, source))
            yield _normal(posixpath.join(place, source.removeprefix("src/")))
    inner = subpath.removeprefix(".").removeprefix("/")
    if subpath.startswith("#"):
        return
    for root in ("src", "source", "lib", ""):
        yield _normal(posixpath.join(place, root, inner or "index"))


def _declared(facts: Facts, subpath: str) -> Iterator[str]:
    entries = dict(facts.pairs)
    if subpath in entries:
        yield entries[subpath]
    for pattern, target in entries.items():
        if "*" in pattern and (star := _matched(pattern, subpath)) is not None:
            yield target.replace("*", star)
    if subpath == ".":
        yield from (entries[field] for field in _MAINS if field in entries)


_MAINS = ("<source>", "<module>", "<main>", "<types>")


def _normal(path: str) -> str:
    normal = posixpath.normpath(path)
    return "" if normal == "." else normal


def _source_roots(path: str) -> list[str]:
    """Return the source roots of a file: `packages/a/src/x.ts` → `packages/a/src`, `src` …"""
    head, found, _ = path.rpartition("/src/")
    return list(dict.fromkeys([*([f"{head}/src"] if found else []), "src", "app", ""]))
