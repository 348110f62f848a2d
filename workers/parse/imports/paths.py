"""Where an import could point inside the repository: pure guesses by each ecosystem's layout.

What a path alone cannot say stays external: packages of Go and C# (one package is many files),
TypeScript path aliases but the two common ones, workspace members of Cargo and npm.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator

from codelode.model import Import

#: More guesses than this cost more to look up than they find.
MAX_CANDIDATES = 24

_JS_EXTENSIONS = (".ts", ".tsx", ".js", ".jsx", ".mjs", ".cjs", ".d.ts", ".vue", ".svelte", ".json")
_JS_WRITTEN = {".js": (".ts", ".tsx", ".js"), ".jsx": (".tsx", ".jsx"), ".mjs": (".mts", ".mjs")}
_JS_ALIASES = ("@/", "~/")
_JVM = {"java": (".java", ".kt"), "kotlin": (".kt", ".java"), "scala": (".scala", ".java")}
_RUST_ROOTS = frozenset({"mod", "lib", "main"})


def candidates(imp: Import, *, path: str, language: str, go_module: str = "") -> tuple[str, ...]:
    """Repository paths the import of the file at `path` could mean, most likely first.

    Empty for what is external for sure. `go_module` is the module path of the repository's go.mod;
    without it every Go import is external.
    """
    if not imp.module:
        return ()
    folder = posixpath.dirname(path)
    guess = _GUESSES.get(language)
    found: Iterable[str] = guess(imp, path, folder) if guess else ()
    if language == "go":
        found = _go(imp, go_module)
    inside = dict.fromkeys(normal for normal in map(_normal, found) if normal and normal != path)
    return tuple(inside)[:MAX_CANDIDATES]


def _normal(path: str) -> str:
    """The path without `..`; empty when it leaves the repository."""
    if "/." not in path and "//" not in path and path[:1] not in "./" and path[-1:] != "/":
        return path  # nearly all
    normal = posixpath.normpath(path).removeprefix("./")
    return "" if normal.startswith(("..", "/")) or normal == "." else normal


def _python(imp: Import, path: str, folder: str) -> Iterator[str]:
    module = imp.module.lstrip(".")
    level = len(imp.module) - len(module)
    parts = module.split(".") if module else []
    names = [name for name in imp.names if name != "*"]
    for root in [_up(folder, level - 1)] if level else _python_roots(folder, parts[0]):
        base = posixpath.join(root, *parts)
        if parts:
            yield f"{base}.py"
        yield f"{base}/__init__.py"
        yield from (f"{base}/{name}.py" for name in names[:3])
        yield from (f"{base}/{name}/__init__.py" for name in names[:1])


def _python_roots(folder: str, first: str) -> list[str]:
    """Where packages lie: above the folder of that name around the file, then by custom."""
    parts = folder.split("/")
    above = [posixpath.join("", *parts[: parts.index(first)])] if first in parts else []
    return list(dict.fromkeys([*above, "", "src", folder, "lib", "python"]))


def _up(folder: str, levels: int) -> str:
    return posixpath.join(folder, *[".."] * levels)


def _javascript(imp: Import, path: str, folder: str) -> Iterator[str]:
    module = imp.module.split("?", 1)[0]
    if module.startswith("."):
        bases = [posixpath.join(folder, module)]
    elif module.startswith(_JS_ALIASES):
        bases = [posixpath.join(root, module[2:]) for root in _source_roots(path)]
    else:
        return
    for base in bases:
        stem, extension = posixpath.splitext(base)
        if extension in _JS_EXTENSIONS:
            yield from (stem + written for written in _JS_WRITTEN.get(extension, (extension,)))
        else:
            yield base if extension else f"{base}.ts"
            yield from (base + suffix for suffix in _JS_EXTENSIONS)
            yield from (f"{base}/index{suffix}" for suffix in _JS_EXTENSIONS[:4])


def _source_roots(path: str) -> list[str]:
    """`packages/a/src/x/y.ts` → `packages/a/src`, `src`, ``."""
    head, found, _ = path.rpartition("/src/")
    return list(dict.fromkeys([*([f"{head}/src"] if found else []), "src", "app", ""]))


def _jvm(extensions: Iterable[str]) -> Callable[[Import, str, str], Iterator[str]]:
    def guess(imp: Import, path: str, folder: str) -> Iterator[str]:
        parts = imp.module.replace("`", "").split(".")
        if parts[-1] in ("*", "_"):
            return
        modules = [[*parts, name] for name in imp.names[:3]] or [parts]
        for root in _jvm_roots(folder, parts[0]):
            for module in modules:
                for names in (module, module[:-1]):  # a member: `import static a.B.c`
                    if len(names) > 1:
                        yield from (posixpath.join(root, *names) + ext for ext in extensions)

    return guess


def _jvm_roots(folder: str, first: str) -> list[str]:
    """The source root of the file itself, its main root when it is a test, then Maven's."""
    parts = folder.split("/")
    own = [posixpath.join("", *parts[: parts.index(first)])] if first in parts else []
    main = [root.replace("/test/", "/main/") for root in own if "/test/" in f"/{root}/"]
    return list(dict.fromkeys([*main, *own, "src/main/java", "src"]))


