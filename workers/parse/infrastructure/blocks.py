"""A block of an infrastructure file, and the tables that find blocks in a mapping."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from tree_sitter import Node

from workers.parse.infrastructure import mappings

#: More blocks of one file are a table of data.
MAX_BLOCKS = 5_000


@dataclass(frozen=True, slots=True)
class Block:
    """One block with its place in the hierarchy: `resource.aws_s3_bucket.x`, `Deployment/web`."""

    start: int
    end: int
    hierarchy: str
    name: str  # the last part of the hierarchy that the author chose
    block_type: str  # `resource`, `job`, `service`, `stage`, `Deployment`
    signature: str = ""  # empty: the hierarchy


@dataclass(frozen=True, slots=True)
class Rule:
    """Which pairs of a mapping are blocks.

    `key` is a glob. A key that is a glob gives `<type>.<key>`, a plain one itself, both behind the
    hierarchy of the block around. `via`: the pair is no block; its value's pairs are looked at.
    """

    key: str
    block_type: str = ""
    inside: tuple[Rule, ...] = ()
    via: bool = False
    of_mappings: bool = False  # only pairs whose value is a mapping


def under(key: str, block_type: str, inside: tuple[Rule, ...] = ()) -> Rule:
    """`jobs: {build: …, test: …}`: each pair below the key is a block."""
    return Rule(key, via=True, inside=(Rule("*", block_type, inside),))


def find(
    node: Node | None, data: bytes, rules: Sequence[Rule], around: str = ""
) -> Iterator[Block]:
    """The blocks of a mapping, outer before inner. The first rule that fits a pair counts."""
    for pair in mappings.pairs(node, data):
        rule = next((rule for rule in rules if fnmatchcase(pair.key, rule.key)), None)
        if rule is None or (rule.of_mappings and not mappings.is_mapping(pair.value)):
            continue
        if rule.via:
            yield from find(pair.value, data, rule.inside, around)
            continue
        own = pair.key if rule.key == pair.key else f"{rule.block_type}.{pair.key.lstrip('.')}"
        hierarchy = f"{around}.{own}" if around else own
        yield Block(pair.start, pair.end, hierarchy, pair.key, rule.block_type)
        yield from find(pair.value, data, rule.inside, hierarchy)
