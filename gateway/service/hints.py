"""Warn about filters that are valid but probably wrong, when a search found nothing.

An unknown repository or language is rejected. An unknown block type is not: HCL and Kubernetes let
authors define their own, and no store lists the block types it holds.
"""

from __future__ import annotations

from collections.abc import Iterator

from codelode.infrastructure import BLOCK_TYPES
from codelode.model import Filters
from gateway.service.catalog import nearest

#: Most hints in one answer.
MAX_HINTS = 5


def filter_hints(filters: Filters) -> tuple[str, ...]:
    """Return a notice for each filter that is probably not what was meant."""
    found = (*_block_types(filters), *_paths(filters))
    return found[:MAX_HINTS]


def _block_types(filters: Filters) -> Iterator[str]:
    for name in filters.block_types:
        if name in BLOCK_TYPES:
            continue
        close = " or ".join(map(repr, nearest(name, BLOCK_TYPES)))
        remedy = (
            f"did you mean {close}?" if close else "write it as in the file: resource, Deployment"
        )
        yield f"filters.block_types: {name[:100]!r} is not a usual type of block; {remedy}"


def _paths(filters: Filters) -> Iterator[str]:
    for glob in filters.paths:
        if "[" in glob:
            yield (
                f"filters.paths: '[' and ']' in {glob[:100]!r} match themselves, as in "
                "pages/[id].tsx; give several globs for alternatives"
            )
