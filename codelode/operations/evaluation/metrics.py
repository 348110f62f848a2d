"""Measure retrieval quality: compare ranked locations with targets, and average over queries.

The strict chunk rule: ranked chunks are scored as they come. Several chunks of one file take
several positions, each target is credited to the first hit that covers it and to no other, and two
targets credited to one hit count as one gain. This is the rule of the semble benchmark
(github.com/MinishLab/semble, `benchmarks/`), so results can be compared with the published ones;
dropping repeated files first would add about 0.05 for the same ranking.

Gain is binary. A metric takes `target_ranks(hits, targets)`, with one entry per target. Metrics of
a query without targets are undefined; every metric is 0.0 for it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A file or lines of it: the location of a hit or of a target."""

    path: str
    start_line: int | None = None  # None: the whole file
    end_line: int | None = None  # None: to the end of the file

    def overlaps(self, other: SourceLocation) -> bool:
        """Return whether both are in the same file and share a line, or one is the whole file."""
        if self.path != other.path:
            return False
        if self.start_line is None or other.start_line is None:
            return True
        return self.start_line <= _end(other) and other.start_line <= _end(self)


@dataclass(frozen=True, slots=True)
class Judged:
    """The value of a metric for one query, with the groups over which it is averaged."""

    repository: str
    category: str
    language: str
    value: float


def target_ranks(
    hits: Sequence[SourceLocation], targets: Iterable[SourceLocation]
) -> tuple[int | None, ...]:
    """Return for each target the 1-based rank of the first hit that overlaps it, or None."""
    return tuple(
        next((rank for rank, hit in enumerate(hits, 1) if hit.overlaps(target)), None)
        for target in targets
    )


def ndcg_at_k(ranks: Sequence[int | None], k: int = 10) -> float:
    """Return the discounted gain of the credited ranks, divided by that of an ideal list; 0 to 1.

    The ideal list begins with min(k, targets) gains; the discount is 1 / log2(rank + 1).
    Järvelin and Kekäläinen, TOIS 2002, with binary gain.
    """
    if not ranks:
        return 0.0
    ideal = sum(_discount(rank) for rank in range(1, min(k, len(ranks)) + 1))
    return sum(_discount(rank) for rank in _credited(ranks, k)) / ideal


def reciprocal_rank(ranks: Sequence[int | None], k: int = 10) -> float:
    """Return 1 / rank of the first credited hit among the first k; 0.0 without one."""
    credited = _credited(ranks, k)
    return 1 / credited[0] if credited else 0.0


def precision_at_k(ranks: Sequence[int | None], k: int = 10) -> float:
    """Return the number of credited hits among the first k, divided by k."""
    return len(_credited(ranks, k)) / k


def recall_at_k(ranks: Sequence[int | None], k: int = 10) -> float:
    """Return the share of targets that one of the first k hits covers."""
    if not ranks:
        return 0.0
    return sum(rank is not None and rank <= k for rank in ranks) / len(ranks)


def average_precision(ranks: Sequence[int | None], k: int = 10) -> float:
    """Return the mean over targets of the precision at each credited rank; missed targets add 0."""
    if not ranks:
        return 0.0
    credited = _credited(ranks, k)
    return sum(found / rank for found, rank in enumerate(credited, 1)) / min(k, len(ranks))


def macro_mean(judged: Iterable[Judged]) -> float:
    """Return the mean over repositories of their mean values; NaN without queries."""
    by_repository: dict[str, list[float]] = defaultdict(list)
    for one in judged:
        by_repository[one.repository].append(one.value)
    return _mean([fmean(values) for values in by_repository.values()])


def macro_means(judged: Iterable[Judged], *, by: str) -> dict[str, float]:
    """Return `macro_mean` per group, by name; `by` is "repository", "category", or "language"."""
    groups: dict[str, list[Judged]] = defaultdict(list)
    for one in judged:
        groups[getattr(one, by)].append(one)
    return {name: macro_mean(group) for name, group in sorted(groups.items())}


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the percentile of the values by nearest rank; NaN without values."""
    if not values:
        return math.nan
    rank = max(1, math.ceil(percent / 100 * len(values)))
    return sorted(values)[rank - 1]


def _end(place: SourceLocation) -> float:
    return math.inf if place.end_line is None else place.end_line


def _credited(ranks: Sequence[int | None], k: int) -> list[int]:
    return sorted({rank for rank in ranks if rank is not None and rank <= k})


def _discount(rank: int) -> float:
    return 1 / math.log2(rank + 1)


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else math.nan
