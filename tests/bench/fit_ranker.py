"""Fit the ranker's weights to annotated queries, and evaluate them on other repositories.

    python tests/bench/quality.py --eval DIR --corpora FOLDER --data DATA
    python tests/bench/fit_ranker.py --eval DIR --corpora FOLDER --data DATA

Takes the candidates of every query from the index that `quality.py` left in DATA. Each query is
asked in its source folder, in the whole repository, and among all repositories, where it counts
less, because such questions seldom name their project.

The loss is listwise: for each target of a query, the negative log probability that it comes first
among the candidates that are not targets. Repositories have equal weight. A file is represented by
its best chunk, because the ranking penalises the others; counting every chunk lost .004. There are
few features, little regularisation, and no interactions: `gateway/rank/weights.py` has only
features that improve the ranking of repositories that were left out. The program prints the
cross-validated figure, which is the one to quote, and the weights, to be copied by hand after
rounding.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import quality

from codelode.access import EVERYTHING
from codelode.backends import registry
from codelode.model import Candidate, Filters, RefName, RepositoryName
from codelode.operations.evaluation.metrics import (
    Judged,
    SourceLocation,
    macro_mean,
    macro_means,
    ndcg_at_k,
    target_ranks,
)
from codelode.settings import load
from gateway.analyze import analyze
from gateway.rank.features import configuration, foreign
from gateway.rank.linear import same_file
from gateway.rank.query_group import QueryGroup
from gateway.rank.weights import WEIGHTS
from gateway.retrieve import retrieve
from gateway.state import Backends, SearchQuery, SearchState

Matrix = npt.NDArray[np.float64]
Array = npt.NDArray[np.float64]
Starts = npt.NDArray[np.int64]

#: Weight of a query in the fit, by the scope in which it is asked.
SCOPES = {"root": 1.0, "whole": 1.0, "all": 0.3}

#: Features with weights by hand, which are not fitted: those repositories have too few such files.
BY_HAND = (configuration, foreign)

FITTED = tuple(feature for feature in WEIGHTS if feature not in BY_HAND)

TOP_K = 10
FOLDS = 6
SEEDS = (0, 1, 2, 3)
#: Regularisation: 1e-4 lost .003, and 1e-2 lost .000 to .008.
L2 = 3e-3
MAX_STEPS = 25
#: Number of times that the best chunk of each file is chosen again.
ROUNDS = 2
#: Maximum change of a weight in a step, because the first steps overshoot.
MAX_CHANGE = 3.0


@dataclass(frozen=True)
class Case:
    """A query in a scope, with the features of its candidates."""

    repository: str
    category: str
    scope: str
    targets: tuple[SourceLocation, ...]
    places: list[SourceLocation]
    files: npt.NDArray[np.int64]  # (candidates,), the number of the file of each
    features: Matrix  # (candidates, features)

    def ndcg(self, weights: Array) -> float:
        if not self.places:
            return 0.0
        scores = self.features @ weights
        order = np.argsort(-(scores + same_file(scores, self.files)), kind="stable")[:TOP_K]
        return ndcg_at_k(target_ranks([self.places[at] for at in order], self.targets))


@dataclass(frozen=True)
class Contest:
    """One target, compared with all candidates that belong to no target."""

    repository: str
    scope: str
    files: npt.NDArray[np.int64]  # (chunks,)
    features: Matrix  # (chunks, features)
    is_target: npt.NDArray[np.bool_]  # (chunks,)

    def by_best_chunks(self, weights: Array) -> Contest:
        """Keep only the best chunk of each file; the chunks of the target count separately."""
        best: dict[tuple[int, bool], int] = {}
        for at in np.argsort(-(self.features @ weights), kind="stable").tolist():
            best.setdefault((int(self.files[at]), bool(self.is_target[at])), at)
        kept = sorted(best.values())
        return replace(
            self,
            files=self.files[kept],
            features=self.features[kept],
            is_target=self.is_target[kept],
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--eval", type=Path, required=True, help="annotations, or their folder")
    parser.add_argument("--data", type=Path, required=True, help="data folder with the index")
    parser.add_argument("--corpora", type=Path, help="as for quality.py: to find the revisions")
    options = parser.parse_args()
    entries = quality.judged_entries(options.eval, options.corpora)
    cases = asyncio.run(_cases(entries, options.data))
    print(f"{len(cases)} queries of {len(_repositories(cases))} repositories")
    _report("now", cases, lambda _: np.array([WEIGHTS[feature] for feature in FITTED]))
    _cross_validate(cases)
    for feature, weight in zip(FITTED, _fit(_contests(cases)), strict=True):
        print(f"{feature.__name__:16} {WEIGHTS[feature]:6.2f} → {weight:6.2f}")


async def _cases(annotations: Sequence[dict[str, Any]], data: Path) -> list[Case]:
    settings = load(data=data)
    backends = Backends(registry.chunk_search(settings), registry.embedder(settings))
    found = [
        await _case(entry, query, scope, backends)
        for entry in annotations
        for query in entry["queries"]
        for scope in SCOPES
    ]
    await backends.chunks.close()
    indexed = {case.repository for case in found if case.places}
    for name in {case.repository for case in found} - indexed:
        print(f"{name}: not indexed at its annotated revision; left out")
    return [case for case in found if case.repository in indexed]


async def _case(
    entry: dict[str, Any], query: dict[str, Any], scope: str, backends: Backends
) -> Case:
    state = SearchState(
        SearchQuery(query["query"], TOP_K, _filters(entry, scope), visible=EVERYTHING)
    )
    state = await retrieve(await analyze(state, backends), backends)
    candidates = state.candidates
    group = QueryGroup(state.analysis, candidates)
    columns = [feature(group) for feature in FITTED] if candidates else []
    return Case(
        repository=entry["repo"],
        category=query["category"],
        scope=scope,
        targets=tuple(map(_target, [*query["relevant"], *query["secondary"]])),
        places=[_place(candidate, entry["repo"]) for candidate in candidates],
        files=group.files,
        features=np.stack(columns, axis=1) if columns else np.zeros((0, len(FITTED))),
    )


def _filters(entry: dict[str, Any], scope: str) -> Filters:
    if scope == "all":
        return Filters()
    root = entry.get("benchmark_root") if scope == "root" else None
    return Filters(
        repositories=(RepositoryName(entry["repo"]),),
        paths=(f"{root}/**",) if root else (),
        ref=RefName(entry["revision"]),
    )


def _target(entry: str | dict[str, Any]) -> SourceLocation:
    if isinstance(entry, str):
        return SourceLocation(entry)
    return SourceLocation(entry["path"], entry.get("start_line"), entry.get("end_line"))


def _place(candidate: Candidate, repository: str) -> SourceLocation:
    """Return the location of a candidate; one in another repository matches no target."""
    chunk = candidate.chunk
    path = chunk.path if chunk.repository == repository else f"{chunk.repository}:{chunk.path}"
    return SourceLocation(path, chunk.start_line, chunk.end_line)


def _repositories(cases: Sequence[Case]) -> list[str]:
    return sorted({case.repository for case in cases})


def _cross_validate(cases: Sequence[Case]) -> None:
    """Print the results of several splits; weights are judged on repositories that are left out."""
    contests = list(_contests(cases))
    for seed in SEEDS:
        weights = {
            repository: fitted
            for left_out in _folds(_repositories(cases), seed)
            for fitted in [
                _fit(contest for contest in contests if contest.repository not in left_out)
            ]
            for repository in left_out
        }
        _report(f"cross-validated, split {seed}", cases, _by_repository(weights))


def _by_repository(weights: Mapping[str, Array]) -> Callable[[Case], Array]:
    return lambda case: weights[case.repository]


def _folds(repositories: Sequence[str], seed: int) -> list[Collection[str]]:
    shuffled = list(repositories)
    np.random.RandomState(seed).shuffle(shuffled)
    return [set(shuffled[fold::FOLDS]) for fold in range(FOLDS)]


def _report(label: str, cases: Sequence[Case], weights: Callable[[Case], Array]) -> None:
    for scope in SCOPES:
        judged = [
            Judged(case.repository, case.category, "", case.ndcg(weights(case)))
            for case in cases
            if case.scope == scope
        ]
        groups = " ".join(f"{k} {v:.3f}" for k, v in macro_means(judged, by="category").items())
        print(f"{label}: {scope:5} NDCG@10 {macro_mean(judged):.4f}  {groups}", flush=True)


def _contests(cases: Sequence[Case]) -> Iterator[Contest]:
    for case in cases:
        hit_by = np.array([[p.overlaps(t) for p in case.places] for t in case.targets], bool)
        for mine in hit_by:
            if mine.any():
                in_play = mine | ~hit_by.any(axis=0)
                yield Contest(
                    repository=case.repository,
                    scope=case.scope,
                    files=case.files[in_play],
                    features=case.features[in_play],
                    is_target=mine[in_play],
                )


def _fit(contests: Iterable[Contest]) -> Array:
    """Return the weights of least loss: fitted to all chunks, then to the best of each file."""
    every = list(contests)
    weights = _least_loss(every)
    for _ in range(ROUNDS):
        weights = _least_loss([contest.by_best_chunks(weights) for contest in every])
    return weights


def _least_loss(played: Sequence[Contest]) -> Array:
    """Return the weights of least loss, by Newton steps on its convex part."""
    rows = np.concatenate([contest.features for contest in played])
    wanted = np.concatenate([contest.is_target for contest in played]).astype(float)
    sizes = [len(contest.features) for contest in played]
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    number = np.repeat(np.arange(len(played)), sizes)
    share = _shares(played)
    weights = np.zeros(rows.shape[1])
    for _ in range(MAX_STEPS):
        first = _softmax(rows @ weights, np.ones(len(rows)), starts, number)
        among_wanted = _softmax(rows @ weights, wanted, starts, number)
        gradient = ((first - among_wanted) * share[number]) @ rows + L2 * weights
        weighted = first * share[number]
        means = np.add.reduceat(rows * first[:, None], starts)
        hessian = (rows * weighted[:, None]).T @ rows - (means * share[:, None]).T @ means
        change = np.linalg.solve(hessian + L2 * np.eye(len(weights)), gradient)
        weights -= change * min(1.0, MAX_CHANGE / np.abs(change).max())
        if np.abs(change).max() < 1e-3:
            break
    return weights


def _shares(contests: Sequence[Contest]) -> Array:
    """Return the weight of each contest, such that repositories have equal weight."""
    _, where = np.unique([contest.repository for contest in contests], return_inverse=True)
    counts = np.array([SCOPES[contest.scope] for contest in contests])
    of_repository = np.bincount(where, counts)
    return counts / of_repository[where] / len(of_repository)


def _softmax(scores: Array, mask: Array, starts: Starts, number: Starts) -> Array:
    """Return the probabilities within each contest, among the rows of the mask."""
    best = np.maximum.reduceat(scores, starts)
    lifted = np.exp(scores - best[number]) * mask
    return lifted / np.maximum(np.add.reduceat(lifted, starts), 1e-300)[number]


if __name__ == "__main__":
    main()
