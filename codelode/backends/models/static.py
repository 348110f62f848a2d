"""The built-in embedder: a table of token vectors, no download, no GPU, no transformer.

A text's vector is the sum of its tokens' vectors, each times log(1 + occurrences), at unit
length; tokens of a document's first line, a chunk's path, count more. Tokens are the words inside
identifiers (`tokens.py`), cut into word pieces when the vocabulary lacks them, so
`parseHTTPResponse` and "parse an http response" land close together. The table is distilled from
a sentence transformer and trained on code (`deploy/static_embedder`); the method is that of
model2vec and SIF (Arora, Liang and Ma, ICLR 2017). It is stored as int8 with one float32 scale a
row, which also holds the token's weight.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt

from codelode.errors import Corrupt
from codelode.tokens import MAX_IDENTIFIER_CHARS, Memo, runs, words
from codelode.vectors import Vector, Vectors

TABLE_DIR = Path(__file__).parent / "data" / "static"

#: Maximum number of tokens of a text that count; a chunk has about 300. Bounds the cost of a
#: hostile text.
MAX_TOKENS = 4_096

#: Added to a token's log(1 + occurrences) if it is in the document's first line, which is the path
#: of a chunk. Higher values rank files better and chunks inside a file worse: files rank better up
#: to a value of 3, and functions rank worse for their own documentation from 0 on. With the whole
#: ranker, 1 scores .004 higher than 0.5 on whole repositories, and equally on source folders.
PATH_WEIGHT = 1.0

#: Maximum length of a word, characters. Longer ones are treated as data, as is usual for word
#: pieces.
MAX_WORD_CHARS = 64

#: Number of texts pooled by one matrix product. More texts share more rows; fewer have fewer zeros.
BATCH_TEXTS = 32

#: Number of tokens multiplied at once. A product of 32 × 32 × 256 stays on the calling thread; a
#: larger one wakes the BLAS threads, which on busy cores took 15 times the processor time.
BLOCK_TOKENS = 32

_LOG1P = np.log1p(np.arange(MAX_TOKENS + 1, dtype=np.float32))

#: Longest query that is embedded on the calling thread, characters: 24 µs at the median, 1.4 ms for
#: random letters, which take longest.
AT_ONCE_CHARS = 200

TokenIds = npt.NDArray[np.uint16]


@dataclass(frozen=True, slots=True)
class Table:
    """Token vectors: row i is `rows[i] * scales[i]`."""

    identity: str
    vocabulary: dict[str, int]  # word pieces; continuations start with `##`
    rows: npt.NDArray[np.int8]  # (tokens, dim)
    scales: npt.NDArray[np.float32]  # (tokens,)


class StaticEmbedder:
    """Implements Embedder, QuickEmbedder, and Tokeniser over a table in a folder.

    Safe to share between threads.
    """

    def __init__(self, table_dir: Path = TABLE_DIR) -> None:
        self._table = read_table(table_dir)
        self._packed_ids = Memo(self._split)
        self.identity = self._table.identity
        self.dim = self._table.rows.shape[1]

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Return one row per text, in order; a text without a known token has a zero row."""
        out = np.zeros((len(texts), self.dim), np.float32)
        for start in range(0, len(texts), BATCH_TEXTS):
            batch = texts[start : start + BATCH_TEXTS]
            titles = [self.token_ids(text.partition("\n")[0]) for text in batch]
            ids = [self.token_ids(text) for text in batch]
            out[start : start + len(batch)] = self._pool(ids, titles)
        return out

    def embed_query(self, text: str) -> Vector:
        """Embed a query like a document without a title, in a tenth of the time of `_pool`."""
        ids, occurrences = np.unique(self.token_ids(text), return_counts=True)
        weights = _LOG1P[occurrences] * self._table.scales[ids]
        vector: Vector = weights @ self._table.rows[ids].astype(np.float32)
        return vector / (float(np.linalg.norm(vector)) or 1.0)

    def embed_at_once(self, text: str) -> Vector | None:
        """See `ports.QuickEmbedder`."""
        return self.embed_query(text) if len(text) <= AT_ONCE_CHARS else None

    def token_ids(self, text: str) -> TokenIds:
        """Return the table rows for the tokens of `text`, in order, at most MAX_TOKENS."""
        packed = b"".join(map(self._packed_ids.__getitem__, runs(text)))
        return np.frombuffer(packed, np.uint16)[:MAX_TOKENS]

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of the text, even beyond MAX_TOKENS."""
        packed = map(self._packed_ids.__getitem__, runs(text))
        return sum(map(len, packed)) // np.dtype(np.uint16).itemsize

    def _split(self, run: str) -> bytes:
        """Return the ids of a run as packed uint16: joining bytes is faster than chaining ints."""
        if len(run) > MAX_IDENTIFIER_CHARS:
            return b""
        pieces = (word_pieces(word, self._table.vocabulary) for word in words(run))
        return np.fromiter(chain.from_iterable(pieces), np.uint16).tobytes()

    def _pool(self, texts: Sequence[TokenIds], titles: Sequence[TokenIds]) -> Vectors:
        """Return the normalised sums of the texts' token vectors, as one matrix product.

        In double precision, because the order of the sums depends on the other texts: in single
        precision, the vectors of one text in ten, as half floats, depended on the batch.
        """
        distinct, occurrences = _count(texts, len(self._table.rows))
        counted = _LOG1P[occurrences]
        for text, title in enumerate(titles):
            counted[text, np.searchsorted(distinct, title)] += PATH_WEIGHT
        padded = -(-len(distinct) // BLOCK_TOKENS) * BLOCK_TOKENS
        weights = np.zeros((len(texts), padded), np.float64)
        weights[:, : len(distinct)] = counted * self._table.scales[distinct]
        rows = np.zeros((padded, self.dim), np.float64)
        rows[: len(distinct)] = self._table.rows[distinct]
        blocks = weights.reshape(len(texts), -1, BLOCK_TOKENS).transpose(1, 0, 2)
        sums = (blocks @ rows.reshape(-1, BLOCK_TOKENS, self.dim)).sum(axis=0)
        norms = np.linalg.norm(sums, axis=1, keepdims=True)
        norms[norms == 0] = 1
        vectors: Vectors = (sums / norms).astype(np.float32)
        return vectors


def _count(
    texts: Sequence[TokenIds], tokens: int
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return the distinct tokens of all texts, and their occurrences: (texts, distinct)."""
    ids = np.concatenate(texts)
    present = np.zeros(tokens, bool)
    present[ids] = True
    distinct = np.flatnonzero(present)
    column = np.cumsum(present) - 1
    text = np.repeat(np.arange(len(texts)), [len(one) for one in texts])
    cells = text * len(distinct) + column[ids]
    counted = np.bincount(cells, minlength=len(texts) * len(distinct))
    return distinct, counted.reshape(len(texts), len(distinct))


