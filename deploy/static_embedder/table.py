"""Write the table that `codelode.backends.models.static` reads."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

NAME = "codelode-static"


def reduce(vectors: Floats, dim: int) -> Floats:
    """Return the centred vectors along their principal axes, with fixed signs: (n, dim)."""
    centred = (vectors - vectors.mean(axis=0)).astype(np.float64)
    _, axes = np.linalg.eigh(centred.T @ centred)
    axes = axes[:, ::-1][:, :dim]
    axes *= np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(dim)])
    return (centred @ axes).astype(np.float32)


def write(
    folder: Path, *, version: str, tokens: Sequence[str], vectors: Floats, weights: Floats
) -> None:
    """Quantise each vector to int8 and write the table; the scales contain `weights`."""
    folder.mkdir(parents=True, exist_ok=True)
    steps = np.abs(vectors).max(axis=1) / 127
    rows = np.rint(vectors / np.where(steps > 0, steps, 1)[:, None]).astype(np.int8)
    np.save(folder / "rows.npy", rows)
    np.save(folder / "scales.npy", (steps * weights).astype(np.float32))
    (folder / "vocabulary.txt").write_text("".join(f"{token}\n" for token in tokens), "utf-8")
    about = {"name": NAME, "version": version, "sha256": content_hash(folder)}
    (folder / "about.json").write_text(json.dumps(about, indent=2) + "\n", "utf-8")


def content_hash(folder: Path) -> str:
    """Return the SHA-256 of the vocabulary, rows, and scales, in hex."""
    digest = hashlib.sha256()
    for name in ("vocabulary.txt", "rows.npy", "scales.npy"):
        digest.update((folder / name).read_bytes())
    return digest.hexdigest()
