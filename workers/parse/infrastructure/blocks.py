"""Define infrastructure blocks, and the rules that find them in a mapping."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from tree_sitter import Node

from workers.parse.infrastructure import mappings

#: Maximum number of blocks of a file; a file with more holds data.
MAX_BLOCKS = 5_000


@dataclass(frozen=True, slots=True)
class Block:
    """One block with its hierarchy: `resource.aws_s3_bucket.x`, `Deployment/web`."""

    start: int  # in bytes, like `end`, which is exclusive
    end: int
    hierarchy: str
    name: str  # the last part of the hierarchy that the author chose
    block_type: str  # `resource`, `job`, `service`, `stage`, `Deployment`
    signature: str = ""  # empty: same as the hierarchy


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that says which pairs of a mapping are blocks.

    `key` is a glob. A block's own name is `<type>.<key>` if the rule's key has wildcards, else the
    key; it is appended to the hierarchy of the enclosing block. With `via`, the pair itself is not
    a block, and `inside` applies to the pairs of its value.
    """

    key: str
    block_type: str = ""
    inside: tuple[Rule, ...] = ()
    via: bool = False
    of_mappings: bool = False  # applies only to pairs whose value is a mapping


def under(key: str, block_type: str, inside: tuple[Rule, ...] = ()) -> Rule:
    """Return a rule by which each pair below the key is a block: `jobs: {build: …, test: …}`."""
    return Rule(key, via=True, inside=(Rule("*", block_type, inside),))


def find(
    node: Node | None, data: bytes, rules: Sequence[Rule], around: str = ""
) -> Iterator[Block]:
    """Yield the blocks of a mapping, outer before inner. The first rule that fits a pair counts."""
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
