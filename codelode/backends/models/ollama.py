"""Embedder and language model of an Ollama server.

A missing model is pulled at first use, with progress in the log; indexing waits, because nothing
can replace the model. A search does not wait: it ranks by keywords. The digest of the weights is
part of the identity, so a newer pull under the same name is another model.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Sequence
from functools import cached_property, partial

import httpx
import ollama
import structlog

from codelode.backends.models.http import may_use_proxy, sendable, translated
from codelode.backends.models.remote import Remote, RetryPolicy
from codelode.backends.models.served import Limits, ServedEmbedder
from codelode.certificates import authorities_for
from codelode.errors import CodelodeError, Unavailable

EMBEDDING_MODEL = "nomic-embed-text"
LANGUAGE_MODEL = "qwen2.5-coder"

#: How long the server keeps a model in memory after a call; loading one takes seconds.
KEEP_ALIVE = "30m"

#: Longest silence during a pull, seconds: at the end the server verifies gigabytes.
PULL_TIMEOUT_S = 600.0
CONNECT_TIMEOUT_S = 5.0
LIST_TIMEOUT_S = 10.0
_LISTING = RetryPolicy(LIST_TIMEOUT_S)

#: Why a missing model is not pulled now.
_NEVER = "pulling is switched off"
_LATER = "the next indexing and `codelode up` pull it, a search does not wait for that"

#: Receives the progress of a pull: status, bytes so far, total bytes (0: unknown).
Progress = Callable[[str, int, int], None]

_log = structlog.get_logger(__name__)


class Server:
    """One Ollama server: its client and its models. Every call raises only `codelode.errors`.

    Connections are closed by `close`, or when the object is collected: an embedder that is made
    only for its identity, as before a start, is dropped without `close`.

    `threads`: processor threads per call; 0 leaves it to the server, which takes all cores and
    spins while it waits. Where other programs share the machine, one thread was 50 times faster
    than two.
    """

    def __init__(
        self,
        url: str,
        *,
        may_pull: bool = True,
        threads: int = 0,
        progress: Progress | None = None,
    ) -> None:
        self.name = f"Ollama at {url}"
        self._url = url
        self._may_pull = may_pull
        self._options = {"num_thread": threads} if threads else {}
        self._progress = progress  # None: the log; a bound method here would keep the object alive
        self._logged: tuple[str, int] = ("", 0)
        self._lock = threading.Lock()
        self._opening = threading.Lock()
        self._clients: dict[float, ollama.Client] = {}
        weakref.finalize(self, _close, self._clients)

    def digest(self, model: str, *, remote: Remote, policy: RetryPolicy = _LISTING) -> str:
        """Return the first digits of the SHA-256 of the weights; pull the model if it is missing.

        `policy` bounds the request, not the pull: a brief policy neither pulls nor waits for a
        pull. Raises Unavailable if the model is missing and may not or cannot be pulled.
        """

        def ask() -> str | None:
            return self._digest(model, policy.timeout_s)

        look = partial(remote.call, ask, attempts=policy.attempts)
        found = look()
        if found is None and policy.is_brief:
            raise self._missing(model, _LATER if self._may_pull else _NEVER)
        return (found or self._pulled(model, look))[:12]

    def embed(
        self, model: str, texts: Sequence[str], timeout_s: float
    ) -> Sequence[Sequence[float]]:
        """Return one row per text; the server cuts a text longer than the model's context."""
        with translated(self.name):
            answer = self._client(timeout_s).embed(
                model=model,
                input=list(texts),
                truncate=True,
                options=self._options,
                keep_alive=KEEP_ALIVE,
            )
        return answer.embeddings

    def generate(self, model: str, prompt: str, *, max_tokens: int, timeout_s: float) -> str:
        """Return the answer to one prompt; the same model and prompt give the same answer."""
        options = {**self._options, "num_predict": max_tokens, "temperature": 0.0, "seed": 0}
        with translated(self.name):
            answer = self._client(timeout_s).generate(
                model=model, prompt=sendable(prompt), options=options, keep_alive=KEEP_ALIVE
            )
        return (answer.response or "").strip()

    def close(self) -> None:
        """Release connections."""
        _close(self._clients)

    def _client(self, timeout_s: float) -> ollama.Client:
        """Return the client for this timeout, which the library sets per client, not per call."""
        with self._opening:  # if two threads made one each, one would never be closed
            if timeout_s not in self._clients:
                timeout = httpx.Timeout(timeout_s, connect=min(timeout_s, CONNECT_TIMEOUT_S))
                self._clients[timeout_s] = ollama.Client(
                    host=self._url,
                    timeout=timeout,
                    trust_env=may_use_proxy(self._url),
                    verify=authorities_for(self._url),
                )
            return self._clients[timeout_s]

    def _digest(self, model: str, timeout_s: float) -> str | None:
        """Return the digest of the model; None: the server lacks the model."""
        with translated(self.name):
            listed = self._client(min(timeout_s, LIST_TIMEOUT_S)).list().models
        wanted = model if ":" in model.rsplit("/", 1)[-1] else f"{model}:latest"
        return next((found.digest for found in listed if found.model == wanted), None)

    def _pulled(self, model: str, look: Callable[[], str | None]) -> str:
        """Return the digest of the weights once they are there; all threads share one pull."""
        with self._lock:
            found = look()
            if found is None:
                self._pull(model)
                found = look()
        if found is None:
            raise self._missing(model, "the pull ended without it")
        return found

    def _pull(self, model: str) -> None:
        if not self._may_pull:
            raise self._missing(model, _NEVER)
        tell = self._progress or self._log_progress
        _log.info("model_pull_started", server=self.name, model=model)
        try:
            with translated(self.name):
                for part in self._client(PULL_TIMEOUT_S).pull(model, stream=True):
                    tell(part.status or "", part.completed or 0, part.total or 0)
        except CodelodeError as exc:
            raise self._missing(model, str(exc)) from exc
        _log.info("model_pull_finished", server=self.name, model=model)

    def _missing(self, model: str, why: str) -> CodelodeError:
        remedy = f"run `ollama pull {model}` where it runs, or name another model"
        return Unavailable(f"{self.name} lacks the model {model} ({why}); {remedy}")

    def _log_progress(self, status: str, completed: int, total: int) -> None:
        """Log one line per step and tenth of a step."""
        tenth = 10 * completed // total if total else 0
        if (status, tenth) != self._logged:
            self._logged = (status, tenth)
            _log.info("model_pull", status=status, percent=10 * tenth, bytes=total)


