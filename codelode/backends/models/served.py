"""The common part of all embedding models behind a server.

The server gets texts in batches of a bounded size and nothing it says is believed unchecked: a
wrong number of rows, a wrong dimension, NaN or infinity would poison the index for ever after.
A text without a word is a zero row and never sent. Its vectors are cut to unit length here, so
that every embedder's can be compared by dot product.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import structlog

from codelode import tokens
from codelode.backends.models.http import sendable
from codelode.backends.models.remote import OPEN_S, Breaker, Garbled, Remote, RetryPolicy
from codelode.errors import InvalidSettings, Rejected, SchemaMismatch, TimedOut, Unavailable
from codelode.vectors import Vector, Vectors

#: A longer text is cut, characters: several times the largest chunk, and still less than the
#: context of every model in the table below once it is tokenised.
MAX_TEXT_CHARS = 8_000

#: Characters of code per token, low, so that a batch is smaller than its budget rather than larger.
CHARS_PER_TOKEN = 3

#: Texts per call; servers of this interface refuse more than 2,048.
MAX_BATCH_TEXTS = 512

#: How often it is asked whether the weights are still the same, seconds.
RECHECK_S = 60.0

#: What is embedded to learn the dimensions.
_PROBE = "dimension"


@dataclass(frozen=True, slots=True)
class Instructions:
    """The prefixes of documents and queries that a model was trained with."""

    document: str = ""
    query: str = ""


_log = structlog.get_logger(__name__)

_SEARCHING = Instructions(query="Represent this sentence for searching relevant passages: ")

#: By the longest prefix of the model's name, from the models' own cards.
INSTRUCTIONS = {
    "nomic-embed-text": Instructions("search_document: ", "search_query: "),
    "nomic-embed-code": Instructions(query="Represent this query for searching relevant code: "),
    "mxbai-embed": _SEARCHING,
    "snowflake-arctic-embed": _SEARCHING,
    "snowflake-arctic-embed2": Instructions(query="query: "),
    "bge-small-en": _SEARCHING,
    "bge-base-en": _SEARCHING,
    "bge-large-en": _SEARCHING,
    "bge-large": _SEARCHING,
    "e5-": Instructions("passage: ", "query: "),
    "multilingual-e5": Instructions("passage: ", "query: "),
    "qwen3-embedding": Instructions(
        query="Instruct: Given a question about code, retrieve the code that answers it\nQuery: "
    ),
    "embeddinggemma": Instructions("title: none | text: ", "task: code retrieval | query: "),
}


def instructions(model: str) -> Instructions:
    """`hf.co/nomic-ai/nomic-embed-text-v1.5:Q8_0` → those of `nomic-embed-text`."""
    name = model.lower().rsplit("/", 1)[-1]
    known = [prefix for prefix in INSTRUCTIONS if name.startswith(prefix)]
    return INSTRUCTIONS[max(known, key=len)] if known else Instructions()


#: One call of the server: texts, and the timeout in seconds → one row of numbers per text.
Fetch = Callable[[Sequence[str], float], Sequence[Sequence[float]]]

#: What identifies the weights, which the server is asked for by this policy.
Version = Callable[[RetryPolicy], str]


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the calls to a server: batch size, concurrency, timeouts, pause after failures."""

    batch_tokens: int = 8_192
    concurrency: int = 4
    timeout_s: float = 60.0
    query_timeout_s: float = 5.0
    retry_s: float = OPEN_S  # after it failed again and again

    def remote(self, name: str) -> Remote:
        """Calls to the server of that name."""
        breaker = Breaker(name, open_s=self.retry_s)
        return Remote(name, concurrency=self.concurrency, breaker=breaker)


