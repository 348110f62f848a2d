"""Imports: as a file writes them, and the files of the repository that each means.

`read` and `declared` give what is written, from content alone. `links` makes edges of it, and is
pure too: they depend on the file's path and on the `Layout` of the commit, never on what is
indexed already.
"""

from workers.parse.imports.declared import read as declared
from workers.parse.imports.dependents import Known, concerns_others, dependents
from workers.parse.imports.layout import Layout, Layouts
from workers.parse.imports.layout import read as read_layout
from workers.parse.imports.links import Links, links
from workers.parse.imports.packages import published
from workers.parse.imports.written import read

__all__ = [
    "Known",
    "Layout",
    "Layouts",
    "Links",
    "concerns_others",
    "declared",
    "dependents",
    "links",
    "published",
    "read",
    "read_layout",
]
