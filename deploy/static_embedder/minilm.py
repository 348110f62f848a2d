"""Compute the vectors of words with all-MiniLM-L6-v2 in numpy.

Six layers of BERT take forty lines, and torch would take two gigabytes. The result agrees with the
original up to float32 rounding.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file
from scipy.special import erf
from tokenizers import Tokenizer

Floats = npt.NDArray[np.float32]

HEADS = 12
LAYERS = 6
EPSILON = 1e-12
BATCH = 256


class MiniLM:
    """The encoder in `folder` (model.safetensors, tokenizer.json)."""

    def __init__(self, folder: Path) -> None:
        self._weights = load_file(folder / "model.safetensors")
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    def pieces(self) -> list[str]:
        """Return the word pieces by id; continuations start with `##`."""
        by_piece = self._tokenizer.get_vocab()
        return sorted(by_piece, key=by_piece.__getitem__)

    def embed(self, tokens: Sequence[str]) -> Floats:
        """Return the mean of the last layer over `[CLS] token [SEP]`: (tokens, 384).

        A piece (`##ing`, `the`) is embedded by its id, any other word as its pieces.
        """
        by_length: dict[int, list[int]] = defaultdict(list)
        sequences = [self._ids(token) for token in tokens]
        for row, ids in enumerate(sequences):
            by_length[len(ids)].append(row)
        out = np.zeros((len(tokens), 384), np.float32)
        for rows in by_length.values():
            for start in range(0, len(rows), BATCH):
                batch = rows[start : start + BATCH]
                out[batch] = self._encode(np.array([sequences[row] for row in batch]))
        return out

    def _ids(self, token: str) -> list[int]:
        piece = self._tokenizer.token_to_id(token)
        if piece is None:
            return list(self._tokenizer.encode(token).ids)
        cls, sep = (self._tokenizer.token_to_id(name) for name in ("[CLS]", "[SEP]"))
        return [cls, piece, sep]

    def _encode(self, ids: npt.NDArray[np.int64]) -> Floats:
        w = self._weights
        x = (
            w["embeddings.word_embeddings.weight"][ids]
            + w["embeddings.position_embeddings.weight"][: ids.shape[1]]
            + w["embeddings.token_type_embeddings.weight"][0]
        )
        x = self._norm(x, "embeddings.LayerNorm")
        for layer in range(LAYERS):
            name = f"encoder.layer.{layer}."
            attended = self._linear(self._attend(x, name), name + "attention.output.dense")
            x = self._norm(x + attended, name + "attention.output.LayerNorm")
            hidden = self._linear(x, name + "intermediate.dense")
            hidden = hidden * (0.5 + 0.5 * erf(hidden / np.sqrt(2, dtype=np.float32)))
            x = self._norm(
                x + self._linear(hidden, name + "output.dense"), name + "output.LayerNorm"
            )
        return x.mean(axis=1)

    def _attend(self, x: Floats, name: str) -> Floats:
        batch, length, width = x.shape
        query, key, value = (
            self._linear(x, f"{name}attention.self.{part}")
            .reshape(batch, length, HEADS, width // HEADS)
            .transpose(0, 2, 1, 3)
            for part in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 1, 3, 2) / np.float32(np.sqrt(width // HEADS))
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed = scores / scores.sum(axis=-1, keepdims=True) @ value
        return mixed.transpose(0, 2, 1, 3).reshape(batch, length, width)

    def _linear(self, x: Floats, name: str) -> Floats:
        return x @ self._weights[name + ".weight"].T + self._weights[name + ".bias"]

    def _norm(self, x: Floats, name: str) -> Floats:
        x = x - x.mean(axis=-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + EPSILON)
        return x * self._weights[name + ".weight"] + self._weights[name + ".bias"]
