"""Measure how many neighbours of chunks a map keeps, and the time to make it.

    python tests/bench/map.py DATA_FOLDER REPOSITORY…

The folder is that of a `codelode up` with the embedded store, which may run. The second layout has
copies of the chunks, with noise added to their vectors: the maximum number that a map shows.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import numpy.typing as npt

from codelode.backends import registry
from codelode.chunk_map import MAX_POINTS
from codelode.model import DEFAULT_REF, RepositoryName
from codelode.settings import load
from codelode.vectors import Vectors
from workers.mapping.layout import NEIGHBOURS, layout, principal

SAMPLE = 2_000
NOISE = 0.02


def read(folder: Path, names: list[str]) -> Vectors:
    with closing(registry.inventory(load(data=folder))) as inventory:
        repositories = [RepositoryName(name) for name in names]
        found = inventory.vectors(repositories, DEFAULT_REF, most=MAX_POINTS)
        vectors = np.stack([one.vector for one in found])
    unit: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


def nearest(points: npt.NDArray[np.float32], rows: npt.NDArray[np.int64]) -> list[set[int]]:
    """Return the exact nearest neighbours of each of the rows."""
    far = (points * points).sum(axis=1) - 2 * points[rows] @ points.T
    far[np.arange(len(rows)), rows] = np.inf
    return [{*row} for row in np.argpartition(far, NEIGHBOURS, axis=1)[:, :NEIGHBOURS].tolist()]


def kept(vectors: Vectors, points: npt.NDArray[np.float32]) -> float:
    chosen = np.random.default_rng(0).choice(len(vectors), min(SAMPLE, len(vectors)), replace=False)
    pairs = zip(nearest(vectors, chosen), nearest(points, chosen), strict=True)
    return float(np.mean([len(one & other) / NEIGHBOURS for one, other in pairs]))


def timed(vectors: Vectors) -> npt.NDArray[np.float32]:
    processor, wall = time.process_time(), time.perf_counter()
    points = layout(vectors)
    took_s, clock_s = time.process_time() - processor, time.perf_counter() - wall
    print(f"layout of {len(vectors):,} chunks: {took_s:.1f} s of processor time, {clock_s:.1f} s")
    return points


def main(folder: str, *names: str) -> None:
    print(f"load {os.getloadavg()[0]:.1f}, OMP_NUM_THREADS={os.environ.get('OMP_NUM_THREADS')}")
    vectors = read(Path(folder), [*names])
    components = principal(vectors, np.random.default_rng(0))[:, :2]
    print(f"{NEIGHBOURS} nearest kept by two principal components: {kept(vectors, components):.3f}")
    print(f"{NEIGHBOURS} nearest kept by the map: {kept(vectors, timed(vectors)):.3f}")
    random = np.random.default_rng(0)
    rows = np.arange(MAX_POINTS) % len(vectors)
    timed(
        vectors[rows] + random.standard_normal((MAX_POINTS, vectors.shape[1]), np.float32) * NOISE
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
