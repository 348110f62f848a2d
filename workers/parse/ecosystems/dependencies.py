"""Read the dependencies that a manifest declares from its text.

The kind of a manifest is recognised by its content, not its path: equal files give equal imports.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from codelode.model import Import
from workers.parse.ecosystems import manifests
from workers.parse.ecosystems.layout import Layout, per_layout
from workers.parse.ecosystems.resolution import Resolved
from workers.parse.ecosystems.statement import ReferenceReader, References

#: The kind of these references: what `Import.names` holds.
KIND = "package"


def of_manifest(name: str) -> ReferenceReader:
    """Make a reader of the dependencies in manifests of this file name."""

    def references(text: str) -> References:
        facts = manifests.read(name, text)
        for used in facts.uses if facts else ():
            yield max(text.find(used), 0), f"{facts.kind}:{used}" if facts else used, KIND

    return references


_composer = of_manifest("composer.json")
_npm = of_manifest("package.json")
_cargo = of_manifest("Cargo.toml")
_pyproject = of_manifest("pyproject.toml")
_maven = of_manifest("pom.xml")
_csproj = of_manifest("x.csproj")
_gemfile = of_manifest("Gemfile")
_gemspec = of_manifest("x.gemspec")


def json(text: str) -> References:
    """Read composer.json, package.json, and the images in Kubernetes objects."""
    if '"require"' in text or '"require-dev"' in text:
        yield from _composer(text)
    elif 'ependencies"' in text:
        yield from _npm(text)
    elif '"apiVersion"' in text and '"kind"' in text:
        for found in re.finditer(r"\"image\"\s*:\s*\"([^\"\s]+)\"", text):
            yield found.start(1), found.group(1), "image"


def toml(text: str) -> References:
    """Read Cargo.toml and pyproject.toml."""
    if re.search(r"^\[(?:package|workspace)\b", text, re.MULTILINE):
        yield from _cargo(text)
    elif re.search(r"^\[(?:project|tool\.poetry)\b", text, re.MULTILINE):
        yield from _pyproject(text)


def xml(text: str) -> References:
    """Read pom.xml and project files of .NET."""
    if "<dependency>" in text:
        yield from _maven(text)
    elif "<PackageReference" in text:
        yield from _csproj(text)


def ruby(text: str) -> References:
    """Read the Gemfile and gem specifications."""
    if "gem " in text or "gem(" in text:
        yield from _gemfile(text)
    if "_dependency" in text:
        yield from _gemspec(text)


def resolve(imp: Import, path: str, layout: Layout) -> Resolved:
    """Resolve a dependency to the manifest that publishes it, if that is in the same repository."""
    found = _manifests(layout).get(imp.module)
    return Resolved((found,) if found else ())


@per_layout
def _manifests(layout: Layout) -> dict[str, str]:
    """Return the manifest of each package that the repository publishes."""
    return {
        f"{facts.kind}:{facts.name}": manifest
        for manifest, facts in reversed(layout.facts.items())
        if facts.name
    }


def packages(imp: Import) -> Iterator[str]:
    """Yield the package's key."""
    kind, _, name = imp.module.partition(":")
    ecosystem = {"cargo": "crate"}.get(kind, kind)
    if ecosystem == "crate":
        name = name.replace("-", "_")
    yield f"{ecosystem}:{name.lower() if ecosystem in ('nuget', 'composer') else name}"
