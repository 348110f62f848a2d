"""JavaScript and TypeScript: Node's resolution, tsconfig's aliases, the packages of a workspace.

Built files are not in git: an entry in `dist` is looked for where its source must be.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import cast

from codelode.model import Import
from workers.parse.imports.layout import Layout
from workers.parse.imports.manifests import Facts
from workers.parse.imports.resolved import Resolved, at

_EXTENSIONS = (
    *(".ts", ".tsx", ".d.ts", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs"),
    *(".vue", ".svelte", ".json"),
)
#: The extension that is written → those that are meant.
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
MAX_EXTENDS = 8


def resolve(imp: Import, path: str, layout: Layout) -> Resolved:
    module = imp.module.split("?", 1)[0]
    folder = posixpath.dirname(path)
    if module.startswith("."):
        base = _join(folder, module)
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
    """Places that a module without a leading dot may be at."""
    yield from _aliased(module, path, layout)
    yield from _of_packages(module, path, layout)
    if module.startswith(_ALIASES):
        yield from (posixpath.join(root, module[2:]) for root in _source_roots(path))


def _join(folder: str, module: str) -> str | None:
    """The place, None outside the repository."""
    base = posixpath.normpath(posixpath.join(folder, module))
    return None if base.startswith(("..", "/")) else "" if base == "." else base


def _waiting(base: str | None) -> tuple[str, ...]:
    return at(*_stems(base)) if base is not None else ()


def _stems(base: str) -> list[str]:
    stem, extension = posixpath.splitext(base)
    return [stem] if extension in _WRITTEN else [base]


def _file(base: str, layout: Layout) -> str | None:
    """The module at a place: as written, with an extension, or the index of the folder."""
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


# tsconfig


def _aliased(module: str, path: str, layout: Layout) -> Iterator[str]:
    """What `paths` and `baseUrl` of the nearest configuration make of a module."""
    config = _config_of(posixpath.dirname(path), layout)
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


def _config_of(folder: str, layout: Layout) -> _Config | None:
    """Aliases by specificity, with targets from the repository's root on."""
    key = ("tsconfig", folder)
    if key not in layout.memo:
        layout.memo[key] = _read_config(folder, layout)
    return cast("_Config | None", layout.memo[key])


def _read_config(folder: str, layout: Layout) -> _Config | None:
    for name in ("tsconfig.json", "jsconfig.json"):
        file = posixpath.join(folder, name)
        if file in layout.facts:
            pairs, base = _extended(file, layout, depth=0)
            if pairs or base is not None:
                return tuple(sorted(pairs.items(), key=_specificity)), base
    return _config_of(posixpath.dirname(folder), layout) if folder else None


def _extended(
    file: str, layout: Layout, *, depth: int
) -> tuple[dict[str, tuple[str, ...]], str | None]:
    """Aliases and base folder of a configuration over those that it extends."""
    facts = layout.facts.get(file)
    if facts is None or depth > MAX_EXTENDS:
        return {}, None
    folder = posixpath.dirname(file)
    pairs: dict[str, tuple[str, ...]] = {}
    base: str | None = None
    for other in facts.extends:
        more, below = _extended(_extends(folder, other, layout), layout, depth=depth + 1)
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
    """The path of a configuration that is extended, empty when it is not in the repository."""
    if other.startswith("."):
        base = _normal(posixpath.join(folder, other))
    else:
        name, inner = package_name(other), other.partition("/")[2]
        place = next((at for at, f in layout.of_kind("npm") if f.name == name), None)
        inner = other[len(name) + 1 :]
        base = posixpath.join(place, inner or "tsconfig.json") if place is not None else ""
    choices = (base, f"{base}.json", posixpath.join(base, "tsconfig.json"))
    return next((path for path in choices if path in layout.facts), "")


def _specificity(item: tuple[str, tuple[str, ...]]) -> tuple[bool, int, str]:
    """Exact patterns first, then the longest prefix, as the compiler does."""
    pattern = item[0]
    return "*" in pattern, -len(pattern.partition("*")[0]), pattern


def _matched(pattern: str, module: str) -> str | None:
    """What the `*` of the pattern stands for; None: no match."""
    head, star, tail = pattern.partition("*")
    if not star:
        return "" if module == pattern else None
    is_match = (
        module.startswith(head) and module.endswith(tail) and len(module) >= len(head) + len(tail)
    )
    return module[len(head) : len(module) - len(tail)] if is_match else None


# packages


def package_name(module: str) -> str:
    """`@acme/ui/button` → `@acme/ui`, `lodash/fp` → `lodash`."""
    parts = module.split("/")
    return "/".join(parts[:2] if module.startswith("@") else parts[:1])


def _of_packages(module: str, path: str, layout: Layout) -> Iterator[str]:
    """Entries of the repository's own packages: of the workspace, itself, `#internal`."""
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


def _packages(layout: Layout) -> Mapping[str, tuple[str, Facts]]:
    key = ("npm packages", "")
    if key not in layout.memo:
        found = reversed(layout.of_kind("npm"))
        layout.memo[key] = {facts.name: (place, facts) for place, facts in found if facts.name}
    return cast("Mapping[str, tuple[str, Facts]]", layout.memo[key])


def _entry(place: str, facts: Facts, subpath: str, layout: Layout) -> str | None:
    for base in _entries(place, facts, subpath, layout):
        if base != place and (found := _file(base, layout)):
            return found
    return None


def _entries(place: str, facts: Facts, subpath: str, layout: Layout) -> Iterator[str]:
    """Files a package may mean by a subpath: declared, where its source must be, by custom."""
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
    """`packages/a/src/x/y.ts` → `packages/a/src`, `src`, `app`, ``."""
    head, found, _ = path.rpartition("/src/")
    return list(dict.fromkeys([*([f"{head}/src"] if found else []), "src", "app", ""]))