def _close(clients: dict[float, ollama.Client]) -> None:
    while clients:
        clients.popitem()[1].close()  # type: ignore[no-untyped-call]


def embedder(
    server: Server,
    *,
    model: str = EMBEDDING_MODEL,
    limits: Limits | None = None,
    dim: int = 0,
    remote: Remote | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> ServedEmbedder:
    """Return an embedder that uses a model of the server."""
    limits = limits or Limits()
    remote = remote or limits.remote(server.name)

    def version(policy: RetryPolicy) -> str:
        return server.digest(model, remote=remote, policy=policy)

    return ServedEmbedder(
        f"{model} of {server.name}",
        model=model,
        backend="ollama",
        fetch=lambda texts, timeout_s: server.embed(model, texts, timeout_s),
        version=version,
        check=version,
        remote=remote,
        limits=limits,
        dim=dim,
        clock=clock,
    )


class OllamaLanguageModel:
    """Implements the port LanguageModel. The server is not contacted before the first use."""

    def __init__(
        self,
        server: Server,
        *,
        model: str = LANGUAGE_MODEL,
        limits: Limits | None = None,
        remote: Remote | None = None,
    ) -> None:
        limits = limits or Limits()
        self._server = server
        self._model = model
        self._timeout_s = limits.timeout_s
        self._brief = RetryPolicy(limits.query_timeout_s, attempts=1)
        self._remote = remote or limits.remote(server.name)

    @cached_property
    def identity(self) -> str:
        return f"ollama-{self._model}-{self._server.digest(self._model, remote=self._remote)}"

    def check(self) -> None:
        """See `ports.Checked`."""
        self._server.digest(self._model, remote=self._remote, policy=self._brief)

    def complete(self, prompt: str, *, max_tokens: int) -> str:
        """Raises Unavailable, NotFound, Rejected, InvalidSettings."""
        return self._remote.call(
            lambda: self._server.generate(
                self._model, prompt, max_tokens=max_tokens, timeout_s=self._timeout_s
            )
        )
