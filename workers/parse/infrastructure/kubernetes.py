"""Find objects of Kubernetes, Argo CD, and other operators, in YAML or JSON: `Deployment/web`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tree_sitter import Node

from codelode.infrastructure import Family
from workers.parse.infrastructure import mappings
from workers.parse.infrastructure.blocks import Block, Rule, find

#: The keys of every object, searched before the tree is walked.
_HEAD = re.compile(rb"^(?:apiVersion|kind)\s*:", re.MULTILINE)

_ACTION = re.compile(r"\{\{[^{}]*\}\}")
_WORDS = re.compile(r"\"([^\"]+)\"|[.$]([A-Za-z][\w.]*)")

#: The path of keys to the pod of a workload, whose containers are blocks.
_POD = ("spec", "template", "spec")
_PODS = {
    "Pod": ("spec",),
    "Deployment": _POD,
    "StatefulSet": _POD,
    "DaemonSet": _POD,
    "ReplicaSet": _POD,
    "Job": _POD,
    "CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
}
_CONTAINERS = ("initContainers", "containers")

_ARGO_SPEC = (
    Rule("source", "source"),
    Rule("sources", "sources"),
    Rule("destination", "destination"),
    Rule("syncPolicy", "syncPolicy"),
    Rule("generators", "generators"),
    Rule("template", "template", (Rule("spec", via=True, inside=(Rule("source", "source"),)),)),
)
#: Parts below `spec` that are separate blocks, by kind of object.
_PARTS: dict[str, Sequence[Rule]] = {"Application": _ARGO_SPEC, "ApplicationSet": _ARGO_SPEC}


def holds_objects(data: bytes) -> bool:
    """Return whether a YAML file may contain objects: both keys begin a line."""
    return {b"a", b"k"} <= {found.group()[:1] for found in _HEAD.finditer(data)}


def json_blocks(family: Family | None, root: Node, data: bytes) -> Iterator[Block] | None:
    """Yield the objects of a JSON file; None for a file that cannot contain any."""
    return objects(root, data) if b'"apiVersion"' in data and b'"kind"' in data else None


def objects(root: Node, data: bytes) -> Iterator[Block]:
    """Yield each document that is an object, and the objects of a list, with their parts."""
    for document in mappings.documents(root):
        yield from _object(document, data)
        for item in mappings.items(mappings.get(document, data, "items")):
            yield from _object(item, data)


def _object(node: Node, data: bytes) -> Iterator[Block]:
    kind = mappings.scalar(mappings.get(node, data, "kind"), data)
    if not kind or mappings.get(node, data, "apiVersion") is None:
        return
    name = _name(mappings.get(node, data, "metadata", "name"), data)
    hierarchy = f"{kind}/{name}" if name else kind
    yield Block(node.start_byte, node.end_byte, hierarchy, name or kind, kind)
    yield from _containers(node, data, kind, hierarchy)
    yield from find(mappings.get(node, data, "spec"), data, _PARTS.get(kind, ()), hierarchy)


def _containers(document: Node, data: bytes, kind: str, around: str) -> Iterator[Block]:
    pod = mappings.get(document, data, *_PODS[kind]) if kind in _PODS else None
    for key in _CONTAINERS:
        for item in mappings.items(mappings.get(pod, data, key)):
            name = _name(mappings.get(item, data, "name"), data)
            if name:
                hierarchy = f"{around}.container.{name}"
                yield Block(item.start_byte, item.end_byte, hierarchy, name, "container")


def _name(node: Node | None, data: bytes) -> str:
    """Return the name with template actions shortened: `web.fullname`, `Release.Name-db`."""
    return _ACTION.sub(_short, mappings.scalar(node, data))


def _short(action: re.Match[str]) -> str:
    words = _WORDS.findall(action.group())
    return next((quoted or path for quoted, path in words), "")
