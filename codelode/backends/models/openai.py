"""Embedder and language model of any server with the OpenAI API.

Uses plain HTTP instead of the vendor's client: two calls are needed, and most servers with this API
(vLLM, LiteLLM, llama.cpp, Ollama itself) are not the vendor's. The key is sent and never printed.
The API has no digest of the weights, so changed weights under the same name are only noticed when
the dimensions change too.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
from pydantic import BaseModel, SecretStr

from codelode.backends.models.http import may_use_proxy, sendable, translated
from codelode.backends.models.remote import Garbled, Remote
from codelode.backends.models.served import Limits, ServedEmbedder
from codelode.certificates import authorities_for

EMBEDDING_MODEL = "text-embedding-3-small"
LANGUAGE_MODEL = "gpt-4o-mini"

CONNECT_TIMEOUT_S = 5.0


class _Row(BaseModel):
    index: int
    embedding: list[float]


class _Embeddings(BaseModel):
    data: list[_Row]


class _Message(BaseModel):
    content: str | None = None


class _Choice(BaseModel):
    message: _Message


class _Completion(BaseModel):
    choices: list[_Choice]


class Endpoint:
    """One server; `url` includes `/v1`. Every call raises only `codelode.errors`.

    Connections are closed by `close`, and at the latest when the object is collected.
    """

    def __init__(self, url: str, *, key: SecretStr) -> None:
        self.name = f"the model server at {url}"
        secret = key.get_secret_value()
        with translated(self.name):
            self._client = httpx.Client(
                base_url=url.rstrip("/") + "/",
                trust_env=may_use_proxy(url),
                verify=authorities_for(url),
                headers={"Authorization": f"Bearer {secret}"} if secret else {},
            )
        weakref.finalize(self, self._client.close)

    def embed(
        self, model: str, texts: Sequence[str], timeout_s: float, *, dim: int = 0
    ) -> Sequence[Sequence[float]]:
        """Return one row per text, in the order of the texts, whatever the answer's order."""
        body = {"model": model, "input": list(texts), **({"dimensions": dim} if dim else {})}
        with translated(self.name):
            answer = _Embeddings.model_validate(self._post("embeddings", body, timeout_s))
        rows = {row.index: row.embedding for row in answer.data}
        if sorted(rows) != list(range(len(texts))):
            raise Garbled(f"{self.name} answered {len(texts)} texts with {len(rows)} vectors")
        return [rows[at] for at in range(len(texts))]

    def chat(self, model: str, prompt: str, *, max_tokens: int, timeout_s: float) -> str:
        """Return the answer to one prompt."""
        body = {
            "model": model,
            "messages": [{"role": "user", "content": sendable(prompt)}],
            "max_tokens": max_tokens,
            "temperature": 0,
        }
        with translated(self.name):
            answer = _Completion.model_validate(self._post("chat/completions", body, timeout_s))
        if not answer.choices:
            raise Garbled(f"{self.name} answered without a text")
        return (answer.choices[0].message.content or "").strip()

    def check(self, timeout_s: float) -> None:
        """Return if the server answers and accepts the key; some servers have no list of models."""
        with translated(self.name):
            response = self._client.get("models", timeout=_timeout(timeout_s))
            if response.status_code not in (httpx.codes.NOT_FOUND, httpx.codes.METHOD_NOT_ALLOWED):
                response.raise_for_status()

    def close(self) -> None:
        """Release connections."""
        self._client.close()

    def _post(self, path: str, body: Mapping[str, object], timeout_s: float) -> Any:
        response = self._client.post(path, json=body, timeout=_timeout(timeout_s))
        response.raise_for_status()
        return response.json()


def _timeout(timeout_s: float) -> httpx.Timeout:
    return httpx.Timeout(timeout_s, connect=min(timeout_s, CONNECT_TIMEOUT_S))


def embedder(
    endpoint: Endpoint,
    *,
    model: str = EMBEDDING_MODEL,
    limits: Limits | None = None,
    dim: int = 0,
    remote: Remote | None = None,
) -> ServedEmbedder:
    """Return an embedder that uses a model of the server; `dim` is requested and checked."""
    limits = limits or Limits()
    return ServedEmbedder(
        f"{model} of {endpoint.name}",
        model=model,
        backend="openai",
        fetch=lambda texts, timeout_s: endpoint.embed(model, texts, timeout_s, dim=dim),
        version=lambda _: "",
        check=lambda policy: endpoint.check(policy.timeout_s),
        remote=remote or limits.remote(endpoint.name),
        limits=limits,
        dim=dim,
    )


class OpenAiLanguageModel:
    """Implements the port LanguageModel."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        model: str = LANGUAGE_MODEL,
        limits: Limits | None = None,
        remote: Remote | None = None,
    ) -> None:
        limits = limits or Limits()
        self.identity = f"openai-{model}"
        self._endpoint = endpoint
        self._model = model
        self._timeout_s = limits.timeout_s
        self._check_timeout_s = limits.query_timeout_s
        self._remote = remote or limits.remote(endpoint.name)

    def check(self) -> None:
        """See `ports.Checked`."""
        self._endpoint.check(self._check_timeout_s)

    def complete(self, prompt: str, *, max_tokens: int) -> str:
        """Raises Unavailable, NotFound, Rejected, InvalidSettings."""
        return self._remote.call(
            lambda: self._endpoint.chat(
                self._model, prompt, max_tokens=max_tokens, timeout_s=self._timeout_s
            )
        )
