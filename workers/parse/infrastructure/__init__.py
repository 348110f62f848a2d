"""Read the blocks of infrastructure files (stages, jobs, resources) as definitions.

`read` returns the blocks of a file, or None for a file that has no such blocks; `masked` returns
the text that its grammar can read. The qualified name of a block is its hierarchy, so that it is
found and filtered like a symbol, and its type is `block_type`. There is one module per family; the
families of YAML share one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from tree_sitter import Node

from codelode.infrastructure import Family
from codelode.model import Kind
from workers.parse import describe
from workers.parse.comments import Comments
from workers.parse.definitions import Definition
from workers.parse.infrastructure import dockerfile, helm, kubernetes, terraform, yaml_files
from workers.parse.infrastructure.blocks import MAX_BLOCKS, Block
from workers.parse.lines import Lines
from workers.parse.rules import BlockReader

__all__ = ["dockerfile", "kubernetes", "masked", "read", "terraform", "yaml_files"]


def masked(data: bytes, family: Family | None) -> bytes:
    """Return the text for the grammar, of the same length as `data`."""
    is_template = family is Family.HELM_TEMPLATE and b"{{" in data
    return helm.masked(data) if is_template else data


def read(
    reader: BlockReader | None,
    family: Family | None,
    root: Node | None,
    lines: Lines,
    comments: Comments,
) -> tuple[Definition, ...] | None:
    """Return the blocks in file order, outer before inner; None for a file without such blocks.

    `reader` is the one of the file's language, `root` its tree if there is one.
    """
    if family is Family.HELM_TEMPLATE:
        found: Iterable[Block] | None = _template(root, lines.data)
    else:
        found = reader(family, root, lines.data) if reader and root is not None else None
    if found is None:
        return None
    ordered = sorted(islice(found, MAX_BLOCKS), key=lambda block: (block.start, -block.end))
    return tuple(_definition(block, lines, comments) for block in ordered)


def _template(root: Node | None, data: bytes) -> Iterator[Block]:
    yield from helm.templates(data)
    if root is not None and kubernetes.holds_objects(data):
        yield from kubernetes.objects(root, data)


def _definition(block: Block, lines: Lines, comments: Comments) -> Definition:
    return Definition(
        start=block.start,
        end=block.end,
        line=lines.row(block.start) + 1,
        name=block.name,
        qualified_name=block.hierarchy,
        kind=Kind.BLOCK,
        signature=(block.signature or block.hierarchy)[: describe.MAX_SIGNATURE_CHARS],
        is_exported=True,
        doc=describe.comment_above(block.start, lines, comments).removesuffix("*/}}").rstrip(),
        block_type=block.block_type,
    )