class ServedEmbedder:
    """Implements the port Embedder over `fetch`.

    `name` is the server and model as a person knows them, for messages. Nothing is asked of the
    server before the first use of `identity`, `dim` or a vector, so that a gateway can be built
    while it is away. `dim`, when given, is insisted on. Safe to share between threads.
    """

    def __init__(
        self,
        name: str,
        *,
        model: str,
        backend: str,
        fetch: Fetch,
        version: Version,
        remote: Remote,
        limits: Limits,
        dim: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._model = model
        self._backend = backend
        self._fetch = fetch
        self._version = version
        self._remote = remote
        self._limits = limits
        self._usual = RetryPolicy(limits.timeout_s)
        self._brief = RetryPolicy(limits.query_timeout_s, attempts=1)
        self._wanted_dim = dim
        self._instructions = instructions(model)
        self._lock = threading.Lock()
        self._known: tuple[str, int] | None = None
        self._clock = clock
        self._version_seen = ""
        self._recheck_at = 0.0

    @property
    def identity(self) -> str:
        return self._probed(self._usual)[0]

    @property
    def dim(self) -> int:
        return self._probed(self._usual)[1]

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """One row per text, in order; raises Unavailable, Rejected, Corrupt, InvalidSettings."""
        out = np.zeros((len(texts), self.dim), np.float32)
        wanted = [row for row, text in enumerate(texts) if _has_word(text)]
        sent = [_clean(self._instructions.document, texts[row]) for row in wanted]
        batches = list(_batches(sent, self._limits.batch_tokens))
        if batches:
            self._recheck(self._usual)
        rows = self._threads.map(self._documents, batches)
        if wanted:
            out[wanted] = np.concatenate(list(rows))
        return out

    def embed_query(self, text: str) -> Vector:
        """Asked once and with little patience; raises Unavailable: a search can go on without."""
        try:
            return self._query(text)
        except (InvalidSettings, Rejected, SchemaMismatch) as exc:
            _log.warning("query_not_embedded", reason=str(exc))
            raise Unavailable(str(exc)) from exc

    def _query(self, text: str) -> Vector:
        _, dim = self._probed(self._brief)
        if not _has_word(text):
            return np.zeros(dim, np.float32)
        self._recheck(self._brief)
        sent = [_clean(self._instructions.query, text)]
        vector: Vector = self._checked(sent, self._brief)[0]
        return vector

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._limits.concurrency, thread_name_prefix="embed")

    def _documents(self, batch: Sequence[str]) -> Vectors:
        return self._checked(batch, self._usual)

    def _checked(self, texts: Sequence[str], policy: RetryPolicy) -> Vectors:
        _, dim = self._probed(policy)

        def work() -> Vectors:
            rows = self._fetch(texts, policy.timeout_s)
            return self._matrix(rows, texts=len(texts), dim=dim)

        return self._remote.call(work, attempts=policy.attempts)

    def _matrix(self, rows: Sequence[Sequence[float]], *, texts: int, dim: int) -> Vectors:
        """The rows at unit length. Raises Garbled or SchemaMismatch when they cannot be right."""
        if len(rows) != texts:
            raise Garbled(f"{self._name} answered {texts} texts with {len(rows)} vectors")
        widths = {len(row) for row in rows}
        if len(widths) > 1:
            raise Garbled(f"{self._name} answered with vectors of different lengths: {widths}")
        if dim and widths != {dim}:
            raise SchemaMismatch(
                f"{self._name} answers with {widths.pop()} dimensions, not {dim}: another model "
                "has taken its name; restart the workers and index again"
            )
        unit = _unit(np.asarray(rows, np.float64))
        if not np.allclose(np.linalg.norm(unit, axis=1), 1.0):  # nor is NaN
            raise Garbled(
                f"{self._name} answered with a vector that is not finite or all zeros; "
                "if it stays so, use another model or another release of the server"
            )
        return unit

    def _probed(self, policy: RetryPolicy) -> tuple[str, int]:
        """Identity and dimensions, asked for once: the others wait for the one that asks.

        Who has a single attempt waits for it no longer than for the server. What was answered is
        never asked again: callers read the identity first and embed then, and both must be of one
        model. Whose model is not the expected one takes another embedder.
        """
        if self._known is not None:
            return self._known
        if not self._lock.acquire(timeout=policy.timeout_s if policy.is_brief else -1):
            raise TimedOut(f"{self._name} has not yet answered what it is")
        try:
            if self._known is None:
                self._known = self._probe(policy)
            return self._known
        finally:
            self._lock.release()

    def _recheck(self, policy: RetryPolicy) -> None:
        """Raises SchemaMismatch when the model's weights are not those of the start any more.

        Asked again by the next call unless they are: a server that does not answer may be one that
        restarts with other weights.
        """
        if self._clock() < self._recheck_at:
            return
        if self._version(policy) != self._version_seen:
            raise SchemaMismatch(
                f"{self._name} is not the model of that name any more that it was at the start; "
                "restart the workers and the gateway, and index again"
            )
        self._recheck_at = self._clock() + RECHECK_S

    def _probe(self, policy: RetryPolicy) -> tuple[str, int]:
        version = self._version_seen = self._version(policy)
        self._recheck_at = self._clock() + RECHECK_S

        def work() -> int:
            rows = self._fetch([_PROBE], policy.timeout_s)
            return len(self._matrix(rows, texts=1, dim=self._wanted_dim)[0])

        dim = self._remote.call(work, attempts=policy.attempts)
        shaped = hashlib.sha256(repr(self._instructions).encode()).hexdigest()[:6]
        parts = (self._backend, self._model, version, shaped, str(dim))
        return "-".join(part for part in parts if part), dim


def _has_word(text: str) -> bool:
    return next(tokens.identifiers(text), None) is not None


def _clean(instruction: str, text: str) -> str:
    """Return the text to send, limited in length and valid UTF-8."""
    return sendable(instruction + text[:MAX_TEXT_CHARS])


def _batches(texts: Sequence[str], budget_tokens: int) -> Iterator[Sequence[str]]:
    """The texts in order, cut where a batch would exceed the budget; one text is always sent."""
    start, spent = 0, 0
    for at, text in enumerate(texts):
        cost = len(text) // CHARS_PER_TOKEN + 1
        if at > start and (spent + cost > budget_tokens or at - start >= MAX_BATCH_TEXTS):
            yield texts[start:at]
            start, spent = at, 0
        spent += cost
    if start < len(texts):
        yield texts[start:]


def _unit(matrix: npt.NDArray[np.float64]) -> Vectors:
    """Each row at length 1; any other length, or NaN, where a row has no direction.

    In double precision: in single a length of 1e20 overflows, and one of 1e-30 is none.
    """
    with np.errstate(all="ignore"):
        unit: Vectors = (matrix / np.linalg.norm(matrix, axis=1, keepdims=True)).astype(np.float32)
    return unit
