"""Settings: the only reader of the environment.

Each field is the variable `CODELODE_<FIELD>`; its description gives the unit and the bounds are
part of the type. `codelode settings` prints them, and docs/settings.md holds that output.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, SettingsConfigDict

from codelode.addresses import is_loopback, is_server_url
from codelode.environment import DEFAULT_DATA, DEFAULT_SERVER, PREFIX
from codelode.errors import InvalidSettings

#: Of Compose, of the processes of `codelode up`, and of the tests.
_READ_ELSEWHERE = ("bind", "port", "version", "cluster", "test_image")

#: Of Kubernetes, for a service named codelode.
_OF_A_SERVICE = ("port_", "service_")

#: Names that have less in common, 0 to 1, are no misspelling of one another.
_ALIKE = 0.75

_WEB, _REDIS = ("http", "https"), ("redis", "rediss", "unix")
_REDIS_EXAMPLE = "redis://127.0.0.1:6379/0"

#: What may be user and password of a URL, however that is misspelt: no message shows them.
_CREDENTIALS = re.compile(r"^(\w+://)?.*@", re.DOTALL)


class Settings(BaseSettings):
    """Everything an operator can set. Immutable; a worker and the gateway read the same values."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid")

    # Where things are
    data: Path = Field(
        default=Path(DEFAULT_DATA),
        description="Folder of the embedded cluster: mirrors, chunk index, job state.",
    )
    redis_url: str = Field(
        default=_REDIS_EXAMPLE,
        description="Broker, ledger and graph. `codelode up` starts one and sets this itself.",
    )
    cache_url: str = Field(
        default="",
        description="Redis for the query cache, and for derived values that are kept in Redis; "
        "empty: the same as redis_url.",
    )
    listen: str = Field(default="127.0.0.1:50051", description="Address of the gRPC gateway.")
    token: SecretStr = Field(
        default=SecretStr(""),
        description="Secret that every call of the gateway carries, and clients send; needed to "
        "listen on more than loopback. Put TLS before the gateway where the network is not yours.",
    )
    server: str = Field(
        default=DEFAULT_SERVER, description="Gateway that the command line talks to."
    )
    redis_bin: str = Field(
        default="",
        description="Redis or Valkey program for `codelode up`; empty: PATH, then the wheel's.",
    )

    # Backends
    store: Literal["local", "weaviate"] = Field(
        default="local",
        description="Chunk store: local, in the data folder, for one machine; weaviate, a server.",
    )
    embedder: Literal["static", "ollama", "openai"] = Field(
        default="static",
        description="Embedding model: built in, of an Ollama server, or of any server of OpenAI's "
        "interface.",
    )
    language_model: Literal["none", "ollama", "openai"] = Field(
        default="none", description="Model that writes summaries; none: there are none."
    )

    # Weaviate
    weaviate_url: str = Field(
        default="http://127.0.0.1:8080", description="REST address of the Weaviate server."
    )
    weaviate_grpc_port: int = Field(
        default=50051, ge=1, le=65_535, description="Its gRPC port, at the same host."
    )
    weaviate_api_key: SecretStr = Field(
        default=SecretStr(""), description="Its API key; empty: it asks for none."
    )
    weaviate_collection: str = Field(
        default="CodeChunk",
        pattern=r"^[A-Z][A-Za-z0-9]{0,63}$",
        description="Name of the index in Weaviate; the collections behind it begin with it.",
    )
    weaviate_replicas: int = Field(
        default=1,
        ge=1,
        le=9,
        description="Copies of each chunk, on as many nodes, in an index that is created.",
    )
    organisation: str = Field(
        default="default",
        pattern=r"^[A-Za-z0-9_-]{1,64}$",
        description="Whose index it is: the tenant in Weaviate.",
    )

    # Models behind servers
    ollama_url: str = Field(
        default="http://127.0.0.1:11434", description="Ollama server of embeddings and summaries."
    )
    ollama_pull: bool = Field(
        default=True, description="Pull a model that the Ollama server does not have."
    )
    ollama_threads: int = Field(
        default=0,
        ge=0,
        le=256,
        description="Processor threads of a call to Ollama; 0: as the server decides, which suits "
        "a machine of its own.",
    )
    openai_url: str = Field(
        default="https://api.openai.com/v1",
        description="Server of OpenAI's interface, up to and with /v1.",
    )
    openai_api_key: SecretStr = Field(
        default=SecretStr(""), description="Its API key; empty: it asks for none."
    )
    embedding_model: str = Field(
        default="",
        description="Embedding model of the server; empty: nomic-embed-text with Ollama, "
        "text-embedding-3-small otherwise.",
    )
    embedding_dim: int = Field(
        default=0,
        ge=0,
        le=16_384,
        description="Dimensions asked for and insisted on; 0: what the model has.",
    )
    summary_model: str = Field(
        default="",
        description="Language model of the server; empty: qwen2.5-coder with Ollama, gpt-4o-mini "
        "otherwise.",
    )
    model_timeout_s: float = Field(
        default=60.0, ge=0.1, le=3600, description="Longest call of a model server, seconds."
    )
    query_timeout_s: float = Field(
        default=5.0,
        ge=0.1,
        le=600,
        description="Longest wait for a query's vector, seconds; after it keywords alone rank.",
    )
    model_retry_s: float = Field(
        default=10.0,
        ge=0.1,
        le=30,
        description="Pause of a model server that fails again and again, seconds; after three "
        "batches of summaries in a row that failed, a run goes on without.",
    )
    model_concurrency: int = Field(
        default=4, ge=1, le=256, description="Calls of a model server at once, per process."
    )
    embed_batch_tokens: int = Field(
        default=8_192, ge=64, le=1_000_000, description="Size of an embedding call, tokens."
    )
    summaries_per_run: int = Field(
        default=20_000, ge=0, le=100_000_000, description="Summaries written per run, calls."
    )
    summaries_per_day: int = Field(
        default=100_000,
        ge=0,
        le=1_000_000_000,
        description="Summaries written per day (UTC) over all runs, calls.",
    )

    # Reuse
    derivations: Literal["disk", "redis", "none"] = Field(
        default="disk",
        description="Where parsed files, summaries and vectors are kept to be used again: in the "
        "data folder, for one machine; in the cache's Redis, for several; nowhere.",
    )
    derivations_mb: int = Field(
        default=2_048,
        ge=1,
        le=10_000_000,
        description="Bound on what is kept to be used again, MB; the oldest goes first.",
    )

    # Repositories
    local_paths: str = Field(
        default="",
        description="Folders below which local repositories may be indexed, separated by `:`; "
        "empty: none; `owned`: any repository owned by the user the server runs as.",
    )
    git_timeout_s: int = Field(
        default=3600, ge=10, le=86_400, description="Longest clone or fetch, seconds."
    )
    max_file_bytes: int = Field(
        default=1_000_000, ge=1_000, le=50_000_000, description="Larger files are skipped, bytes."
    )

    queries: str = Field(
        default="",
        description="Folder with queries `<language>.scm` in place of the built-in ones; a "
        "repository's own, in `.codelode/queries`, come before them; empty: none.",
    )

    # Jobs
    window: int = Field(default=256, ge=1, le=10_000, description="Files in flight per run.")
    max_attempts: int = Field(
        default=3, ge=1, le=20, description="Attempts per file before it is recorded as failed."
    )
    parse_timeout_s: int = Field(
        default=15, ge=1, le=600, description="Longest parse of one file, seconds."
    )
    heartbeat_s: float = Field(
        default=3.0, ge=0.2, le=60, description="Interval of worker heartbeats, seconds."
    )
    reap_interval_s: float = Field(
        default=5.0, ge=0.2, le=300, description="Interval of the check for lost files, seconds."
    )
    lease_s: float = Field(
        default=300.0,
        ge=1,
        le=86_400,
        description="A claimed file is taken over after this, seconds.",
    )
    maintain_interval_s: float = Field(
        default=30.0,
        ge=1,
        le=86_400,
        description="Interval of index optimisation while files are written, seconds.",
    )
    requeue_s: float = Field(
        default=20.0,
        ge=0.2,
        le=86_400,
        description="A file whose message is lost is published again after this, seconds.",
    )
    visibility_timeout_s: int = Field(
        default=60,
        ge=2,
        le=86_400,
        description="The broker redelivers unacknowledged jobs after this, seconds.",
    )

    # Search
    cache_entries: int = Field(
        default=10_000,
        ge=0,
        le=10_000_000,
        description="Bound of the query cache, answers; 0: off.",
    )
    cache_similarity: float = Field(
        default=0.95,
        ge=0.5,
        le=1,
        description="A query is answered from the cache of another one of this cosine that has "
        "the same filters and the same words but for those that only make a sentence; 1: never.",
    )
    cross_encoder: str = Field(
        default="",
        description="Folder with model.onnx and tokenizer.json for the cross_encoder reranker "
        "(needs the extra `onnx`); empty: none.",
    )
    cache_ttl_s: int = Field(
        default=86_400, ge=1, le=2_592_000, description="Longest life of a cached answer, seconds."
    )

    # Gateway
    drain_settle_s: float = Field(
        default=0.0,
        ge=0,
        le=300,
        description="Wait between reporting unhealthy and closing, so that load balancers "
        "notice, seconds.",
    )

    # Logging
    log_format: Literal["auto", "json", "console"] = Field(
        default="auto", description="auto: console on a terminal, JSON otherwise."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least level logged."
    )

    @field_validator("weaviate_url", "ollama_url", "openai_url")
    @classmethod
    def _is_web(cls, url: str, info: ValidationInfo) -> str:
        example = cls.model_fields[info.field_name or ""].default
        return _checked_url(url, schemes=_WEB, example=example)

    @field_validator("redis_url", "cache_url")
    @classmethod
    def _is_redis(cls, url: str, info: ValidationInfo) -> str:
        if not url and info.field_name == "cache_url":
            return url
        return _checked_url(url, schemes=_REDIS, example=_REDIS_EXAMPLE, needs_host=False)

    @property
    def data_dir(self) -> Path:
        return self.data.expanduser().resolve()

    @property
    def mirrors_dir(self) -> Path:
        return self.data_dir / "mirrors"

    @property
    def derivations_file(self) -> Path:
        return self.data_dir / "derivations" / "derivations.sqlite"

    @property
    def index_dir(self) -> Path:
        return self.data_dir / "index"

    def environment(self) -> dict[str, str]:
        """These settings as variables, for a child process."""
        values = {f"{PREFIX}{name.upper()}": _plain(value) for name, value in self}
        return {**os.environ, **values}


