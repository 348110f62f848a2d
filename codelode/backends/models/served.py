"""The common part of all embedding models behind a server.

Texts are sent in batches of a bounded size, and every answer is checked: a wrong number of rows, a
wrong dimension, NaN, or infinity would stay in the index. A text without a word gets a zero row and
is never sent. Vectors are normalised to unit length here, so that a dot product compares vectors of
every embedder.
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

#: Length at which texts are cut, characters: several times the largest chunk, and still less than
#: the context of every model in the table below.
MAX_TEXT_CHARS = 8_000

#: Characters of code per token; a low estimate, so that batches stay below their budget.
CHARS_PER_TOKEN = 3

#: Texts per call; servers with the OpenAI API refuse more than 2,048.
MAX_BATCH_TEXTS = 512

#: How often the digest of the weights is checked, seconds.
RECHECK_S = 60.0

#: The text that is embedded to learn the dimensions.
_PROBE = "dimension"


@dataclass(frozen=True, slots=True)
class Instructions:
    """The prefixes that a model was trained with for documents and queries."""

    document: str = ""
    query: str = ""


_log = structlog.get_logger(__name__)

_SEARCHING = Instructions(query="Represent this sentence for searching relevant passages: ")

#: Prefixes by the longest matching start of the model's name, from the model cards.
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
    """Return the prefixes of a model, by the longest matching start of its name.

    `hf.co/nomic-ai/nomic-embed-text-v1.5:Q8_0` → those of `nomic-embed-text`.
    """
    name = model.lower().rsplit("/", 1)[-1]
    known = [prefix for prefix in INSTRUCTIONS if name.startswith(prefix)]
    return INSTRUCTIONS[max(known, key=len)] if known else Instructions()


#: One call to the server: texts and the timeout in seconds → one row of numbers per text.
Fetch = Callable[[Sequence[str], float], Sequence[Sequence[float]]]

#: Asks the server for the digest of the weights, within a policy.
Version = Callable[[RetryPolicy], str]


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on the calls to a server: size, concurrency, timeouts, and pause after failures."""

    batch_tokens: int = 8_192
    concurrency: int = 4
    timeout_s: float = 60.0
    query_timeout_s: float = 5.0
    retry_s: float = OPEN_S  # pause of the open circuit breaker

    def remote(self, name: str) -> Remote:
        """Return calls to the server of that name, within these limits."""
        breaker = Breaker(name, open_s=self.retry_s)
        return Remote(name, concurrency=self.concurrency, breaker=breaker)


class ServedEmbedder:
    """Implements the port Embedder over `fetch`.

    `name` is server and model as messages show them. The server is not contacted before the first
    use of `identity`, `dim`, or a vector, so a gateway can start while the server is unreachable.
    If `dim` is given, other dimensions are an error. Safe to share between threads.
    """

    def __init__(
        self,
        name: str,
        *,
        model: str,
        backend: str,
        fetch: Fetch,
        version: Version,
        check: Callable[[RetryPolicy], object],
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
        self._ask = check
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
        """Return one row per text, in order.

        Raises Unavailable, Rejected, Corrupt, InvalidSettings.
        """
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
        """Embed in a single attempt with a short timeout.

        Raises only Unavailable, because a search can do without the vector.
        """
        try:
            return self._query(text)
        except (InvalidSettings, Rejected, SchemaMismatch) as exc:
            _log.warning("query_not_embedded", reason=str(exc))
            raise Unavailable(str(exc)) from exc

    def check(self) -> None:
        """See `ports.Checked`."""
        self._ask(self._brief)

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
        """Return the rows at unit length. Raises Garbled or SchemaMismatch for impossible rows."""
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
        if not np.allclose(np.linalg.norm(unit, axis=1), 1.0):  # NaN is not close either
            raise Garbled(
                f"{self._name} answered with a vector that is not finite or all zeros; "
                "if it stays so, use another model or another release of the server"
            )
        return unit

    def _probed(self, policy: RetryPolicy) -> tuple[str, int]:
        """Return identity and dimensions; one thread asks once while the others wait.

        A caller with a single attempt waits no longer than its timeout. The server is asked only
        once, because callers read the identity first and embed afterwards, and both must belong to
        one model. A caller that finds another model than expected has to make a new embedder.
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
        """Raise SchemaMismatch if the weights of the model have changed since the start.

        The next call asks again if the server did not answer, because it may be restarting with
        other weights.
        """
        if self._clock() < self._recheck_at:
            return
        if self._version(policy) != self._version_seen:
            raise SchemaMismatch(
                f"{self._name} has other weights than at the start; "
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
    """Return the text as it is sent: bounded in length and valid UTF-8."""
    return sendable(instruction + text[:MAX_TEXT_CHARS])


def _batches(texts: Sequence[str], budget_tokens: int) -> Iterator[Sequence[str]]:
    """Yield batches of the texts in order; only a batch of one text may exceed the budget."""
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
    """Return the rows at unit length; rows without a direction get another length, or NaN.

    Uses double precision: in single precision a length of 1e20 overflows and one of 1e-30
    underflows.
    """
    with np.errstate(all="ignore"):
        unit: Vectors = (matrix / np.linalg.norm(matrix, axis=1, keepdims=True)).astype(np.float32)
    return unit
