"""Go, Java, Kotlin, Scala, Rust, C, C++ and C#: what their compilers would take.

A Go package, a C# namespace and a wildcard of the JVM mean all files of a folder, because that is
what is compiled: an edge to a single stand-in would be wrong for the others, and a folder has no
edges to follow. Tests among them are left out, and a folder of more than MAX_PACKAGE_FILES is
stood for by its first ones.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence

from codelode.model import Import
from codelode.relations import stem
from workers.parse.imports.layout import (
    MAX_PACKAGE_FILES,
    Layout,
    likely,
    nearest_to,
    parts_in_common,
)
from workers.parse.imports.resolved import EXTERNAL, Resolved, at

# Go


def go(imp: Import, path: str, layout: Layout) -> Resolved:
    folder = _go_folder(imp.module, path, layout)
    if folder is None:
        return EXTERNAL
    files = [file for file in layout.files(folder, ".go") if not file.endswith("_test.go")]
    return Resolved(_but(path, files), (f"d:{folder}",))


def _go_folder(module: str, path: str, layout: Layout) -> str | None:
    """The folder of a package of the repository, by the longest module path or a replacement."""
    near = layout.nearest("go", path)
    if near:
        for name, place in near[1].pairs:
            if _is_below(module, name):
                base = posixpath.normpath(posixpath.join(near[0], place))
                if not base.startswith(".."):
                    return _inside(base, module[len(name) :])
    owners = [(folder, facts.name) for folder, facts in layout.of_kind("go")]
    owners = [(folder, name) for folder, name in owners if _is_below(module, name)]
    if not owners:
        return None
    folder, name = max(owners, key=lambda owner: len(owner[1]))
    return _inside(folder, module[len(name) :])


def _is_below(module: str, name: str) -> bool:
    return module == name or module.startswith(f"{name}/")


def _inside(folder: str, rest: str) -> str:
    path = posixpath.normpath(posixpath.join(folder, rest.strip("/")))
    return "" if path == "." else path


def _but(path: str, files: Sequence[str]) -> tuple[str, ...]:
    return tuple(file for file in files if file != path)[:MAX_PACKAGE_FILES]


# Java, Kotlin, Scala

JVM_FILES = (".java", ".kt", ".scala", ".groovy", ".kts")
_JVM_PLATFORM = ("java.", "javax.", "kotlin.", "scala.", "jdk.", "sun.")


def jvm(imp: Import, path: str, layout: Layout) -> Resolved:
    written = imp.module.replace("`", "").rstrip(".")
    parts = [part for part in written.split(".") if part]
    if not parts or f"{written}.".startswith(_JVM_PLATFORM):
        return EXTERNAL
    is_wildcard = parts[-1] in ("*", "_", "given")
    if is_wildcard:
        parts = parts[:-1]
    members = [[*parts, name] for name in imp.names if name not in ("*", "_", "given")]
    if is_wildcard or any(name in ("*", "_") for name in imp.names):
        return _jvm_package(parts, path, layout)
    targets: dict[str, None] = {}
    keys: list[str] = []
    for member in members or [parts]:
        found = _jvm_class(member, path, layout)
        targets |= dict.fromkeys([found] if found else ())
        if not found:
            keys += [f"b:{name}{ext}" for name in member[-2:] if name for ext in JVM_FILES[:3]]
    return Resolved(tuple(targets), tuple(dict.fromkeys(keys)))


def _jvm_class(parts: Sequence[str], path: str, layout: Layout) -> str | None:
    """The file of a class, of the class around it, or of its member's class."""
    for length in range(len(parts), max(len(parts) - 3, 1), -1):
        if length < len(parts) and not parts[length - 1][:1].isupper():
            break  # a package: its members are files of their own
        tail = "/".join(parts[:length])
        found = [file for ext in JVM_FILES for file in layout.ending(tail + ext)]
        if found:
            return nearest_to(path, likely(path, found) or found)
    return _jvm_namesake(parts, path, layout)


def _jvm_namesake(parts: Sequence[str], path: str, layout: Layout) -> str | None:
    """The file of the package whose name is most of the member's, as `IdTable.kt` of `IntIdTable`.

    Kotlin and Scala put several classes, and functions, into one file.
    """
    name = parts[-1].lower()
    found = [
        file
        for folder in likely(path, layout.folders_ending("/".join(parts[:-1])))
        for file in layout.files(folder, ".kt", ".scala")
        if (stem := _jvm_stem(file)) in name or name in stem
    ]
    if len(parts) < 3 or not found:
        return None
    heads = [file for file in found if name.endswith(_jvm_stem(file))] or found
    closest = min(abs(len(_jvm_stem(file)) - len(name)) for file in heads)
    return nearest_to(path, [f for f in heads if abs(len(_jvm_stem(f)) - len(name)) == closest])


