"""The rules of one language for parsing, besides its row in `codelode.language_table`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tree_sitter import Node

from codelode.infrastructure import Family
from codelode.model import Import, Kind
from workers.parse.ecosystems.resolution import Resolver
from workers.parse.ecosystems.statement import ReferenceReader, StatementReader
from workers.parse.exports import ExportRule

if TYPE_CHECKING:  # a circular import: its package imports definitions, which import rules
    from workers.parse.infrastructure.blocks import Block

#: Family, tree, and text of a file → its infrastructure blocks; None: it has none.
BlockReader = Callable[[Family | None, Node, bytes], "Iterable[Block] | None"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules of one language. A field that is left out means that the feature is absent."""

    # Definitions
    is_exported: ExportRule | None = None  # None: everything is
    has_docstrings: bool = False  # documentation is a string in the body, not a comment above
    has_clauses: bool = False  # a function is defined by several clauses, joined to one definition
    lists_members: bool = False  # export lists name nested definitions too
    block_types: Mapping[Kind, str] = field(default_factory=dict)  # of definitions that are blocks
    blocks: BlockReader | None = None

    # Uses of names
    joints: tuple[bytes, ...] = (b".",)  # separators of a module and its member
    default_export: Callable[[bytes], str] | None = None  # text of a file → the name

    # Imports
    statements: StatementReader | None = None  # reads what the query captures as @import
    references: ReferenceReader | None = None  # reads the whole text instead
    resolve: Resolver | None = None
    packages: Callable[[Import], Iterator[str]] | None = None  # keys of external packages
    manifests: tuple[str, ...] = ()  # kinds of manifests that affect how imports resolve
    rivals: tuple[str, ...] = ()  # extensions for which a name refers to the nearest such file

    # Files
    masked: Callable[[bytes], bytes] | None = None  # text of a file → what the grammar reads of it
    sections: Mapping[str, str] = field(default_factory=dict)  # node type → default language
    is_minified_often: bool = False  # files with very long lines are left out