def word_pieces(word: str, vocabulary: dict[str, int]) -> Iterable[int]:
    """Return the ids of the longest pieces that make up `word`; none if a piece is missing.

    `embeddings` → `embed ##ding ##s`. Greedy from the left (WordPiece, Wu et al. 2016), after
    accents are stripped.
    """
    if not word.isascii():
        decomposed = unicodedata.normalize("NFD", word)
        word = "".join(char for char in decomposed if not unicodedata.combining(char))
    if len(word) > MAX_WORD_CHARS:
        return ()
    ids = []
    start = 0
    while start < len(word):
        prefix = "##" if start else ""
        ends = range(len(word), start, -1)
        end = next((end for end in ends if prefix + word[start:end] in vocabulary), None)
        if end is None:
            return ()
        ids.append(vocabulary[prefix + word[start:end]])
        start = end
    return ids


def read_table(folder: Path) -> Table:
    """Return the table in `folder` with its rows memory-mapped. Raises Corrupt if it is damaged."""
    try:
        about = json.loads((folder / "about.json").read_text("utf-8"))
        pieces = (folder / "vocabulary.txt").read_text("utf-8").split("\n")[:-1]
        rows = np.load(folder / "rows.npy", mmap_mode="r")
        scales = np.load(folder / "scales.npy")
    except (OSError, ValueError) as exc:
        raise Corrupt(f"embedding table {folder}: {exc}; install codelode again") from exc
    if not len(pieces) == len(rows) == len(scales):
        raise Corrupt(f"embedding table {folder}: its files disagree; install codelode again")
    identity = f"{about['name']}-{about['version']}-{rows.shape[1]}-{about['sha256'][:12]}"
    return Table(
        identity=identity,
        vocabulary={piece: row for row, piece in enumerate(pieces)},
        rows=rows,
        scales=scales,
    )
