"""What a reader holds of every chunk: filterable fields as numbers, vectors in 8 bits.

A `ColumnTable` is one state of the index and never changes, so a search works on one to its end.
The next one shares the arrays and adds what came since. Rows that left are marked, and taken out
when they are a third of all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import numpy.typing as npt

from codelode.access import Visibility
from codelode.backends import globs
from codelode.backends.local import tables
from codelode.backends.local.database import State
from codelode.backends.local.dictionary import Codes, Dictionary, Mask
from codelode.model import Filters

#: The coded columns.
CODED = ("repositories", "paths", "refs", "languages", "categories", "kinds", "names")

#: Filters whose rows are remembered for as long as the index stays the same; each takes a byte a
#: row.
MAX_MASKS = 16

Rows = npt.NDArray[np.int64]


def _holds_ref(ref: str) -> Callable[[str], bool]:
    return lambda refs: ref in tables.refs_from(refs)


@dataclass(frozen=True, slots=True)
class Dictionaries:
    """The texts behind the numbers. They only grow, so all states share them."""

    repositories: Dictionary = field(default_factory=Dictionary)
    paths: Dictionary = field(default_factory=partial(Dictionary, globs.matches_path))
    refs: Dictionary = field(default_factory=partial(Dictionary, _holds_ref))
    languages: Dictionary = field(default_factory=Dictionary)
    categories: Dictionary = field(default_factory=Dictionary)
    kinds: Dictionary = field(default_factory=partial(Dictionary, tables.has_kind))
    names: Dictionary = field(default_factory=partial(Dictionary, globs.matches_a_name))


@dataclass(frozen=True, slots=True)
class ColumnTable:
    """One item a row in each array, by ascending row number."""

    state: State
    texts: Dictionaries
    rows: Rows
    codes: dict[str, Codes]  # by the names of the vocabularies
    is_alive: Mask
    vectors: npt.NDArray[np.int8]  # (rows, dim)
    scales: npt.NDArray[np.float32]  # 1 / length of the vector; 0: there is none
    _inside: dict[Filters, Mask] = field(default_factory=dict, init=False)

    def positions(self, rows: Rows) -> npt.NDArray[np.intp]:
        """Where each row is; rows that are not here must be told apart by `rows`."""
        return np.minimum(np.searchsorted(self.rows, rows), max(len(self.rows) - 1, 0))

    def texts_at(self, name: str, positions: Sequence[int]) -> list[str]:
        """The texts of a coded column."""
        vocabulary: Dictionary = getattr(self.texts, name)
        return vocabulary.texts(self.codes[name][positions])

    def count(self, visible: Visibility) -> int:
        named = visible.among(())
        if named is None:
            return int(np.count_nonzero(self.is_alive))
        codes = self.texts.repositories.codes(named)
        return int(np.count_nonzero(self.is_alive & _among(self.codes["repositories"], codes)))

    def in_clauses(self, filters: Filters) -> Mask:
        """Rows that meet the filters which the keyword index knows as well."""
        mask = self.is_alive
        for name, values in clauses(filters).items():
            if name == "kinds":
                mask = mask & self._matching(name, values)
                continue
            codes = getattr(self.texts, name).codes(values)
            mask = mask & _among(self.codes[name], codes)
        return mask

    def inside(self, filters: Filters) -> Mask:
        """Rows that meet all filters; the answer is remembered and cannot be written to."""
        mask = self._inside.get(filters)
        if mask is None:
            if len(self._inside) >= MAX_MASKS:
                self._inside.clear()
            mask = self._inside[filters] = self._meeting(filters)
            mask.setflags(write=False)
        return mask

    def _meeting(self, filters: Filters) -> Mask:
        mask = self.in_clauses(filters) & self._matching("refs", (filters.ref,))
        if filters.paths:
            mask &= self._matching("paths", filters.paths)
        if filters.symbols:
            mask &= self._matching("names", filters.symbols)
        if filters.block_types:
            mask &= self._matching("kinds", [f" {name}" for name in filters.block_types])
        return mask

    def _matching(self, name: str, patterns: Sequence[str]) -> Mask:
        vocabulary: Dictionary = getattr(self.texts, name)
        return vocabulary.matching(patterns)[self.codes[name]]


def _among(codes: Codes, wanted: Sequence[int]) -> Mask:
    found: Mask = codes == wanted[0] if len(wanted) == 1 else np.isin(codes, wanted)
    return found


def clauses(filters: Filters) -> dict[str, Sequence[str]]:
    """The filters that name values, those that limit anything."""
    named: dict[str, Sequence[str]] = {
        "repositories": filters.repositories,
        "languages": filters.languages,
        "categories": filters.categories,
        "kinds": filters.kinds,
    }
    return {name: values for name, values in named.items() if values}
