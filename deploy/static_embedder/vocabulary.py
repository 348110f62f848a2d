"""Choose the tokens of the table, and compute how rare each is in code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from codelode.backends.models.static import MAX_WORD_CHARS, word_pieces
from codelode.tokens import MAX_IDENTIFIER_CHARS, Memo, runs, words

#: Number of rows of the table: with 256 int8 dimensions and the vocabulary, it takes 9 MB.
ROWS = 32_768

#: Words in fewer chunks are ignored, because so few occurrences are not significant.
MIN_CHUNKS = 8

CHUNK_LINES = 50


def document_frequencies(texts: Iterable[str]) -> tuple[Counter[str], int]:
    """Return the number of 50-line windows in which each word occurs, and the number of windows."""
    seen: Counter[str] = Counter()
    chunks = 0
    split = Memo(_words)
    for text in texts:
        lines = text.split("\n")
        for start in range(0, len(lines), CHUNK_LINES):
            names = set(runs("\n".join(lines[start : start + CHUNK_LINES])))
            seen.update(set(chain.from_iterable(map(split.__getitem__, names))))
            chunks += 1
    return seen, chunks


def choose(pieces: Sequence[str], frequencies: Counter[str]) -> list[str]:
    """Return ROWS tokens: single characters, then the model's pieces and whole words by frequency.

    The frequency of a piece is the number of chunks with the words that need it. Words with digits
    are split into pieces, and scripts that the model hardly knows are left out.
    """
    usable = [piece for piece in pieces if _is_usable(piece)]
    known = {piece: row for row, piece in enumerate(usable)}
    needed: Counter[str] = Counter()
    whole: Counter[str] = Counter()
    for word, chunks in frequencies.items():
        if chunks < MIN_CHUNKS or len(word) > MAX_WORD_CHARS or not word.isascii():
            continue
        split = [usable[row] for row in word_pieces(word, known)]
        needed.update(dict.fromkeys(split, chunks))
        if len(split) > 1 and word.isalpha():
            whole[word] = chunks
    alphabet = {piece for piece in usable if len(piece.removeprefix("##")) == 1}
    ranked = sorted(
        ((chunks, token) for token, chunks in (needed + whole).items() if token not in alphabet),
        key=lambda pair: (-pair[0], pair[1]),
    )
    chosen = [token for _, token in ranked[: ROWS - len(alphabet)]]
    rest = [piece for piece in usable if piece not in alphabet and piece not in needed]
    return sorted(alphabet) + chosen + rest[: ROWS - len(alphabet) - len(chosen)]


def rarity(
    tokens: Sequence[str], frequencies: Counter[str], chunks: int
) -> npt.NDArray[np.float32]:
    """Return, for each token, the root of its inverse document frequency over chunks: (tokens,).

    Without the root, rare tokens outweigh all others: NDCG@10 is 0.56 instead of 0.59 before
    training.
    """
    known = {token: row for row, token in enumerate(tokens)}
    seen = np.zeros(len(tokens))
    for word, count in frequencies.items():
        for row in set(word_pieces(word, known)):
            seen[row] += count
    return np.sqrt(np.log((chunks + 1) / (np.minimum(seen, chunks) + 1))).astype(np.float32)


def _words(run: str) -> frozenset[str]:
    return frozenset(words(run)) if len(run) <= MAX_IDENTIFIER_CHARS else frozenset()


def _is_usable(piece: str) -> bool:
    bare = piece.removeprefix("##")
    return bare.isascii() and bare.isalnum()
