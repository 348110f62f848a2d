"""The values of graph answers: places, and the links between them."""

from __future__ import annotations

from dataclasses import dataclass

from codelode.model import RepositoryName
from codelode.relations import Confidence


@dataclass(frozen=True, slots=True)
class Place:
    """A file, a symbol in one, a package, or a name outside."""

    repository: RepositoryName  # empty: outside of all repositories
    path: str = ""  # of a package its folder
    symbol: str = ""  # qualified name; of what is outside, its name as it is imported
    line: int = 0  # 1-based; 0 for a file


@dataclass(frozen=True, slots=True)
class Link:
    """One edge, from what depends to what it depends on."""

    relation: str
    source: Place
    target: Place
    depth: int  # steps from the subject, from 1 on
    confidence: Confidence
