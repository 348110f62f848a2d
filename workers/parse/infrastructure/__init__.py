"""Blocks of infrastructure files, as definitions: what a stage, a job or a resource is called.

`read` gives the blocks of a file of one of the known families and None for every other file;
`masked` the text that its grammar can read. A block's hierarchy is its qualified name, so that it
is found and filtered like a symbol, and its type is `block_type`. One module per family; the YAML
families are tables of `blocks.Rule`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from tree_sitter import Node

from codelode.infrastructure import Family
from codelode.model import Kind
from workers.parse import describe
from workers.parse.comments import Comments
from workers.parse.definitions import Definition
from workers.parse.infrastructure import (
    compose,
    dockerfile,
    github,
    gitlab,
    helm,
    kubernetes,
    kustomize,
    mappings,
    terraform,
)
from workers.parse.infrastructure.blocks import MAX_BLOCKS, Block, Rule, find
from workers.parse.lines import Lines

__all__ = ["masked", "read", "typed"]

_TABLES: dict[Family, Sequence[Rule]] = {
    Family.GITHUB_WORKFLOW: github.WORKFLOW,
    Family.GITHUB_ACTION: github.ACTION,
    Family.GITLAB_CI: gitlab.PIPELINE,
    Family.COMPOSE: compose.COMPOSE,
    Family.HELM_VALUES: helm.VALUES,
}

#: Languages whose definitions are blocks of infrastructure besides.
_TYPED = {"bash": {Kind.FUNCTION: "function"}}


def masked(data: bytes, family: Family | None) -> bytes:
    """The text for the grammar, of the same length."""
    is_template = family is Family.HELM_TEMPLATE and b"{{" in data
    return helm.masked(data) if is_template else data


def read(
    language: str, family: Family | None, root: Node | None, lines: Lines, comments: Comments
) -> tuple[Definition, ...] | None:
    """The blocks in file order, outer before inner; None where the file is of no family."""
    found = _blocks(language, family, root, lines.data)
    if found is None:
        return None
    ordered = sorted(islice(found, MAX_BLOCKS), key=lambda block: (block.start, -block.end))
    return tuple(_definition(block, lines, comments) for block in ordered)


def typed(definitions: tuple[Definition, ...], language: str) -> tuple[Definition, ...]:
    """Definitions of a script with the type of block that they are."""
    types = _TYPED.get(language)
    if types is None:
        return definitions
    return tuple(
        one._replace(block_type=types.get(one.kind, "") if one.kind else "") for one in definitions
    )


def _blocks(
    language: str, family: Family | None, root: Node | None, data: bytes
) -> Iterable[Block] | None:
    if family is Family.HELM_TEMPLATE:
        return _template(root, data)
    if root is None:
        return None
    if language == "hcl":
        return terraform.blocks(root)
    if language == "dockerfile":
        return dockerfile.stages(root)
    if language == "yaml":
        return _yaml(family, root, data)
    if language == "json" and kubernetes.may_hold_json(data):
        return kubernetes.objects(root, data)
    return None


def _yaml(family: Family | None, root: Node, data: bytes) -> Iterable[Block] | None:
    if family is Family.HELM_CHART:
        return helm.chart(root, data)
    if family is Family.KUSTOMIZATION:
        return kustomize.blocks(root, data)
    if family is not None and family in _TABLES:
        return _by_table(root, data, _TABLES[family])
    return kubernetes.objects(root, data) if kubernetes.holds_objects(data) else None


def _by_table(root: Node, data: bytes, rules: Sequence[Rule]) -> Iterator[Block]:
    for document in mappings.documents(root):
        yield from find(document, data, rules)


def _template(root: Node | None, data: bytes) -> Iterator[Block]:
    yield from helm.templates(data)
    if root is not None and kubernetes.holds_objects(data):
        yield from kubernetes.objects(root, data)


def _definition(block: Block, lines: Lines, comments: Comments) -> Definition:
    return Definition(
        start=block.start,
        end=block.end,
        name=block.name,
        qualified_name=block.hierarchy,
        kind=Kind.BLOCK,
        signature=(block.signature or block.hierarchy)[: describe.MAX_SIGNATURE_CHARS],
        is_exported=True,
        doc=describe.comment_above(block.start, lines, comments).removesuffix("*/}}").rstrip(),
        block_type=block.block_type,
    )