def _jvm_stem(file: str) -> str:
    return stem(file).lower()


def _jvm_package(parts: Sequence[str], path: str, layout: Layout) -> Resolved:
    """`a.b.*`: the members of the class `a.b`, else the files of the package, those of the nearest
    source roots first: it may be spread over platforms and modules.
    """
    if len(parts) > 1 and parts[-1][:1].isupper():
        outer = _jvm_class(parts, path, layout)
        if outer:
            return Resolved((outer,))
    if len(parts) < 2:
        return EXTERNAL
    folders = layout.folders_ending("/".join(parts))
    ranked = sorted(likely(path, folders), key=lambda one: _jvm_rank(one, path))
    files = [file for folder in ranked for file in layout.files(folder, *JVM_FILES)]
    if not files:  # an object of that name, or one in the package object
        packages = layout.ending("/".join((*parts[:-1], "package.scala")))
        found = layout.ending("/".join(parts) + ".scala") or packages
        files = [one for one in [nearest_to(path, likely(path, found))] if one]
    return Resolved(_but(path, files), (f"f:{parts[-1]}",))


def _jvm_rank(folder: str, path: str) -> tuple[bool, bool, int, str]:
    """What all platforms share, then what is of the file's own one, then what is near."""
    common = {"common", "commonMain", "main", "shared"}
    parts = set(folder.split("/"))
    own = parts & {"jvm", "js", "native", "posix", "jvmMain", "jsMain"} & set(path.split("/"))
    return not parts & common, not own, -parts_in_common(path, f"{folder}/_"), folder


# Rust

_RUST_PLATFORM = frozenset({"std", "core", "alloc", "proc_macro", "test"})
_RUST_ROOTS = frozenset({"mod", "lib", "main", "build"})


def rust(imp: Import, path: str, layout: Layout) -> Resolved:
    first, *parts = imp.module.removeprefix("r#").split("::")
    parts = [part for part in parts if part not in ("*", "self")]
    folder, name = posixpath.split(path)
    bare = posixpath.splitext(name)[0]
    inner = folder if bare in _RUST_ROOTS or _is_target(path) else posixpath.join(folder, bare)
    if first == "crate":
        return _rust_module(_crate_root(path, layout), parts, layout, owner=True)
    if first == "self":
        found = _rust_module(inner, parts, layout)
        return found if found.targets else Resolved((path,), found.keys)
    if first == "super":
        base = posixpath.dirname(inner)
        while parts and parts[0] == "super":
            base, parts = posixpath.dirname(base), parts[1:]
        return _rust_module(base, parts, layout, owner=True)
    if first in _RUST_PLATFORM:
        return EXTERNAL
    crate = _crate(first, path, layout)
    if crate is not None:
        return _rust_module(crate, parts, layout, owner=True)
    local = _rust_module(inner, [first, *parts], layout)  # a module declared beside it
    return local if local.targets else Resolved(keys=(f"^{first}", *local.keys[:1]))


def _is_target(path: str) -> bool:
    """Files that are crates of their own: `tests/a.rs`, `examples/b.rs`, `src/bin/c.rs`."""
    return posixpath.basename(posixpath.dirname(path)) in ("tests", "examples", "benches", "bin")


def _crate_root(path: str, layout: Layout) -> str:
    near = layout.nearest("cargo", path)
    head, found, _ = f"/{path}".rpartition("/src/")
    if near and f"/{path}".startswith(f"/{posixpath.join(near[0], 'src')}/".replace("//", "/")):
        return posixpath.join(near[0], "src")
    return f"{head}/src".lstrip("/") if found else posixpath.dirname(path)


def _crate(name: str, path: str, layout: Layout) -> str | None:
    """The source folder of a crate of the repository."""
    near = layout.nearest("cargo", path)
    if near:
        name = dict(near[1].pairs).get(name, name)
    for folder, facts in layout.of_kind("cargo"):
        if facts.name == name:
            root = dict(facts.pairs).get("<lib>", "src/lib.rs")
            return posixpath.normpath(posixpath.join(folder, posixpath.dirname(root)))
    return None


