"""Train the table: move each sentence nearer to its code than to the other code of the batch.

The vector of a text is X diag(exp(w)) E, normalised. X holds log(1 + occurrences), with more for
tokens of a title; E holds the vectors, and w one log weight per token. The loss is InfoNCE in both
directions with in-batch negatives. The gradients of two linear maps and a softmax are short, so
they are written out in numpy.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

log = logging.getLogger("build.train")

Floats = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]

BATCH = 1_024
SCALE = 20.0
EPOCHS = 4

#: The path weight in training, smaller than in use. Training with 1, more pairs, and the names that
#: a chunk defines next to its path gave .695 in retrieval instead of .703; the cause was not
#: examined.
PATH_WEIGHT = 0.5
VECTOR_RATE = 2e-3
WEIGHT_RATE = 5e-3
BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8


class Adam:
    """Adam over the rows in a batch (Kingma and Ba, ICLR 2015); other rows are not updated."""

    def __init__(self, values: Floats, rate: float) -> None:
        self._values = values
        self._rate = rate
        self._mean = np.zeros_like(values)
        self._square = np.zeros_like(values)
        self._steps = np.zeros(len(values), np.int64)

    def step(self, rows: Ids, gradient: Floats, decay: float) -> None:
        self._steps[rows] += 1
        age = self._steps[rows].reshape(-1, *[1] * (gradient.ndim - 1)).astype(np.float32)
        mean = BETA_1 * self._mean[rows] + (1 - BETA_1) * gradient
        square = BETA_2 * self._square[rows] + (1 - BETA_2) * gradient * gradient
        self._mean[rows], self._square[rows] = mean, square
        change = (mean / (1 - BETA_1**age)) / (np.sqrt(square / (1 - BETA_2**age)) + EPSILON)
        self._values[rows] -= np.float32(self._rate * decay) * change


@dataclass(frozen=True, slots=True)
class Texts:
    """Token ids of the two sides of each pair."""

    sentences: Sequence[Ids]
    codes: Sequence[Ids]
    titles: Sequence[Ids]  # of the codes: their first lines


def train(
    vectors: Floats, weights: Floats, texts: Texts, *, seed: int = 0
) -> tuple[Floats, Floats]:
    """Return the vectors and weights after EPOCHS over the pairs; the arguments do not change."""
    vectors, logs = vectors.copy(), np.log(np.maximum(weights, 1e-3)).astype(np.float32)
    sentences, codes, titles = (
        bags(side, len(vectors)) for side in (texts.sentences, texts.codes, texts.titles)
    )
    titles.data[:] = PATH_WEIGHT
    codes = (codes + titles).tocsr()
    steps = Adam(vectors, VECTOR_RATE), Adam(logs, WEIGHT_RATE)
    random = np.random.default_rng(seed)
    total = EPOCHS * (len(texts.codes) // BATCH)
    done = 0
    for epoch in range(EPOCHS):
        order = random.permutation(len(texts.codes))
        losses = []
        for start in range(0, len(order) - BATCH + 1, BATCH):
            batch = order[start : start + BATCH]
            pair = [_compact(side[batch]) for side in (sentences, codes)]
            rows = np.union1d(pair[0].indices, pair[1].indices)
            loss, moment = gradient(
                vectors[rows], np.exp(logs[rows]), *(side[:, rows] for side in pair)
            )
            weight = np.exp(logs[rows])
            decay = 1 - done / total
            steps[1].step(rows, weight * (moment * vectors[rows]).sum(axis=1), decay)
            steps[0].step(rows, weight[:, None] * moment, decay)
            losses.append(loss)
            done += 1
        log.info("epoch %d: loss %.3f", epoch + 1, np.mean(losses))
    return vectors, np.exp(logs)


def bags(texts: Sequence[Ids], tokens: int) -> csr_array:
    """Return log(1 + occurrences) of each token in each text: (texts, tokens)."""
    counted = [np.unique(ids, return_counts=True) for ids in texts]
    starts = np.cumsum([0, *(len(ids) for ids, _ in counted)])
    values = np.log1p(np.concatenate([counts for _, counts in counted])).astype(np.float32)
    ids = np.concatenate([ids for ids, _ in counted])
    return csr_array((values, ids, starts), shape=(len(texts), tokens))


def gradient(
    vectors: Floats, weight: Floats, sentences: csr_array, codes: csr_array
) -> tuple[float, Floats]:
    """Return the loss and its gradient with respect to `diag(weight) vectors`: (tokens, dim)."""
    weighted = weight[:, None] * vectors
    left, left_norm = _unit(sentences @ weighted)
    right, right_norm = _unit(codes @ weighted)
    scores = np.float32(SCALE) * (left @ right.T)
    forward, backward = _softmax(scores), _softmax(scores.T).T
    own = np.arange(len(scores))
    loss = -np.log(forward[own, own] * backward[own, own] + 1e-20).mean() / 2
    error = (forward + backward) * np.float32(SCALE / 2 / len(scores))
    error[own, own] -= np.float32(SCALE / len(scores))
    by_left = _through_unit(error @ right, left, left_norm)
    by_right = _through_unit(error.T @ left, right, right_norm)
    return float(loss), sentences.T @ by_left + codes.T @ by_right


def _compact(batch: csr_array) -> csr_array:
    return csr_array((batch.data, batch.indices, batch.indptr), shape=batch.shape)


def _unit(sums: Floats) -> tuple[Floats, Floats]:
    norms = np.linalg.norm(sums, axis=1, keepdims=True) + np.float32(1e-9)
    return sums / norms, norms


def _through_unit(gradient: Floats, unit: Floats, norms: Floats) -> Floats:
    return (gradient - (gradient * unit).sum(axis=1, keepdims=True) * unit) / norms


def _softmax(scores: Floats) -> Floats:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)
