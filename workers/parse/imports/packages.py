"""What a repository publishes, and what its files take from others: the ends of edges between
repositories.

Both are keys of one vocabulary, `<ecosystem>:<name>`, so that matching them is looking up:

    npm:@acme/ui   py:requests   pypi:acme-http   go:github.com/acme/http   crate:serde
    jvm:org.acme.http   maven:org.acme:http   php:Acme\\Http   composer:acme/http   gem:acme
    nuget:acme.http   chart:web   image:ghcr.io/acme/app   repo:acme/http
"""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Callable, Iterator

from codelode.model import Import
from workers.parse.imports import manifests, python
from workers.parse.imports.ecmascript import package_name
from workers.parse.imports.layout import Layout

#: Names that one repository publishes; more are no packages.
MAX_PUBLISHED = 5_000

_JVM_ROOTS = re.compile(r"(?:^|/)src/(?:main|commonMain|jvmMain)/(?:java|kotlin|scala)/")
_JVM_PARTS = (2, 5)  # parts of a package's name by which it is known: at least, and less than


def published(layout: Layout) -> dict[str, str]:
    """Key → folder that it is published from."""
    found: dict[str, str] = {}
    for kind, keys in _PUBLISHERS.items():
        for folder, facts in layout.of_kind(kind):
            for key in keys(folder, facts):
                found.setdefault(key, folder)
    for name, folder in python.top_level(layout):
        found.setdefault(f"py:{name}", folder)
    for name, folder in _jvm_packages(layout):
        found.setdefault(f"jvm:{name}", folder)
    if layout.name:
        found.setdefault(f"repo:{_last_two(layout.name)}", "")
    return dict(list(found.items())[:MAX_PUBLISHED])


def _named(ecosystem: str) -> Callable[[str, manifests.Facts], Iterator[str]]:
    def keys(folder: str, facts: manifests.Facts) -> Iterator[str]:
        if facts.name:
            yield f"{ecosystem}:{facts.name}"

    return keys


def _of_composer(folder: str, facts: manifests.Facts) -> Iterator[str]:
    if facts.name:
        yield f"composer:{facts.name}"
        for pair, _ in facts.pairs:
            prefix = pair.rpartition(" ")[0].strip("\\")
            if prefix and prefix not in ("App", "Tests"):
                yield f"php:{prefix}"


def _of_images(folder: str, facts: manifests.Facts) -> Iterator[str]:
    for name, _ in facts.pairs:
        yield f"image:{name}"


_PUBLISHERS: dict[str, Callable[[str, manifests.Facts], Iterator[str]]] = {
    "npm": _named("npm"),
    "pypi": _named("pypi"),
    "go": _named("go"),
    "cargo": _named("crate"),
    "maven": _named("maven"),
    "composer": _of_composer,
    "gem": _named("gem"),
    "nuget": _named("nuget"),
    "chart": _named("chart"),
    "pub": _named("pub"),
    "image": _of_images,
}


def _jvm_packages(layout: Layout) -> Iterator[tuple[str, str]]:
    """The package that all files of a source root share: `org.acme.http`."""
    shared: dict[str, list[str]] = {}
    for path in sorted(layout.paths):
        found = _JVM_ROOTS.search(path)
        if not found:
            continue
        parts = posixpath.dirname(path[found.end() :]).split("/")
        root = path[: found.end()].rstrip("/")
        known = shared.setdefault(root, parts)
        shared[root] = [a for a, b in zip(known, parts, strict=False) if a == b]
    for root, parts in shared.items():
        if len(parts) >= _JVM_PARTS[0]:
            yield ".".join(parts[: _JVM_PARTS[1] - 1]), root


def _last_two(name: str) -> str:
    """`git.acme.org/team/http` → `team/http`."""
    return "/".join(name.removesuffix(".git").lower().split("/")[-2:])


# what files take


def consumed(imp: Import, *, language: str) -> tuple[str, ...]:
    """Keys of what an external import may come from."""
    if imp.names[:1] == ("package",):
        return _declared(imp.module)
    taker = _TAKERS.get(language)
    return tuple(taker(imp)) if taker else ()


def _declared(module: str) -> tuple[str, ...]:
    kind, _, name = module.partition(":")
    ecosystem = {"cargo": "crate"}.get(kind, kind)
    if ecosystem == "crate":
        name = name.replace("-", "_")
    return (f"{ecosystem}:{name.lower() if ecosystem in ('nuget', 'composer') else name}",)


