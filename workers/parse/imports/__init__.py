"""Read the imports of a file, and resolve them to files of the repository.

`read` and `references` return imports as they are written, from the content alone; `bounded` limits
their number. `links` resolves them to edges, and is pure too: edges depend on the file's path and
on the `Layout` of the commit, never on what is indexed. `dependents` finds the unchanged files
whose edges a run makes stale, by lookups in the index (`IndexLookups`); `concerns_others` returns
whether there can be any. `published` returns the packages that other repositories may import.
"""

from workers.parse.ecosystems.layout import Layout, Layouts
from workers.parse.ecosystems.layout import read as read_layout
from workers.parse.imports.dependents import IndexLookups, concerns_others, dependents
from workers.parse.imports.links import Links, links
from workers.parse.imports.published import published
from workers.parse.imports.statements import bounded, read, references

__all__ = [
    "IndexLookups",
    "Layout",
    "Layouts",
    "Links",
    "bounded",
    "concerns_others",
    "dependents",
    "links",
    "published",
    "read",
    "read_layout",
    "references",
]