def _rust(imp: Import, path: str, folder: str) -> Iterator[str]:
    first, *parts = imp.module.split("::")
    stem = posixpath.splitext(posixpath.basename(path))[0]
    inner = folder if stem in _RUST_ROOTS else posixpath.join(folder, stem)
    if first == "crate":
        head, found, _ = f"/{path}".rpartition("/src/")
        base = f"{head}/src".lstrip("/") if found else folder
    elif first == "self":
        base = inner
    elif first == "super":
        base = posixpath.dirname(inner)
        while parts and parts[0] == "super":
            base, parts = posixpath.dirname(base), parts[1:]
    else:
        return
    parts = [part for part in parts if part != "*"]
    for length in range(len(parts), max(len(parts) - 3, 0), -1):  # the rest names an item
        module = posixpath.join(base, *parts[:length])
        yield f"{module}.rs"
        yield f"{module}/mod.rs"


def _c(imp: Import, path: str, folder: str) -> Iterator[str]:
    name = imp.module.strip('<>"')
    if imp.module.startswith('"'):
        yield posixpath.join(folder, name)
    yield from (posixpath.join(root, name) for root in ("include", "src", "", "lib"))
    parts = folder.split("/")
    for length in range(len(parts), 0, -1):
        above = "/".join(parts[:length])
        yield posixpath.join(above, "include", name)
        yield posixpath.join(above, name)


def _go(imp: Import, go_module: str) -> Iterator[str]:
    """A package is a folder; its file of the same name and doc.go stand for it."""
    if not go_module or not f"{imp.module}/".startswith(f"{go_module}/"):
        return
    package = imp.module.removeprefix(go_module).strip("/")
    name = posixpath.basename(package) or posixpath.basename(go_module)
    yield posixpath.join(package, f"{name}.go")
    yield posixpath.join(package, "doc.go")


def _relative(
    extensions: tuple[str, ...], *roots: str
) -> Callable[[Import, str, str], Iterator[str]]:
    """Guesses for modules that are paths: beside the file, then below the usual roots."""

    def guess(imp: Import, path: str, folder: str) -> Iterator[str]:
        for root in (folder, *(() if imp.module.startswith(".") else roots)):
            yield from (posixpath.join(root, imp.module) + ext for ext in extensions)

    return guess


def _dotted(extension: str, *roots: str) -> Callable[[Import, str, str], Iterator[str]]:
    """Guesses for modules with dots or backslashes for folders."""

    def guess(imp: Import, path: str, folder: str) -> Iterator[str]:
        parts = imp.module.replace("\\", ".").split(".")
        for names in [[*parts, name] for name in imp.names[:3]] or [parts]:
            for root in roots:
                yield posixpath.join(root, *names) + extension
            if len(names) > 1:  # PSR-4 maps the first part to a folder
                yield from (posixpath.join(root, *names[1:]) + extension for root in roots)

    return guess


def _php(imp: Import, path: str, folder: str) -> Iterable[str]:
    if imp.module.endswith((".php", ".inc")):
        return _relative(("",), "")(imp, path, folder)
    return _dotted(".php", "src", "lib", "app", "")(imp, path, folder)


_GUESSES: dict[str, Callable[[Import, str, str], Iterable[str]]] = {
    "python": _python,
    "javascript": _javascript,
    "typescript": _javascript,
    "tsx": _javascript,
    "java": _jvm(_JVM["java"]),
    "kotlin": _jvm(_JVM["kotlin"]),
    "scala": _jvm(_JVM["scala"]),
    "rust": _rust,
    "c": _c,
    "cpp": _c,
    "php": _php,
    "ruby": _relative((".rb", ""), "lib", "", "app/models"),
    "lua": _dotted(".lua", "", "lua", "src", "lib"),
    "haskell": _dotted(".hs", "src", "lib", "", "app"),
    "zig": _relative(("",)),
    "bash": _relative(("",), ""),
}
