"""Imports: what a file writes, and the files of the repository that each import means.

`read` and `references` give what is written, from the content alone. `links` makes edges of it and
is pure too: edges depend on the file's path and on the `Layout` of the commit, never on what is
indexed.
"""

from workers.parse.ecosystems.layout import Layout, Layouts
from workers.parse.ecosystems.layout import read as read_layout
from workers.parse.imports.dependents import Known, concerns_others, dependents
from workers.parse.imports.links import Links, links
from workers.parse.imports.published import published
from workers.parse.imports.statements import bounded, read, references

__all__ = [
    "Known",
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
