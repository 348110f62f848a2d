"""Measure the contribution of each stage and group of features: NDCG@10 and time with and without.

    python tests/bench/quality.py --eval DIR --corpora FOLDER --data DATA
    python tests/bench/ablation.py --eval DIR --corpora FOLDER --data DATA --table results.md

Runs the pipeline in this process, on the index that `quality.py` left in DATA, once per variant.
A stage is switched off by the options of a request, a group of features by weights of 0. Nothing is
fitted again, so the result is what the default ranking loses without that part. Times are those of
the pipeline alone, one query after the other, without gRPC and cache.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import embedded
import quality

from codelode.access import EVERYTHING
from codelode.backends import registry
from codelode.cli import redis_server
from codelode.model import Filters, RefName, RepositoryName
from codelode.operations.evaluation.metrics import (
    Judged,
    SourceLocation,
    macro_mean,
    macro_means,
    ndcg_at_k,
    percentile,
    target_ranks,
)
from codelode.settings import load
from gateway import pipeline
from gateway.caching_embedder import CachingEmbedder
from gateway.options import Options
from gateway.rank import features, linear
from gateway.rank.features import Feature
from gateway.rank.weights import WEIGHTS
from gateway.service.options import chosen
from gateway.service.requests import GivenOptions
from gateway.state import Backends, SearchQuery

TOP_K = 10
SCOPES = ("root", "whole")

FUSED = {"ranker": "fused", "definition_boost": 1}

COHERENCE = (features.file_similarity, features.file_similarities, features.file_body)
DEFINITIONS = (features.definition, features.mentioned, features.named, features.starts)
PATHS = (features.repository_said, features.folder_said, features.stem_said, features.depth)
KINDS_OF_FILES = (
    features.first,
    features.declaration,
    features.older,
    features.test,
    features.docs,
    features.example,
    features.configuration,
    features.foreign,
)


@dataclass(frozen=True)
class Variant:
    """A way to search: options as a request sets them, and features whose weights are 0."""

    name: str
    options: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    preset: str = ""
    without: tuple[Feature, ...] = ()
    same_file: bool = True  # False: no penalty for further chunks of a file

    def chosen(self) -> Options:
        """Return the options as the gateway reads them from the request."""
        values = {
            f"{stage}.{option}": value
            for stage, given in self.options.items()
            for option, value in given.items()
        }
        return chosen(GivenOptions(self.preset, values))

    @contextmanager
    def in_force(self) -> Iterator[None]:
        with ExitStack() as stack:
            off = dict.fromkeys(self.without, 0.0)
            stack.enter_context(patch.dict(WEIGHTS, off))
            if not self.same_file:
                stack.enter_context(patch.object(linear, "SAME_FILE", 0.0))
            yield


VARIANTS = (
    Variant("default (balanced)"),
    Variant("preset fast", preset="fast"),
    Variant("preset thorough", preset="thorough"),
    Variant("keywords only", {"retrieve": {"alpha": 0.0}, "rank": FUSED}),
    Variant("vectors only", {"retrieve": {"alpha": 1.0}, "rank": FUSED}),
    Variant("both sides fused by rank, no ranker", {"rank": FUSED}),
    Variant(
        "both sides fused by relative score, no ranker",
        {"retrieve": {"fusion": "relative"}, "rank": FUSED},
    ),
    Variant("fused by rank, definitions 2×", {"rank": {"ranker": "fused"}}),
    Variant(
        "ranker without BM25 and cosine of the chunk",
        without=(features.keyword, features.similarity),
    ),
    Variant("ranker without file coherence", without=COHERENCE, same_file=False),
    Variant("ranker that lets one file fill the list", same_file=False),
    Variant("ranker without definitions", without=DEFINITIONS),
    Variant("ranker without names of symbols", without=(features.symbol,)),
    Variant("ranker without names of paths", without=PATHS),
    Variant("ranker without kinds of files", without=KINDS_OF_FILES),
    Variant("window 50", {"retrieve": {"window": 50}}),
    Variant("window 200", {"retrieve": {"window": 200, "max_chunks": 200}}),
    Variant("all candidates of both sides ranked", {"retrieve": {"max_chunks": 200}}),
    Variant("100 candidates ranked", {"retrieve": {"max_chunks": 100}}),
    Variant("50 candidates ranked", {"retrieve": {"max_chunks": 50}}),
    Variant("with synonyms", {"analyze": {"synonyms": True}}),
    Variant("with inferred filters", {"analyze": {"infer_filters": True}}),
    Variant("with centrality by rank", {"rank": {"centrality": "rrf"}}),
    Variant("with centrality by blend", {"rank": {"centrality": "blend"}}),
    Variant("with duplicates collapsed (0.92)", {"rank": {"duplicate_similarity": 0.92}}),
    Variant("with the gate at 0.3", {"rank": {"confidence": 0.3}}),
    Variant("with the gate at 0.5", {"rank": {"confidence": 0.5}}),
    Variant(
        "with related files, imports, whole definitions",
        {"expand": {"related": 10, "imports": 3, "enclosing": True}},
    ),
    Variant("staged", {"retrieve": {"mode": "staged"}}),
    Variant(
        "staged without thresholds",
        {"retrieve": {"mode": "staged", "file_similarity": 0, "chunk_similarity": 0}},
    ),
    Variant(
        "staged at 0.70 and 0.75",
        {"retrieve": {"mode": "staged", "file_similarity": 0.70, "chunk_similarity": 0.75}},
    ),
)


@dataclass(frozen=True)
class Question:
    """An annotated query with its scope."""

    repository: str
    category: str
    text: str
    filters: Filters
    targets: tuple[SourceLocation, ...]


@dataclass(frozen=True)
class Measured:
    """The figures of one variant."""

    name: str
    ndcg: float
    by_category: Mapping[str, float]
    p50_ms: float
    p95_ms: float
    empty: int  # queries without a hit


def main() -> None:
    options = _options()
    entries = quality.judged_entries(options.eval, options.corpora)
    questions = list(_questions(entries, options.scope))
    facts = embedded.machine() | {"scope": options.scope, "queries": len(questions)}
    with _redis(options.data) as url:
        measured = asyncio.run(_all(questions, _chosen(options.only), options.data, url))
    text = _table(measured)
    print(text)
    if options.out:
        rows = [vars(one) for one in measured]
        options.out.write_text(json.dumps({"facts": facts, "variants": rows}, indent=1) + "\n")
    if options.table:
        options.table.write_text(text + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--eval", type=Path, required=True, help="annotations, or their folder")
    parser.add_argument("--data", type=Path, required=True, help="data folder with the index")
    parser.add_argument("--corpora", type=Path, help="as for quality.py: to find the revisions")
    parser.add_argument("--scope", choices=SCOPES, default="root")
    parser.add_argument("--only", help="variants whose names contain one of these, by comma")
    parser.add_argument("--out", type=Path, help="JSON with all figures")
    parser.add_argument("--table", type=Path, help="the table as Markdown")
    return parser.parse_args()


def _chosen(only: str | None) -> list[Variant]:
    wanted = only.split(",") if only else [""]
    return [variant for variant in VARIANTS if any(part in variant.name for part in wanted)]


def _questions(annotations: Sequence[dict[str, Any]], scope: str) -> Iterator[Question]:
    for entry in annotations:
        root = entry.get("benchmark_root") if scope == "root" else None
        filters = Filters(
            repositories=(RepositoryName(entry["repo"]),),
            paths=(f"{root}/**",) if root else (),
            ref=RefName(entry["revision"]),
        )
        for query in entry["queries"]:
            targets = tuple(map(_target, [*query["relevant"], *query["secondary"]]))
            yield Question(entry["repo"], query["category"], query["query"], filters, targets)


def _target(entry: str | dict[str, Any]) -> SourceLocation:
    if isinstance(entry, str):
        return SourceLocation(entry)
    return SourceLocation(entry["path"], entry.get("start_line"), entry.get("end_line"))


@contextmanager
def _redis(data: Path) -> Iterator[str]:
    """Yield the address of a Redis server with the dependency graph in DATA."""
    folder = data / redis_server.FOLDER
    with redis_server.place_in(folder) as place:
        command = redis_server.command(place, binary=redis_server.locate())
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as server:
            try:
                url = redis_server.url(place)
                redis_server.wait_ready(url, is_alive=lambda: server.poll() is None)
                yield url
            finally:
                server.terminate()


async def _all(
    questions: Sequence[Question], variants: Sequence[Variant], data: Path, redis_url: str
) -> list[Measured]:
    settings = load(data=data, redis_url=redis_url)
    backends = Backends(
        registry.chunk_search(settings),
        CachingEmbedder(registry.embedder(settings)),
        registry.graph(settings),
    )
    indexed = [one for one in questions if await _is_indexed(one, backends)]
    if len(indexed) < len(questions):
        missing = len(questions) - len(indexed)
        print(f"{missing} queries about repositories that are not indexed", file=sys.stderr)
    await _measure(variants[0], indexed, backends)  # loads the index, so it is not timed
    measured = []
    for variant in variants:
        measured.append(await _measure(variant, indexed, backends))
        print(_row(measured[-1], measured[0]), file=sys.stderr, flush=True)
    await backends.chunks.close()
    return measured


async def _is_indexed(question: Question, backends: Backends) -> bool:
    query = SearchQuery("a", 1, question.filters, visible=EVERYTHING)
    state, _ = await pipeline.search(query, backends)
    return bool(state.candidates)


async def _measure(variant: Variant, questions: Sequence[Question], backends: Backends) -> Measured:
    options = variant.chosen()
    judged, times, empty = [], [], 0
    with variant.in_force():
        for question in questions:
            started = time.perf_counter()
            query = SearchQuery(question.text, TOP_K, question.filters, options, visible=EVERYTHING)
            state, _ = await pipeline.search(query, backends)
            times.append(1000 * (time.perf_counter() - started))
            places = [
                SourceLocation(h.chunk.path, h.chunk.start_line, h.chunk.end_line)
                for h in state.hits
            ]
            value = ndcg_at_k(target_ranks(places, question.targets))
            judged.append(Judged(question.repository, question.category, "", value))
            empty += not state.hits
    return Measured(
        name=variant.name,
        ndcg=macro_mean(judged),
        by_category=macro_means(judged, by="category"),
        p50_ms=percentile(times, 50),
        p95_ms=percentile(times, 95),
        empty=empty,
    )


def _table(measured: Sequence[Measured]) -> str:
    categories = list(measured[0].by_category)
    header = ["variant", "NDCG@10", "change", *categories, "no hit", "p50 ms", "p95 ms"]
    rule = ["---", *["---:"] * (len(header) - 1)]
    rows = [_row(one, measured[0]) for one in measured]
    return "\n".join([_line(header), _line(rule), *rows])


def _row(one: Measured, default: Measured) -> str:
    return _line(
        [
            one.name,
            f"{one.ndcg:.3f}",
            f"{one.ndcg - default.ndcg:+.3f}" if one is not default else "",
            *(f"{value:.3f}" for value in one.by_category.values()),
            str(one.empty),
            f"{one.p50_ms:.1f}",
            f"{one.p95_ms:.1f}",
        ]
    )


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