def _python(imp: Import) -> Iterator[str]:
    first = imp.module.split(".")[0]
    if first and first not in sys.stdlib_module_names:
        yield f"py:{first}"


def _javascript(imp: Import) -> Iterator[str]:
    if imp.module[:1] not in ".#/~" and not imp.module.startswith(("node:", "@/")):
        yield f"npm:{package_name(imp.module)}"


def _go(imp: Import) -> Iterator[str]:
    """Every prefix that may be a module's path: which one is, the publisher knows."""
    parts = imp.module.split("/")
    if "." in parts[0]:
        yield from (f"go:{'/'.join(parts[:n])}" for n in range(2, min(len(parts), 6) + 1))


def _rust(imp: Import) -> Iterator[str]:
    first = imp.module.partition("::")[0]
    if first not in ("std", "core", "alloc", "crate", "self", "super"):
        yield f"crate:{first}"


def _jvm(imp: Import) -> Iterator[str]:
    if not f"{imp.module}.".startswith(("java.", "javax.", "kotlin.", "scala.")):
        parts = imp.module.split(".")
        least, end = _JVM_PARTS
        yield from (f"jvm:{'.'.join(parts[:n])}" for n in range(least, min(len(parts), end)))


def _php(imp: Import) -> Iterator[str]:
    parts = imp.module.strip("\\").split("\\")
    if not imp.module.endswith(".php"):
        yield from (f"php:{chr(92).join(parts[:n])}" for n in range(1, min(len(parts), 4) + 1))


def _ruby(imp: Import) -> Iterator[str]:
    if imp.module[:1] not in "./":
        first = imp.module.split("/")[0]
        yield f"gem:{first}"
        if "/" in imp.module:
            yield f"gem:{imp.module.replace('/', '-')}"


def _image(imp: Import) -> Iterator[str]:
    if "$" not in imp.module:
        yield f"image:{manifests.image(imp.module)}"


def _yaml(imp: Import) -> Iterator[str]:
    kind = imp.names[0] if imp.names else ""
    if kind == "image":
        yield from _image(imp)
    elif kind == "uses" and not imp.module.startswith("."):
        if imp.module.startswith("docker://"):
            yield f"image:{manifests.image(imp.module.removeprefix('docker://'))}"
        else:
            yield f"repo:{'/'.join(imp.module.split('@')[0].lower().split('/')[:2])}"
    elif kind == "project":
        yield f"repo:{_last_two(imp.module)}"
    elif kind == "dependency":
        yield f"chart:{imp.module}"
    elif kind == "base":
        found = _REMOTE.match(imp.module)
        if found:
            yield f"repo:{found.group(1).removesuffix('.git').lower()}"


#: A base in another repository: `https://host/a/b//c?ref=d`, `github.com/a/b/c`, `git@host:a/b`.
_REMOTE = re.compile(
    r"(?:(?:git::)?\w+://(?:[^@/]+@)?[\w.:-]+/|[\w.-]+@[\w.-]+:|(?:github|gitlab)\.com/)"
    r"([\w.-]+/[\w.-]+)"
)
_REGISTRY = re.compile(r"^(?:[\w.-]+\.[\w.-]+/)?([\w-]+)/([\w-]+)/([\w-]+)$")


def _terraform(imp: Import) -> Iterator[str]:
    """A module's address in git, or in a registry, whose repositories are named by rule."""
    source = imp.module.split("?")[0]
    if source.startswith("."):
        return
    found = _REGISTRY.match(source.split("//")[0])
    if found and not source.startswith(("git", "http")):
        namespace, name, provider = found.groups()
        yield f"repo:{namespace}/terraform-{provider}-{name}".lower()
        return
    address = re.sub(r"^(?:git::)?(?:\w+://)?(?:[^@/]+@)?", "", source).split("//")[0]
    yield f"repo:{_last_two(address.replace(':', '/'))}"


_TAKERS: dict[str, Callable[[Import], Iterator[str]]] = {
    "python": _python,
    **dict.fromkeys(("javascript", "typescript", "tsx", "vue", "svelte", "astro"), _javascript),
    "go": _go,
    "rust": _rust,
    **dict.fromkeys(("java", "kotlin", "scala", "groovy"), _jvm),
    "php": _php,
    "ruby": _ruby,
    "dockerfile": _image,
    **dict.fromkeys(("yaml", "json"), _yaml),
    "hcl": _terraform,
}
