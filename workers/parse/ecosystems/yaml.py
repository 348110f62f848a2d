"""Read references in YAML: workflows, Compose files, GitLab pipelines, charts, Kubernetes objects.

The kind of a reference is stored in `Import.names`: `uses`, `image`, `build`, `chart`,
`dependency`, `project`, `file`, `base`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from codelode.model import Import
from workers.parse.ecosystems import docker
from workers.parse.ecosystems.layout import Layout
from workers.parse.ecosystems.manifests import image
from workers.parse.ecosystems.resolution import (
    EXTERNAL,
    Resolved,
    at,
    beside,
    first,
    repository_key,
)
from workers.parse.ecosystems.statement import References

#: Number of characters on each side of a chart dependency's address in which its name is searched.
_CHART_WINDOW_CHARS = 300

_LINE = re.compile(
    r"^[ \t]*(?:-[ \t]+)?(uses|image|build|context|local|extends|repository|template|project|file"
    r"|env_file|include):[ \t]+[\"']?([^\s\"'#{}\[\]|>&*][^\s\"'#]*)",
    re.MULTILINE,
)
_KINDS = {"uses": "uses", "image": "image", "build": "build", "context": "build"}


def references(text: str) -> References:
    """Read the references of one file; its format is recognised by its content."""
    is_pipeline = re.search(r"^include:", text, re.MULTILINE) is not None
    is_chart = re.search(r"^apiVersion:\s*[\"']?v[12]\b", text, re.MULTILINE) is not None
    is_action = "uses:" in text
    for found in _LINE.finditer(text):
        key, value = found.groups()
        if key in ("build", "context") and is_action:
            continue  # an input of an action, not a folder of a Compose file
        if key in _KINDS and (key != "uses" or "/" in value):
            yield found.start(1), value, _KINDS[key]
        elif is_pipeline and key in ("local", "include") and "." in value:
            yield found.start(1), f"/{value.lstrip('/')}", "file"
        elif is_pipeline and key == "project":
            yield found.start(1), value, "project"
        elif is_chart and key == "repository":
            yield from _chart(text, found)
    if is_pipeline:
        yield from _included(text)


def _chart(text: str, repository: re.Match[str]) -> References:
    """Read a chart's dependency: by its folder if it is in the repository, else by its name."""
    if repository.group(2).startswith("file://"):
        yield repository.start(2), repository.group(2), "chart"
        return
    start = max(0, repository.start() - _CHART_WINDOW_CHARS)
    around = text[start : repository.end() + _CHART_WINDOW_CHARS]
    named = re.findall(r"^[^\S\n]*+(?:-[^\S\n]*+)?name:\s*+[\"']?([\w.-]++)", around, re.MULTILINE)
    if named:
        yield repository.start(2), named[-1], "dependency"


def _included(text: str) -> References:
    """Read GitLab's short form: a list of paths below `include:`."""
    for block in re.finditer(r"^include:[ \t]*\n((?:[ \t]*-[ \t]*[^\n]*\n?)+)", text, re.MULTILINE):
        for item in re.finditer(r"-[ \t]+[\"']?(/?[\w./-]+\.ya?ml)\b", block.group(1)):
            yield block.start(1) + item.start(1), f"/{item.group(1).lstrip('/')}", "file"


#: Kind of reference → the files below its path that it may refer to.
_INSIDE = {
    "build": ("Dockerfile", "Containerfile"),
    "uses": ("action.yml", "action.yaml", ""),
    "chart": ("Chart.yaml",),
    "file": ("",),
    "base": ("", "kustomization.yaml", "kustomization.yml", "Kustomization"),
}


def resolve(imp: Import, path: str, layout: Layout) -> Resolved:
    """Resolve a reference to a path by its kind."""
    kind = imp.names[0] if imp.names else ""
    written = imp.module.removeprefix("file://")
    if kind not in _INSIDE or ":" in written:  # with a colon it is in another repository
        return EXTERNAL
    is_relative = written.startswith(".") or kind in ("build", "file", "base")
    if not is_relative and not written.startswith("/"):
        return EXTERNAL
    if kind == "uses" or written.startswith("/"):  # from the root of the repository
        base: str | None = posixpath.normpath(written.lstrip("/"))
    else:
        base = beside(path, written)
    if base is None or base.startswith(".."):
        return EXTERNAL
    found = first(layout, (posixpath.join(base, name) for name in _INSIDE[kind]))
    return Resolved((found,)) if found else Resolved(keys=(*at(base), f"d:{base}"))


def packages(imp: Import) -> Iterator[str]:
    """Yield the image, chart or repository that a reference uses."""
    kind = imp.names[0] if imp.names else ""
    module = imp.module
    if kind == "image":
        yield from docker.packages(imp)
    elif kind == "uses" and module.startswith("docker://"):
        yield f"image:{image(module.removeprefix('docker://'))}"
    elif kind == "uses" and not module.startswith("."):
        yield f"repo:{'/'.join(module.split('@')[0].lower().split('/')[:2])}"
    elif kind == "project":
        yield repository_key(module)
    elif kind == "dependency":
        yield f"chart:{module}"
    elif kind == "base" and (found := _REMOTE.match(module)):
        yield f"repo:{found.group(1).removesuffix('.git').lower()}"


#: A base in another repository: `https://host/a/b//c?ref=d`, `github.com/a/b/c`, `git@host:a/b`.
_REMOTE = re.compile(
    r"(?:(?:git::)?\w+://(?:[^@/]+@)?[\w.:-]+/|[\w.-]+@[\w.-]+:|(?:github|gitlab)\.com/)"
    r"([\w.-]+/[\w.-]+)"
)