def _checked_url(
    url: str, *, schemes: tuple[str, ...], example: str, needs_host: bool = True
) -> str:
    if not is_server_url(url, schemes, needs_host=needs_host):
        raise PydanticCustomError("url", "is no URL of a server; for example {e}", {"e": example})
    return url


def _shown(value: object) -> str:
    return repr(_CREDENTIALS.sub(r"\1…@", value) if isinstance(value, str) else value)


def _plain(value: object) -> str:
    """The value as its variable holds it; a secret prints as asterisks."""
    return value.get_secret_value() if isinstance(value, SecretStr) else str(value)


def load(**overrides: object) -> Settings:
    """Settings from the environment, with the given fields replaced.

    Raises InvalidSettings naming each wrong variable, its value and what it should be.
    """
    try:
        return Settings(**overrides)  # type: ignore[arg-type]
    except ValidationError as exc:
        problems = "; ".join(
            f"{PREFIX}{str(error['loc'][0]).upper()}={_shown(error['input'])}: {error['msg']}"
            for error in exc.errors()
        )
        raise InvalidSettings(problems) from exc


def unread(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Variables named as settings are that nothing reads, and the setting that is most like each.

    Empty: none is like it. Nothing fails of a misspelt one, so who starts a process has to be told.
    """
    names = {name: name.upper().removeprefix(PREFIX).lower() for name in sorted(environment)}
    return {
        name: _nearest(stem)
        for name, stem in names.items()
        if name.upper().startswith(PREFIX)
        and stem not in Settings.model_fields
        and stem not in _READ_ELSEWHERE
        and not stem.startswith(_OF_A_SERVICE)
    }


def _nearest(stem: str) -> str:
    found = get_close_matches(stem, Settings.model_fields, n=1, cutoff=_ALIKE)
    return f"{PREFIX}{found[0].upper()}" if found else ""


def require_private(settings: Settings) -> None:
    """Raise InvalidSettings unless only this machine can reach the gateway, or callers need a
    token.
    """
    listen = settings.listen
    if listen.startswith("unix:"):
        return
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65_535:
        raise InvalidSettings(f"CODELODE_LISTEN={listen!r} is no HOST:PORT, as 127.0.0.1:50051")
    if not is_loopback(host.strip("[]")) and not settings.token.get_secret_value():
        raise InvalidSettings(
            f"CODELODE_LISTEN={listen!r}: no authentication is configured, so the gateway listens "
            "on loopback only; set CODELODE_TOKEN to a long random text, or use 127.0.0.1:PORT"
        )


def require_alike(own: Mapping[str, str], workers: Mapping[str, str]) -> None:
    """Raise InvalidSettings when the workers tell of other settings than this command has."""
    for name, value in workers.items():
        if own.get(name) != value:
            raise InvalidSettings(
                f"the workers run with CODELODE_{name.upper()}={value!r}, this command with "
                f"{own.get(name, '')!r}: run it with the same settings"
            )
