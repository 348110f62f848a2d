"""Lay vectors out in two dimensions, so that neighbours stay neighbours: PCA, then t-SNE.

Principal components alone keep few neighbours (docs/measurements.md). t-SNE (van der Maaten and
Hinton, JMLR 2008) moves them so that each point is pulled by its nearest neighbours and pushed by
all others. The push is summed on a grid by fast Fourier transforms (Linderman et al., Nature
Methods 2019), so a step takes time linear in the points. The start is PCA (Kobak and Berens, Nature
Communications 2019) and every random choice has a fixed seed: equal vectors give equal positions.

Libraries for this (openTSNE, umap-learn, pacmap) need scikit-learn or numba, which nothing else in
codelode needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from codelode.vectors import Vectors

Points = npt.NDArray[np.float32]  # (n, 2)
Neighbours = npt.NDArray[np.int64]  # (n, k): rows of the nearest vectors, in any order
Indices = npt.NDArray[np.int64]
Field = npt.NDArray[np.float64]

#: Number of principal components in which neighbours are searched, and of neighbours. With the
#: built-in embedder, 50 of 256 components keep 73 % of the ten nearest neighbours.
COMPONENTS = 50
NEIGHBOURS = 10
#: Number of random trees that propose neighbours, and of vectors in each of their leaves.
TREES, LEAF = 6, 256

#: Number of steps with the neighbours' pull exaggerated, which forms the clusters, and of steps
#: without; and the factor of the exaggeration.
EARLY_STEPS, STEPS = 100, 250
EXAGGERATION = 12.0
#: Share of the last step that is added to the next, in both phases.
EARLY_MOMENTUM, MOMENTUM = 0.5, 0.8

#: Minimum and maximum number of cells of the grid in each direction, and their size. At distance 1,
#: a neighbour's pull has halved.
MIN_CELLS, MAX_CELLS = 32, 256
CELL = 0.5

_SEED = 20
_OVERSAMPLED, _ITERATIONS = 8, 3  # Halko, Martinsson and Tropp, SIAM Review 2011


def layout(vectors: Vectors, *, progress: Callable[[float], None] = lambda _: None) -> Points:
    """Return a position for each vector. `progress` gets the share of the work that is done."""
    if len(vectors) <= NEIGHBOURS:
        return _circle(len(vectors))
    random = np.random.default_rng(_SEED)
    components = principal(vectors, random)
    found = neighbours(components, random)
    progress(0.1)
    return _spread(components[:, :2], found, lambda share: progress(0.1 + 0.9 * share))


def principal(vectors: Vectors, random: np.random.Generator) -> Vectors:
    """Return the vectors in their principal components, by a randomised decomposition."""
    centred = vectors - vectors.mean(axis=0)
    wanted = min(COMPONENTS, *centred.shape)
    width = min(wanted + _OVERSAMPLED, centred.shape[1])
    basis = random.standard_normal((centred.shape[1], width), np.float32)
    for _ in range(_ITERATIONS):
        basis, _ = np.linalg.qr(centred.T @ (centred @ basis))
    left, sizes, _ = np.linalg.svd(centred @ basis, full_matrices=False)
    return np.ascontiguousarray((left * sizes)[:, :wanted], np.float32)


def neighbours(vectors: Vectors, random: np.random.Generator) -> Neighbours:
    """Return approximately the NEIGHBOURS nearest neighbours of each vector.

    Each tree splits the vectors by random directions into leaves. Within a leaf, all are compared.
    """
    best = np.empty((len(vectors), 0), np.int64)
    distances = np.empty((len(vectors), 0), np.float32)
    for _ in range(TREES):
        found, far = _within_leaves(vectors, random)
        best, distances = _nearest(
            np.concatenate([best, found], axis=1), np.concatenate([distances, far], axis=1)
        )
    return best


def _within_leaves(
    vectors: Vectors, random: np.random.Generator
) -> tuple[Neighbours, npt.NDArray[np.float32]]:
    found = np.empty((len(vectors), NEIGHBOURS), np.int64)
    far = np.empty((len(vectors), NEIGHBOURS), np.float32)
    for rows in _leaves(vectors, np.arange(len(vectors)), random):
        inside = vectors[rows]
        sizes = (inside * inside).sum(axis=1)
        distances = sizes[:, None] + sizes - 2 * inside @ inside.T
        np.fill_diagonal(distances, np.inf)
        nearest = np.argpartition(distances, NEIGHBOURS - 1, axis=1)[:, :NEIGHBOURS]
        found[rows], far[rows] = rows[nearest], np.take_along_axis(distances, nearest, axis=1)
    return found, far


def _leaves(vectors: Vectors, rows: Indices, random: np.random.Generator) -> Iterator[Indices]:
    """Divide the rows into leaves of more than NEIGHBOURS and at most LEAF rows."""
    if len(rows) <= LEAF:
        yield rows
        return
    direction = random.standard_normal(vectors.shape[1], np.float32)
    half = len(rows) // 2
    order = np.argpartition(vectors[rows] @ direction, half)
    yield from _leaves(vectors, rows[order[:half]], random)
    yield from _leaves(vectors, rows[order[half:]], random)


def _nearest(
    found: Neighbours, distances: npt.NDArray[np.float32]
) -> tuple[Neighbours, npt.NDArray[np.float32]]:
    """Return the nearest distinct neighbours among the proposals of several trees."""
    order = np.argsort(found, axis=1, kind="stable")
    found = np.take_along_axis(found, order, axis=1)
    distances = np.take_along_axis(distances, order, axis=1)
    distances[:, 1:][found[:, 1:] == found[:, :-1]] = np.inf
    order = np.argpartition(distances, NEIGHBOURS - 1, axis=1)[:, :NEIGHBOURS]
    return np.take_along_axis(found, order, axis=1), np.take_along_axis(distances, order, axis=1)


def _spread(start: Points, found: Neighbours, progress: Callable[[float], None]) -> Points:
    """Move the points until their neighbours are near."""
    at = (start / max(float(start.std()), 1e-9) * 1e-2).astype(np.float32)
    last = np.zeros_like(at)
    rate = np.float32(4 * len(at) / EXAGGERATION)  # Belkina et al., 2019
    for step in range(EARLY_STEPS + STEPS):
        is_early = step < EARLY_STEPS
        force = _pull(at, found) * (EXAGGERATION if is_early else 1.0) + _push(at)
        last = (EARLY_MOMENTUM if is_early else MOMENTUM) * last + rate * force
        at = at + last - last.mean(axis=0)
        progress((step + 1) / (EARLY_STEPS + STEPS))
    return np.asarray(at - at.mean(axis=0), np.float32)


def _pull(at: Points, found: Neighbours) -> Points:
    """Return the force of the nearest neighbours on each point, and of each point on them."""
    away = at[:, None] - at[found]
    forces = away / (1 + (away * away).sum(axis=2))[:, :, None]
    total = -forces.sum(axis=1)
    targets = found.ravel()
    for axis in (0, 1):
        total[:, axis] += np.bincount(targets, forces[:, :, axis].ravel(), len(at))
    return np.asarray(total / (2 * found.size), np.float32)


def _push(at: Points) -> Points:
    """Return the force of all other points on each point."""
    grid = _Grid.of(at)
    ones = grid.charge(np.ones(len(at), np.float32))
    total = grid.potential(ones, grid.kernel(1)).sum() - len(at)
    squared = grid.kernel(2)
    near = grid.potential(ones, squared)
    force = np.empty_like(at)
    for axis in (0, 1):
        moment = grid.potential(grid.charge(at[:, axis]), squared)
        force[:, axis] = (at[:, axis] * near - moment) / total
    return force


class _Grid:
    """Charges at points, spread over the four nearest nodes of a square grid."""

    def __init__(self, cells: int, step: float, nodes: Indices, weights: Field) -> None:
        self._cells, self._step, self._nodes, self._weights = cells, step, nodes, weights

    @classmethod
    def of(cls, at: Points) -> _Grid:
        low = at.min(axis=0)
        span = float((at.max(axis=0) - low).max()) + 1e-6
        cells = int(np.clip(-(-span // CELL // 32) * 32, MIN_CELLS, MAX_CELLS))
        step = span / (cells - 2)
        place = (at - low) / step
        corner = place.astype(np.int64)
        inside = place - corner
        x, y = np.stack([1 - inside, inside])[:, :, 0], np.stack([1 - inside, inside])[:, :, 1]
        nodes = [(corner[:, 0] + i) * cells + corner[:, 1] + j for i in (0, 1) for j in (0, 1)]
        weights = [x[i] * y[j] for i in (0, 1) for j in (0, 1)]
        return cls(cells, step, np.stack(nodes), np.stack(weights).astype(np.float64))

    def kernel(self, power: int) -> npt.NDArray[np.complex128]:
        """Return the transform of 1 / (1 + distance²) ** power on a grid of twice the size."""
        steps = np.arange(2 * self._cells)
        far = (np.minimum(steps, 2 * self._cells - steps) * self._step) ** 2
        return np.fft.rfft2((1 + far[:, None] + far) ** -float(power))

    def charge(self, values: npt.NDArray[np.float32]) -> Field:
        """Return the values, one for each point, spread over the nodes of the grid."""
        given = (self._weights * values).ravel()
        found = np.bincount(self._nodes.ravel(), given, self._cells**2)
        return found.reshape(self._cells, self._cells).astype(np.float64)

    def potential(self, charges: Field, kernel: npt.NDArray[np.complex128]) -> Field:
        """Return the sum of the charges, weighted by the kernel, at each point."""
        size = (2 * self._cells, 2 * self._cells)
        summed = np.fft.irfft2(np.fft.rfft2(charges, size) * kernel, size)
        inside = summed[: self._cells, : self._cells].ravel()
        found: Field = (inside[self._nodes] * self._weights).sum(axis=0)
        return found


def _circle(count: int) -> Points:
    angles = np.arange(count) * (2 * np.pi / max(count, 1))
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
