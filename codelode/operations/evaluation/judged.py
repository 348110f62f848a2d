"""Read judged queries from a file, ask them, and compare the results with earlier ones.

The file is a JSON list of repositories with their queries:

    [{"repo": "acme/http", "language": "python", "queries": [
        {"query": "retry with back-off", "category": "semantic",
         "relevant": ["src/retry.py", {"path": "src/http.py", "start_line": 10, "end_line": 40}],
         "secondary": []}]}]

`repo` is the repository's name in the gateway. Relevant and secondary locations count the same. The
optional `revision` of an entry is the commit to which the locations belong.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from codelode.errors import InvalidSettings
from codelode.operations.evaluation.metrics import (
    Judged,
    SourceLocation,
    average_precision,
    macro_mean,
    macro_means,
    ndcg_at_k,
    percentile,
    precision_at_k,
    recall_at_k,
    reciprocal_rank,
    target_ranks,
)

TOP_K = 10

#: Characters per token in all estimates.
CHARS_PER_TOKEN = 4

Ranks = Sequence[int | None]

METRICS: dict[str, Callable[[Ranks], float]] = {
    "ndcg@10": lambda ranks: ndcg_at_k(ranks, 10),
    "p@5": lambda ranks: precision_at_k(ranks, 5),
    "p@10": lambda ranks: precision_at_k(ranks, 10),
    "r@5": lambda ranks: recall_at_k(ranks, 5),
    "r@10": lambda ranks: recall_at_k(ranks, 10),
    "mrr": lambda ranks: reciprocal_rank(ranks, 10),
    "map": lambda ranks: average_precision(ranks, 10),
}

#: The metric by which results are compared with earlier ones.
GATED = "ndcg@10"


@dataclass(frozen=True, slots=True)
class Query:
    """A query and the locations that answer it."""

    repository: str
    language: str
    category: str
    text: str
    targets: tuple[SourceLocation, ...]
    revision: str = ""  # the commit of the targets; empty: the default branch


@dataclass(frozen=True, slots=True)
class Shown:
    """A location that an agent is shown, and the number of tokens that reading it takes."""

    place: SourceLocation
    tokens: int


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one query."""

    query: Query
    shown: tuple[Shown, ...]
    took_ms: float

    def ranks(self) -> tuple[int | None, ...]:
        return target_ranks([one.place for one in self.shown[:TOP_K]], self.query.targets)

    def tokens_to_first(self) -> int:
        """Return the tokens read up to the first relevant location; all tokens if there is none."""
        found = [rank for rank in self.ranks() if rank is not None]
        return sum(one.tokens for one in self.shown[: min(found, default=TOP_K)])


Ask = Callable[[Query], Sequence[Shown]]


def read(file: Path) -> tuple[Query, ...]:
    """Return the queries of a file. Raises InvalidSettings if it cannot be read or is invalid."""
    try:
        return tuple(_queries(json.loads(file.read_text("utf-8"))))
    except OSError as exc:
        raise InvalidSettings(f"{file}: {exc.strerror}") from exc
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise InvalidSettings(
            f"{file} contains no valid judged queries: {type(exc).__name__} {exc}; "
            "see `codelode eval --help` for the format"
        ) from exc


def ask_all(queries: Iterable[Query], ask: Ask) -> Iterator[Answer]:
    """Yield the answer to each query, in order."""
    for query in queries:
        started = time.perf_counter()
        shown = tuple(ask(query))
        yield Answer(query, shown, 1000 * (time.perf_counter() - started))


def report(answers: Sequence[Answer]) -> dict[str, Any]:
    """Return all metrics, as means over repositories of the mean over their queries."""
    ranks = [answer.ranks() for answer in answers]
    gated = _judged(answers, ranks, METRICS[GATED])
    return {
        "queries": len(answers),
        "repositories": len({answer.query.repository for answer in answers}),
        "metrics": {
            name: round(macro_mean(_judged(answers, ranks, metric)), 4)
            for name, metric in METRICS.items()
        },
        "by_category": _rounded(macro_means(gated, by="category")),
        "by_language": _rounded(macro_means(gated, by="language")),
        "found": round(fmean(any(r is not None for r in of) for of in ranks), 4),
        "tokens_to_first": round(fmean(answer.tokens_to_first() for answer in answers)),
        "latency_ms": {
            f"p{percent}": round(percentile([a.took_ms for a in answers], percent), 2)
            for percent in (50, 95)
        },
    }


def drop(now: Mapping[str, Any], before: Mapping[str, Any]) -> float:
    """Return the share by which the gated metric fell; 0 if it did not."""
    old, new = before["metrics"][GATED], now["metrics"][GATED]
    return max(0.0, (old - new) / old) if old else 0.0


def _queries(entries: Iterable[Mapping[str, Any]]) -> Iterator[Query]:
    for entry in entries:
        for query in entry["queries"]:
            places = (*query["relevant"], *query.get("secondary", ()))
            yield Query(
                repository=entry["repo"],
                language=entry.get("language", ""),
                category=query.get("category", ""),
                text=query["query"],
                targets=tuple(map(_place, places)),
                revision=entry.get("revision", ""),
            )


def _place(given: str | Mapping[str, Any]) -> SourceLocation:
    if isinstance(given, str):
        return SourceLocation(given)
    return SourceLocation(given["path"], given.get("start_line"), given.get("end_line"))


def _judged(
    answers: Sequence[Answer], ranks: Sequence[Ranks], metric: Callable[[Ranks], float]
) -> list[Judged]:
    return [
        Judged(answer.query.repository, answer.query.category, answer.query.language, metric(of))
        for answer, of in zip(answers, ranks, strict=True)
    ]


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 4) for name, value in values.items()}
