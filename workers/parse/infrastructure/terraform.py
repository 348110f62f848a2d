"""Find blocks of HCL by type and labels: Terraform, OpenTofu, Terragrunt, Packer and Nomad."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from codelode.infrastructure import Family
from workers.parse.infrastructure.blocks import Block

#: The block whose attributes are referred to as `local.<name>`.
_LOCALS = "locals"
_LABELS = frozenset({"string_lit", "identifier"})


def blocks(family: Family | None, root: Node, data: bytes) -> Iterator[Block]:
    """Yield each top-level block, `resource.aws_s3_bucket.x`, and each local, `local.region`."""
    for body in root.children:
        if body.type != "body":
            continue
        for node in body.children:
            if node.type == "block":
                yield from _block(node)


def _block(node: Node) -> Iterator[Block]:
    parts = [_label(child) for child in node.children if child.type in _LABELS]
    if not parts:
        return
    yield Block(
        node.start_byte,
        node.end_byte,
        ".".join(parts),
        parts[-1],
        parts[0],
        " ".join([parts[0], *(f'"{part}"' for part in parts[1:])]),
    )
    if parts == [_LOCALS]:
        yield from _locals(node)


def _locals(node: Node) -> Iterator[Block]:
    for body in node.children:
        for attribute in body.children if body.type == "body" else ():
            name = attribute.children[0] if attribute.type == "attribute" else None
            if name is not None:
                text = _label(name)
                yield Block(
                    attribute.start_byte, attribute.end_byte, f"local.{text}", text, "local"
                )


def _label(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace").strip('"')
