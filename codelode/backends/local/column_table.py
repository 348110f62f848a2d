"""Columns of all chunks that a reader has in memory: dictionary-encoded fields and 8-bit vectors.

A `ColumnTable` is a snapshot of the index and never changes, so a search can use the same one until
it ends.
The next snapshot shares the arrays and appends new rows. Deleted rows are marked, and removed when
they are a third of all rows. All readers share most vectors (`shared_vectors`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise, repeat
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from codelode import globs
from codelode.access import EVERYTHING, Visibility
from codelode.backends.local import tables
from codelode.backends.local.coarse_vectors import CoarseVectors
from codelode.backends.local.database import State
from codelode.backends.local.dictionary import Codes, Dictionary, Mask
from codelode.model import FileKey, Filters, RefName, RepositoryName

#: The dictionary-encoded columns.
ENCODED = ("repositories", "paths", "refs", "languages", "categories", "kinds", "names")

#: Maximum number of filters, and of visibilities, whose masks are cached per snapshot. A mask takes
#: one byte per row.
MAX_MASKS = 16
MAX_VISIBILITIES = 32

Rows = npt.NDArray[np.int64]
Positions = npt.NDArray[np.intp]
Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


#: Numbers of files, each of which stands for a repository and a path.
Files = npt.NDArray[np.int64]


class ByFile(NamedTuple):
    """Positions ordered by file."""

    files: Files  # of each position, ascending
    positions: Positions

    def among(self, files: Collection[int]) -> Positions:
        """Return the positions in these files."""
        wanted = np.fromiter(files, np.int64, len(files))
        starts = np.searchsorted(self.files, wanted).tolist()
        ends = np.searchsorted(self.files, wanted, side="right").tolist()
        some = [self.positions[start:end] for start, end in zip(starts, ends, strict=True)]
        return np.concatenate([self.positions[:0], *some])


def _holds_ref(ref: str) -> Callable[[str], bool]:
    return lambda refs: ref in tables.refs_from(refs)


@dataclass(frozen=True, slots=True)
class Dictionaries:
    """The dictionaries of the encoded columns. They only grow, so all snapshots share them."""

    repositories: Dictionary = field(default_factory=Dictionary)
    paths: Dictionary = field(
        default_factory=partial(Dictionary, globs.matches_path, globs.path_needles)
    )
    refs: Dictionary = field(default_factory=partial(Dictionary, _holds_ref))
    languages: Dictionary = field(default_factory=Dictionary)
    categories: Dictionary = field(default_factory=Dictionary)
    kinds: Dictionary = field(default_factory=partial(Dictionary, tables.has_kind))
    names: Dictionary = field(
        default_factory=partial(Dictionary, globs.matches_a_name, globs.name_needles)
    )


@dataclass(frozen=True, slots=True)
class ColumnTable:
    """A snapshot: arrays with one item per row, in ascending order of row numbers."""

    state: State
    dictionaries: Dictionaries
    rows: Rows
    codes: dict[str, Codes]  # by names of the dictionaries
    is_alive: Mask
    vectors: tuple[npt.NDArray[np.int8], ...]  # each (rows, dim); together they have all rows
    coarse: CoarseVectors | None  # of the first rows; None: there are few
    scales: npt.NDArray[np.float32]  # 1 / length of the vector; 0: no vector
    _inside: dict[Filters, Mask] = field(default_factory=dict, init=False)
    _visible: dict[str, Mask] = field(default_factory=dict, init=False)  # by digest

    def positions(self, rows: Rows) -> npt.NDArray[np.intp]:
        """Return the position of each row; for a missing row, that of another (compare `rows`)."""
        return np.minimum(np.searchsorted(self.rows, rows), max(len(self.rows) - 1, 0))

    def texts_at(self, name: str, positions: Sequence[int]) -> list[str]:
        """Return the texts of an encoded column."""
        dictionary: Dictionary = getattr(self.dictionaries, name)
        return dictionary.texts(self.codes[name][positions])

    def by_file(self, rows: Rows) -> ByFile:
        """Return the positions of those rows that the snapshot has, ordered by file."""
        positions = self.positions(rows)
        positions = positions[self.rows[positions] == rows] if len(self.rows) else positions[:0]
        files = self.files_at(positions)
        order = np.argsort(files, kind="stable")
        return ByFile(files[order], positions[order])

    def files_at(self, positions: Positions) -> Files:
        """Return the numbers of the files at the positions."""
        repositories = self.codes["repositories"][positions].astype(np.int64)
        return (repositories << 32) | self.codes["paths"][positions]

    def places(self, positions: Positions) -> list[FileKey]:
        """Return the files at the positions, each once, in order."""
        numbers = np.sort(self.files_at(positions), kind="stable")  # many are in order already
        numbers = numbers[np.diff(numbers, prepend=-1) > 0]
        repositories, starts = np.unique(numbers >> 32, return_index=True)
        names = self.dictionaries.repositories.texts(repositories)
        paths = self.dictionaries.paths.texts(numbers & 0xFFFF_FFFF)
        found: list[FileKey] = []
        for name, (start, end) in sorted(
            zip(names, pairwise([*starts.tolist(), len(paths)]), strict=True)
        ):
            found += zip(repeat(RepositoryName(name)), sorted(paths[start:end]))
        return found

    def numbered(self, places: Iterable[FileKey]) -> dict[int, FileKey]:
        """Return the files by their numbers; unknown files are left out."""
        repositories, paths = self.dictionaries.repositories, self.dictionaries.paths
        return {
            (repository << 32) | path: place
            for place in places
            if (repository := repositories.code(place[0])) is not None
            and (path := paths.code(place[1])) is not None
        }

    def count(self, visible: Visibility) -> int:
        return int(np.count_nonzero(self.visible(self.is_alive, visible)))

    def visible(self, mask: Mask, visible: Visibility) -> Mask:
        """Return the mask without the rows of repositories that are not visible."""
        return mask if visible.is_everything else mask & self._seen(visible)

    def in_clauses(self, filters: Filters) -> Mask:
        """Return the mask of rows that meet those filters that the keyword index has too."""
        mask = self.is_alive
        for name, values in clauses(filters, EVERYTHING).items():
            if name == "kinds":
                mask = mask & self._matching(name, values)
                continue
            mask = mask & self._among(name, values)
        return mask

    def inside(self, filters: Filters, visible: Visibility) -> Mask:
        """Return the read-only mask of visible rows that meet all filters; its parts are cached."""
        mask = self._inside.get(filters)
        if mask is None:
            mask = _cached_mask(self._inside, filters, self._meeting(filters), most=MAX_MASKS)
        return self.visible(mask, visible)

    def at_ref(self, ref: RefName) -> Mask:
        """Return the read-only mask of rows at the ref."""
        return self.inside(Filters(ref=ref), EVERYTHING)

    def _seen(self, visible: Visibility) -> Mask:
        mask = self._visible.get(visible.digest)
        if mask is None:
            made = self._among("repositories", visible.ordered)
            mask = _cached_mask(self._visible, visible.digest, made, most=MAX_VISIBILITIES)
        return mask

    def _meeting(self, filters: Filters) -> Mask:
        mask = self.in_clauses(filters) & self._matching("refs", (filters.ref,))
        for wanted in filter(None, (filters.paths, filters.within)):
            mask &= self._matching("paths", wanted)
        if filters.symbols:
            mask &= self._matching("names", filters.symbols)
        if filters.block_types:
            mask &= self._matching("kinds", [f" {name}" for name in filters.block_types])
        for name, values in _excluded(filters).items():
            mask &= ~self._matching(name, values)
        return mask

    def _among(self, name: str, values: Iterable[str]) -> Mask:
        dictionary: Dictionary = getattr(self.dictionaries, name)
        return dictionary.among(values)[self.codes[name]]

    def _matching(self, name: str, patterns: Sequence[str]) -> Mask:
        dictionary: Dictionary = getattr(self.dictionaries, name)
        return dictionary.matching(patterns)[self.codes[name]]


def at_positions(
    parts: Sequence[npt.NDArray[np.int8]], positions: npt.NDArray[np.intp]
) -> list[npt.NDArray[np.int8]]:
    """Return copies of the vectors at these ascending positions, from each part."""
    found, start = [], 0
    for part in parts:
        first, last = np.searchsorted(positions, (start, start + len(part)))
        found.append(part[positions[first:last] - start])
        start += len(part)
    return found


def _cached_mask(masks: dict[Key, Mask], key: Key, mask: Mask, *, most: int) -> Mask:
    """Add the mask, which becomes read-only, and return it."""
    mask.setflags(write=False)
    return cached(masks, key, mask, most=most)


def cached(values: dict[Key, Value], key: Key, value: Value, *, most: int) -> Value:
    """Add the value and return it. A full cache drops its oldest value."""
    while len(values) >= most:
        values.pop(next(iter(values.copy())), None)  # another thread may have dropped it
    values[key] = value
    return value


def clauses(filters: Filters, visible: Visibility) -> dict[str, Sequence[str]]:
    """Return the filters that name values, by column; those without values are left out."""
    named: dict[str, Sequence[str]] = {
        "repositories": visible.among(filters.repositories) or (),
        "languages": filters.languages,
        "categories": filters.categories,
        "kinds": filters.kinds,
    }
    return {name: values for name, values in named.items() if values}


def _excluded(filters: Filters) -> dict[str, Sequence[str]]:
    """Return the values that the filters exclude, by column; columns without any are left out."""
    named: dict[str, Sequence[str]] = {
        "repositories": filters.not_repositories,
        "languages": filters.not_languages,
        "paths": filters.not_paths,
    }
    return {name: values for name, values in named.items() if values}
