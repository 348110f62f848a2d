"""Find the packages that a repository publishes, so that imports elsewhere resolve to them.

Published packages and external imports have keys of the same form, `<ecosystem>:<name>`, so that
matching them is a lookup:

    npm:@acme/ui   py:requests   pypi:acme-http   go:github.com/acme/http   crate:serde
    jvm:org.acme.http   maven:org.acme:http   php:Acme\\Http   composer:acme/http   gem:acme
    nuget:acme.http   chart:web   image:ghcr.io/acme/app   repo:acme/http
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from workers.parse.ecosystems import jvm, python
from workers.parse.ecosystems.layout import Layout
from workers.parse.ecosystems.manifests import Facts
from workers.parse.ecosystems.resolution import repository_key

#: Maximum number of packages of a repository; one with more does not publish real packages.
MAX_PUBLISHED = 5_000


def published(layout: Layout) -> dict[str, str]:
    """Map the key of each published package to the folder that it is published from."""
    found: dict[str, str] = {}
    for kind, keys in _PUBLISHERS.items():
        for folder, facts in layout.of_kind(kind):
            for key in keys(facts):
                found.setdefault(key, folder)
    for name, folder in (*python.published(layout), *jvm.published(layout)):
        found.setdefault(name, folder)
    if layout.name:
        found.setdefault(repository_key(layout.name), "")
    return dict(list(found.items())[:MAX_PUBLISHED])


def _named(ecosystem: str) -> Callable[[Facts], Iterator[str]]:
    def keys(facts: Facts) -> Iterator[str]:
        if facts.name:
            yield f"{ecosystem}:{facts.name}"

    return keys


def _composer(facts: Facts) -> Iterator[str]:
    if facts.name:
        yield f"composer:{facts.name}"
        for pair, _ in facts.pairs:
            prefix = pair.rpartition(" ")[0].strip("\\")
            if prefix and prefix not in ("App", "Tests"):
                yield f"php:{prefix}"


def _images(facts: Facts) -> Iterator[str]:
    for name, _ in facts.pairs:
        yield f"image:{name}"


#: Kind of manifest → the keys that it publishes.
_PUBLISHERS: dict[str, Callable[[Facts], Iterator[str]]] = {
    "npm": _named("npm"),
    "pypi": _named("pypi"),
    "go": _named("go"),
    "cargo": _named("crate"),
    "maven": _named("maven"),
    "composer": _composer,
    "gem": _named("gem"),
    "nuget": _named("nuget"),
    "chart": _named("chart"),
    "pub": _named("pub"),
    "image": _images,
}
