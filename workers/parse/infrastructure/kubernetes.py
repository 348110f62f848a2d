"""Objects of Kubernetes and, in the same form, of Argo CD and other operators: `Deployment/web`.

In YAML or in JSON: the trees of both are read as mappings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tree_sitter import Node

from workers.parse.infrastructure import mappings
from workers.parse.infrastructure.blocks import Block, Rule, find

#: What a file of objects has in it; asked before its tree is walked.
_HEAD = re.compile(rb"^(?:apiVersion|kind)\s*:", re.MULTILINE)

_ACTION = re.compile(r"\{\{[^{}]*\}\}")
_WORDS = re.compile(r"\"([^\"]+)\"|[.$]([A-Za-z][\w.]*)")

#: Where the containers of each kind of workload are.
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
#: Parts of other kinds that are blocks of their own, below `spec`.
_PARTS: dict[str, Sequence[Rule]] = {"Application": _ARGO_SPEC, "ApplicationSet": _ARGO_SPEC}


def holds_objects(data: bytes) -> bool:
    """Whether the file may hold objects: both keys stand at the left in it."""
    return {b"a", b"k"} <= {found.group()[:1] for found in _HEAD.finditer(data)}


def may_hold_json(data: bytes) -> bool:
    """The same of a file of JSON, which has no lines to go by."""
    return b'"apiVersion"' in data and b'"kind"' in data


def objects(root: Node, data: bytes) -> Iterator[Block]:
    """Each document that is an object and each object of a list, with its containers or parts."""
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
    """The name, with what a template puts there said shortly: `web.fullname`, `Release.Name-db`."""
    return _ACTION.sub(_said, mappings.scalar(node, data))


def _said(action: re.Match[str]) -> str:
    words = _WORDS.findall(action.group())
    return next((quoted or path for quoted, path in words), "")