def _rust_module(
    base: str, parts: Sequence[str], layout: Layout, *, owner: bool = False
) -> Resolved:
    """The file of the longest path that is a module; the rest names an item in it.

    `owner`: an item may be in the module of `base` itself.
    """
    base = "" if base == "." else base
    for length in range(len(parts), 0, -1):
        module = posixpath.join(base, *parts[:length])
        found = next((p for p in (f"{module}.rs", f"{module}/mod.rs") if p in layout), None)
        if found:
            longer = (posixpath.join(base, *parts[:n]) for n in range(length + 1, len(parts) + 1))
            return Resolved((found,), at(*longer) if length < len(parts) else ())
    keys = at(*(posixpath.join(base, *parts[:n]) for n in range(1, len(parts) + 1)))
    files = ("lib.rs", "main.rs", "mod.rs")
    roots = [posixpath.join(base, file) for file in files] + ([f"{base}.rs"] if base else [])
    if not owner:
        return Resolved((), keys)
    found = next((p for p in roots if p in layout), None)
    likelier = roots[: roots.index(found)] if found else roots
    return Resolved((found,) if found else (), (*keys, *at(*likelier)))


# C, C++

_C_NAMES = (
    "assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal "
    "stdalign stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string tgmath "
    "threads time uchar wchar wctype unistd fcntl pthread"
)
_C_STANDARD = frozenset(_C_NAMES.split())
_INCLUDE_FOLDERS = frozenset({"include", "inc", "includes", "headers"})


def c(imp: Import, path: str, layout: Layout) -> Resolved:
    name = imp.module.strip('<>"')
    is_quoted = imp.module.startswith('"')
    if not is_quoted and "/" not in name and name.removesuffix(".h") in _C_STANDARD:
        return EXTERNAL
    folder = posixpath.dirname(path)
    beside = posixpath.normpath(posixpath.join(folder, name))
    if is_quoted and beside in layout:
        return Resolved((beside,))
    tail = posixpath.normpath(name)
    while tail.startswith("../"):
        tail = tail[3:]
    keys = (f"b:{posixpath.basename(tail)}",)
    found = [file for file in layout.ending(tail) if is_quoted or _is_public(file, tail)]
    found = list(likely(path, found))
    chosen = nearest_to(path, _in_include_folders(found, tail) or found)
    return Resolved((chosen,) if chosen else (), keys)  # a nearer one may come


def _is_public(file: str, tail: str) -> bool:
    """Whether `<tail>` may mean the file: a name alone only where headers are for others."""
    root = file.removesuffix(tail).rstrip("/")
    if "/" in tail:
        return True
    return not root or posixpath.basename(root) in _INCLUDE_FOLDERS


def _in_include_folders(found: Sequence[str], tail: str) -> list[str]:
    roots = ((file, file.removesuffix(tail).rstrip("/")) for file in found)
    return [file for file, root in roots if posixpath.basename(root) in _INCLUDE_FOLDERS]


# C#

_CS_PLATFORM = ("System", "Microsoft", "Windows", "Xunit", "NUnit")


def csharp(imp: Import, path: str, layout: Layout) -> Resolved:
    """A namespace by custom: the root namespace of a project, then a folder for each part."""
    parts = imp.module.split(".")
    folders = list(dict.fromkeys(_cs_folders(imp.module, path, layout)))
    keys = (*(f"d:{folder}" for folder in folders[:4]), f"f:{parts[-1]}")
    for folder in folders:
        files = _but(path, layout.files(folder, ".cs"))
        if files:
            return Resolved(files, keys)
    return EXTERNAL if parts[0] in _CS_PLATFORM else Resolved(keys=keys)


def _cs_folders(namespace: str, path: str, layout: Layout) -> Iterator[str]:
    projects = [
        (folder, dict(facts.pairs).get("<root>", "")) for folder, facts in layout.of_kind("nuget")
    ]
    owners = [(f, root) for f, root in projects if root and _is_under(namespace, root)]
    for folder, root in sorted(owners, key=lambda owner: (-len(owner[1]), owner[0])):
        rest = namespace[len(root) :].strip(".")
        yield _inside(folder, rest.replace(".", "/"))
        if "." in rest:
            yield _inside(folder, rest)
    tail = namespace.replace(".", "/")
    if "/" in tail or not owners:
        found = [*layout.folders_ending(tail), *layout.folders_ending(namespace)]
        yield from sorted(found, key=lambda one: (len(one), one))


def _is_under(namespace: str, root: str) -> bool:
    return namespace == root or namespace.startswith(f"{root}.")
