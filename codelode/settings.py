"""Define every setting, and read them from the environment.

Each field is the variable `CODELODE_<FIELD>`; its description gives the unit and the bounds are
part of the type. `codelode settings` prints them, and docs/settings.md holds that output. Other
modules get their settings from here, except clients (`codelode.environment`), which start faster
without validation.
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
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from codelode.addresses import is_server_url
from codelode.backends import registry
from codelode.environment import DEFAULT_DATA, DEFAULT_SERVER, PREFIX
from codelode.errors import InvalidSettings
from codelode.files import read_secret
from codelode.loopback import is_confidential
from codelode.openid_flow import SCOPES

#: Variables that are not settings: only Compose, `codelode up`, or the tests read them.
_READ_ELSEWHERE = (
    *("bind", "port", "version", "cluster"),
    *("test_image", "test_browser", "test_screenshots"),
)

#: Beginnings of the variables that Kubernetes sets for a service named codelode, after our prefix.
_SET_BY_KUBERNETES = ("port_", "service_")

#: Minimum similarity (0 to 1) of a misspelt variable and the setting that is suggested for it.
_MIN_SIMILARITY = 0.75

#: The settings that name a backend; the registry knows their values.
BACKENDS = ("store", "embedder", "language_model", "derivations")

#: Algorithms whose public key can only verify. If symmetric ones (HS256) were accepted too, a token
#: that is signed with the public key of an issuer as the secret would be valid.
_ALGORITHMS = tuple(f"{kind}{bits}" for kind in ("RS", "PS", "ES") for bits in (256, 384, 512))

_WEB, _REDIS = ("http", "https"), ("redis", "rediss", "unix")
_REDIS_EXAMPLE = "redis://127.0.0.1:6379/0"

#: The part of a URL that may hold user and password, even in a malformed URL. Messages hide it.
_CREDENTIALS = re.compile(r"^(\w+://)?.*@", re.DOTALL)


class Settings(BaseSettings):
    """All settings of an operator. Immutable; workers and gateway read the same values."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid")

    # Data, servers, and listeners
    data: Path = Field(
        default=Path(DEFAULT_DATA),
        description="Folder of the embedded cluster: mirrors, chunk index, job state.",
    )
    redis_url: str = Field(
        default=_REDIS_EXAMPLE,
        description="Redis server of the job broker, the ledger, and the dependency graph. "
        "`codelode up` starts one and sets this itself.",
    )
    cache_url: str = Field(
        default="",
        description="Redis server of the query cache and, with CODELODE_DERIVATIONS=redis, of "
        "derived values; empty: the same server as CODELODE_REDIS_URL.",
    )
    listen: str = Field(
        default="127.0.0.1:50051", description="Address that the gRPC gateway listens on."
    )
    http_listen: str = Field(
        default="",
        description="Address that the gateway listens on for HTTP: the REST API, its description "
        "on /api/docs, and health on /api/v1/health; empty: none. It needs authentication, and "
        "speaks TLS if CODELODE_LISTEN does. `codelode up` sets it.",
    )
    http_hosts: str = Field(
        default="",
        description="Names under which agents reach CODELODE_HTTP_LISTEN from other machines, "
        "separated by commas, such as search.example.com. MCP over HTTP refuses other names, and "
        "web pages of other hosts; it always accepts addresses and the names of this machine.",
    )
    published_host: str = Field(
        default="",
        description="Address of this machine at which a container engine publishes the port of "
        "CODELODE_LISTEN. If it is a loopback address, the gateway needs no TLS; empty: the "
        "address of CODELODE_LISTEN decides that. docker-compose.yml sets it to CODELODE_BIND.",
    )
    health_listen: str = Field(
        default="",
        description="Address on which a separate process answers health probes of the gateway, "
        "without the token, and at once even if the gateway is busy; empty: only the gateway "
        "answers them, on CODELODE_LISTEN.",
    )
    share_ports: bool = Field(
        default=False,
        description="Whether other gateways of this user on this machine may listen on the same "
        "addresses; Linux distributes the connections. `codelode up --gateways` sets it.",
    )

    # Shared token, and files of operators
    token: SecretStr = Field(
        default=SecretStr(""),
        description="Shared secret that clients send with every call to the gateway. Required to "
        "listen on an address other than loopback, with at least 16 characters.",
    )
    token_file: str = Field(
        default="",
        description="File that holds the shared secret, used if CODELODE_TOKEN is empty. "
        "`codelode up` makes one in its data folder, where the clients of the same user find it.",
    )
    access_file: str = Field(
        default="",
        description="YAML file that says which repositories groups and people may see, and their "
        "roles; the gateway follows its changes; empty: none. docs/security.md has the format.",
    )
    sources: str = Field(
        default="",
        description="YAML file with the code hosts of the organisation, read by the pull workers "
        "and by the gateway, which follow its changes; empty: none. docs/operations.md has the "
        "format.",
    )
    scopes: str = Field(
        default="",
        description="YAML file with the scopes, named sets of repositories, refs, and paths, which "
        "searches take as a filter; the gateway follows its changes; empty: none. "
        "docs/operations.md has the format.",
    )

    # TLS and client certificates
    tls_certificate: str = Field(
        default="",
        description="PEM file with the certificate of the gateway, followed by the intermediate "
        "certificates. With it and CODELODE_TLS_KEY, the gateway speaks TLS. Both files are read "
        "again when they change.",
    )
    tls_key: str = Field(
        default="",
        description="PEM file with the private key of CODELODE_TLS_CERTIFICATE, without a "
        "passphrase.",
    )
    tls_terminated_by_proxy: bool = Field(
        default=False,
        description="Listen without TLS on an address other than loopback, because a proxy that "
        "terminates TLS is in front of the gateway and nothing else can reach that address.",
    )
    tls_ca: str = Field(
        default="",
        description="PEM file with the certificates of the authorities that clients trust for "
        "addresses that start with grpcs://; empty: the public authorities.",
    )
    listen_mtls: str = Field(
        default="",
        description="Second address of the gateway, for clients with a certificate of an authority "
        "in CODELODE_TLS_CLIENT_CA, which is their authentication; empty: none.",
    )
    tls_client_ca: str = Field(
        default="",
        description="PEM file with the certificates of the authorities that issue certificates to "
        "clients, and to nobody else; read again when it changes.",
    )
    tls_client_certificate: str = Field(
        default="",
        description="PEM file with the certificate that clients present to a gateway.",
    )
    tls_client_key: str = Field(
        default="",
        description="PEM file with the private key of CODELODE_TLS_CLIENT_CERTIFICATE, without a "
        "passphrase.",
    )

    # OpenID Connect, and sessions of browsers
    oidc_issuers: str = Field(
        default="",
        description="Issuers of OpenID Connect whose tokens the gateway accepts: their URLs, "
        "separated by commas, exactly as the claim `iss` has them. Each is trusted for all names.",
    )
    oidc_audience: str = Field(
        default="",
        description="Value that the claim `aud` of the issuers' tokens must have, usually the "
        "client id of codelode at the issuer. Required with CODELODE_OIDC_ISSUERS.",
    )
    oidc_algorithms: str = Field(
        default="RS256,PS256,ES256",
        description="Signature algorithms of tokens that are accepted, separated by commas: any of "
        f"{', '.join(_ALGORITHMS)}.",
    )
    oidc_skew_s: int = Field(
        default=60,
        ge=0,
        le=600,
        description="Difference between the clocks of issuer and gateway that is tolerated, "
        "seconds.",
    )
    oidc_name_claim: str = Field(
        default="email",
        min_length=1,
        description="Claim that names the caller. `email` counts only in tokens with "
        "`email_verified: true`.",
    )
    oidc_groups_claim: str = Field(
        default="groups", min_length=1, description="Claim that lists the groups of the caller."
    )
    oidc_indexers: str = Field(
        default="",
        description="Groups whose members have the role indexer, separated by commas; others are "
        "readers.",
    )
    oidc_admins: str = Field(
        default="",
        description="Groups whose members have the role admin, separated by commas.",
    )
    oidc_client_id: str = Field(
        default="",
        description="Client id of the web page at the issuers; its redirect URI is the address of "
        "the page followed by /sign-in/callback; empty: CODELODE_OIDC_AUDIENCE.",
    )
    oidc_client_secret: SecretStr = Field(
        default=SecretStr(""),
        description="Client secret of the web page at the issuers; empty: they require none, "
        "because the login uses PKCE.",
    )
    oidc_scopes: str = Field(
        default=SCOPES,
        description="Scopes that the web page asks the issuers for, separated by spaces.",
    )
    session_hours: float = Field(
        default=168.0,
        ge=0.01,
        le=8_760,
        description="Longest time for which a browser stays signed in at the web page, hours. Its "
        "credentials may expire earlier.",
    )

    # Clients, and the Redis server of `codelode up`
    token_without_tls: bool = Field(
        default=False,
        description="Let clients send their token without TLS to a gateway on another machine, "
        "for example because the network between them is encrypted.",
    )
    server: str = Field(
        default=DEFAULT_SERVER,
        description="Gateway that the command line talks to: HOST:PORT, or with TLS "
        "grpcs://HOST:PORT; if it is not set and `codelode up` runs on this machine, its cluster.",
    )
    redis_bin: str = Field(
        default="",
        description="Redis or Valkey program that `codelode up` starts; empty: the one on PATH, "
        "or else the one from the installed wheel.",
    )
    redis_memory_mb: int = Field(
        default=2_048,
        ge=16,
        le=10_000_000,
        description="Memory limit of the Redis server that `codelode up` starts, MB. At the limit, "
        "indexing waits; searching, cancelling, and removing go on.",
    )

    # Backends
    store: str = Field(
        default="local",
        description="Chunk store: `local` keeps the index in the data folder of one machine, "
        "`weaviate` in a Weaviate server.",
    )
    embedder: str = Field(
        default="static",
        description="Source of embeddings: the built-in model, an Ollama server, or a server with "
        "the OpenAI API.",
    )
    language_model: str = Field(
        default="none",
        description="Source of the language model that writes summaries; `none`: no summaries.",
    )

    # Weaviate
    weaviate_url: str = Field(
        default="http://127.0.0.1:8080", description="REST address of the Weaviate server."
    )
    weaviate_grpc_port: int = Field(
        default=50051, ge=1, le=65_535, description="gRPC port of the Weaviate server."
    )
    weaviate_api_key: SecretStr = Field(
        default=SecretStr(""),
        description="API key of the Weaviate server; leave empty if it requires none.",
    )
    weaviate_collection: str = Field(
        default="CodeChunk",
        pattern=r"^[A-Z][A-Za-z0-9]{0,63}$",
        description="Alias of the index in Weaviate; its collections have this prefix.",
    )
    weaviate_replicas: int = Field(
        default=1,
        ge=1,
        le=9,
        description="Replication factor of a newly created index: each chunk is stored on this "
        "many nodes.",
    )
    organisation: str = Field(
        default="default",
        pattern=r"^[A-Za-z0-9_-]{1,64}$",
        description="Organisation that owns the index: the tenant in Weaviate.",
    )

    # Models behind servers
    ollama_url: str = Field(
        default="http://127.0.0.1:11434",
        description="Address of the Ollama server for embeddings and summaries.",
    )
    ollama_pull: bool = Field(
        default=True, description="Pull a model if the Ollama server does not have it."
    )
    ollama_threads: int = Field(
        default=0,
        ge=0,
        le=256,
        description="Processor threads per call to Ollama; 0: the server decides, which is best if "
        "it has a machine of its own.",
    )
    openai_url: str = Field(
        default="https://api.openai.com/v1",
        description="Base URL of a server with the OpenAI API, including /v1.",
    )
    openai_api_key: SecretStr = Field(
        default=SecretStr(""),
        description="API key of the server at CODELODE_OPENAI_URL; leave empty if it needs none.",
    )
    embedding_model: str = Field(
        default="",
        description="Embedding model on the server; empty: nomic-embed-text with Ollama, "
        "text-embedding-3-small otherwise.",
    )
    embedding_dim: int = Field(
        default=0,
        ge=0,
        le=16_384,
        description="Required number of dimensions of the embeddings; 0: accept the model's.",
    )
    summary_model: str = Field(
        default="",
        description="Language model on the server; empty: qwen2.5-coder with Ollama, gpt-4o-mini "
        "otherwise.",
    )
    model_timeout_s: float = Field(
        default=60.0, ge=0.1, le=3600, description="Timeout of a call to a model server, seconds."
    )
    query_timeout_s: float = Field(
        default=5.0,
        ge=0.1,
        le=600,
        description="Timeout for embedding a query, seconds; after it the search uses keywords "
        "only.",
    )
    model_retry_s: float = Field(
        default=10.0,
        ge=0.1,
        le=30,
        description="Pause between calls to a model server that keeps failing, seconds. After "
        "three consecutive failed batches of summaries a run continues without summaries.",
    )
    model_concurrency: int = Field(
        default=4, ge=1, le=256, description="Concurrent calls to a model server, per process."
    )
    embed_batch_tokens: int = Field(
        default=8_192, ge=64, le=1_000_000, description="Maximum size of an embedding call, tokens."
    )
    summaries_per_run: int = Field(
        default=20_000,
        ge=0,
        le=100_000_000,
        description="Maximum calls to the language model per run.",
    )
    summaries_per_day: int = Field(
        default=100_000,
        ge=0,
        le=1_000_000_000,
        description="Maximum calls to the language model per day (UTC), over all runs.",
    )

    # Reuse
    derivations: str = Field(
        default="disk",
        description="Cache of derived values (parsed files, manifests, summaries, vectors): "
        "`disk` keeps it in the data folder of one machine, `redis` in the cache's Redis for "
        "several machines.",
    )
    derivations_mb: int = Field(
        default=2_048,
        ge=1,
        le=10_000_000,
        description="Maximum size of the derived-value cache, MB; the oldest values are evicted.",
    )

    # Repositories
    local_paths: str = Field(
        default="",
        description="Folders in which local repositories may be indexed, separated by `:`; "
        "empty: none; `owned`: all repositories owned by the user that the server runs as.",
    )
    git_timeout_s: int = Field(
        default=3600, ge=10, le=86_400, description="Timeout of a clone or fetch, seconds."
    )
    git_memory_mb: int = Field(
        default=4_096,
        ge=64,
        le=1_000_000,
        description="Maximum memory of git during a clone or fetch, MB; a run that needs more "
        "fails.",
    )
    plan_timeout_s: int = Field(
        default=300,
        ge=1,
        le=86_400,
        description="Timeout for comparing a commit with the index and reading its manifests and "
        "ignore files, seconds; a run that needs longer fails.",
    )
    max_paths: int = Field(
        default=500_000,
        ge=1,
        le=100_000_000,
        description="Maximum number of files of a commit; a run of a commit with more fails.",
    )
    max_refs: int = Field(
        default=200_000,
        ge=1,
        le=100_000_000,
        description="Maximum number of branches and tags of a repository; a run of a repository "
        "with more fails.",
    )
    max_file_bytes: int = Field(
        default=1_000_000,
        ge=1_000,
        le=50_000_000,
        description="Maximum size of a file, bytes; larger files are skipped. A larger "
        "`.codelodeignore` fails the run.",
    )
    queries: str = Field(
        default="",
        description="Folder with tree-sitter queries `<language>.scm` that replace the built-in "
        "ones; a repository's own queries in `.codelode/queries` take precedence; empty: none.",
    )

    # Jobs
    window: int = Field(
        default=256, ge=1, le=10_000, description="Maximum number of files in flight per run."
    )
    max_attempts: int = Field(
        default=3, ge=1, le=20, description="Attempts per file before it is recorded as failed."
    )
    parse_timeout_s: int = Field(
        default=15,
        ge=1,
        le=600,
        description="Timeout for parsing one file, seconds; the file fails at the second timeout.",
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
        description="Time after which another worker may take over a claimed file, seconds.",
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
        description="Time after which a file whose message was lost is published again, seconds.",
    )
    visibility_timeout_s: int = Field(
        default=60,
        ge=2,
        le=86_400,
        description="Time after which the broker redelivers an unacknowledged job, seconds.",
    )

    # Search
    cache_entries: int = Field(
        default=10_000,
        ge=0,
        le=10_000_000,
        description="Maximum number of answers in the query cache; 0 disables it.",
    )
    cache_similarity: float = Field(
        default=0.95,
        ge=0.5,
        le=1,
        description="Minimum cosine similarity at which the cached answer of another query is "
        "reused. Both queries must have the same filters and the same words, apart from stop "
        "words; 1: only the cached answer of the same query is used.",
    )
    cross_encoder: str = Field(
        default="",
        description="Folder with model.onnx and tokenizer.json for the `cross_encoder` reranker "
        "(requires the extra `onnx`); empty: no such reranker.",
    )
    cache_ttl_s: int = Field(
        default=86_400,
        ge=1,
        le=2_592_000,
        description="Time after which a cached answer expires, seconds.",
    )

    # Gateway
    drain_settle_s: float = Field(
        default=0.0,
        ge=0,
        le=300,
        description="Delay between reporting unhealthy and closing, so that load balancers "
        "notice, seconds.",
    )

    # Limits and traces of calls
    limits: Literal["auto", "on", "off"] = Field(
        default="auto",
        description="Whether the gateway limits the calls of each principal; `auto`: if it listens "
        "on an address other than loopback.",
    )
    search_per_minute: int = Field(
        default=1_200,
        ge=0,
        le=10_000_000,
        description="Maximum searches and lists per minute of one principal; 0: not limited.",
    )
    search_at_once: int = Field(
        default=16,
        ge=0,
        le=100_000,
        description="Maximum concurrent searches and lists of one principal; 0: not limited.",
    )
    context_per_minute: int = Field(
        default=300,
        ge=0,
        le=10_000_000,
        description="Maximum calls of context, explain, and graph per minute of one principal; "
        "0: not limited.",
    )
    context_at_once: int = Field(
        default=8,
        ge=0,
        le=100_000,
        description="Maximum concurrent calls of context, explain, and graph of one principal; "
        "0: not limited.",
    )
    write_per_minute: int = Field(
        default=600,
        ge=0,
        le=10_000_000,
        description="Maximum calls per minute of one principal that index, cancel, or remove; "
        "0: not limited.",
    )
    write_at_once: int = Field(
        default=8,
        ge=0,
        le=100_000,
        description="Maximum concurrent calls of one principal that index, cancel, or remove; "
        "0: not limited.",
    )
    wrong_credentials_per_minute: int = Field(
        default=30,
        ge=1,
        le=10_000_000,
        description="Maximum calls with wrong credentials per minute from one address; after that, "
        "credentials that were not accepted before are refused without being checked.",
    )
    audit_log: str = Field(
        default="",
        description="File to which the gateway writes who called what, as JSON lines; empty: none. "
        "Each gateway needs a file of its own.",
    )
    audit_log_mb: int = Field(
        default=100, ge=1, le=1_000_000, description="Size at which the audit log is rotated, MB."
    )
    audit_log_files: int = Field(
        default=10, ge=1, le=1_000, description="Rotated files of the audit log that are kept."
    )
    audit_reads: bool = Field(
        default=True,
        description="Whether the audit log has searches and other reads too; it always has calls "
        "that change something or need the role admin, and calls without valid credentials.",
    )
    audit_queries: bool = Field(
        default=False, description="Whether the audit log has the text of queries."
    )

    # Logging
    log_format: Literal["auto", "json", "console"] = Field(
        default="auto",
        description="Log format; `auto`: readable lines on a terminal, JSON otherwise.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Minimum level of logged events."
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read only arguments and variables: the source of .env files is slow even without one."""
        return init_settings, env_settings

    @field_validator("weaviate_url", "ollama_url", "openai_url")
    @classmethod
    def _is_web(cls, url: str, info: ValidationInfo) -> str:
        example = cls.model_fields[info.field_name or ""].default
        return _checked_url(url, schemes=_WEB, example=example)

    @field_validator("oidc_issuers")
    @classmethod
    def _are_issuers(cls, text: str) -> str:
        for url in listed(text):
            _checked_url(url, schemes=_WEB, example="https://login.example.com/realms/main")
            if not is_confidential(url):
                raise PydanticCustomError("issuer", "must start with https://")
        return text

    @field_validator("oidc_algorithms")
    @classmethod
    def _are_algorithms(cls, text: str) -> str:
        if not listed(text) or not set(listed(text)) <= set(_ALGORITHMS):
            raise PydanticCustomError(
                "algorithms", "choose from {known}", {"known": ", ".join(_ALGORITHMS)}
            )
        return text

    @field_validator(*BACKENDS)
    @classmethod
    def _is_registered(cls, name: str, info: ValidationInfo) -> str:
        known = registry.choices(info.field_name or "")
        if name not in known:
            raise PydanticCustomError("choice", "choose {known}", {"known": " or ".join(known)})
        return name

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

    def shared_token(self) -> str:
        """Return the secret that clients send; empty: none is required.

        Raises InvalidSettings if the file that should hold it cannot be read or is empty.
        """
        given = self.token.get_secret_value()
        if given or not self.token_file:
            return given
        return read_secret(Path(self.token_file).expanduser())

    def oidc_client(self) -> str:
        """Return the id of the web page at the issuers."""
        return self.oidc_client_id or self.oidc_audience

    def environment(self) -> dict[str, str]:
        """Return the environment of a child process that has these settings."""
        values = {f"{PREFIX}{name.upper()}": _plain(value) for name, value in self}
        return {**os.environ, **values}


def listed(text: str) -> tuple[str, ...]:
    """Return the values of a setting that has several, separated by commas."""
    return tuple(one.strip() for one in text.split(",") if one.strip())


def _checked_url(
    url: str, *, schemes: tuple[str, ...], example: str, needs_host: bool = True
) -> str:
    if not is_server_url(url, schemes, needs_host=needs_host):
        raise PydanticCustomError(
            "url", "is not the URL of a server; for example {e}", {"e": example}
        )
    return url


def _shown(value: object) -> str:
    return repr(_CREDENTIALS.sub(r"\1…@", value) if isinstance(value, str) else value)


def _plain(value: object) -> str:
    """Return the text of a value for its variable; str() of a secret would be asterisks."""
    return value.get_secret_value() if isinstance(value, SecretStr) else str(value)


def load(**overrides: object) -> Settings:
    """Read the settings from the environment, with the given fields replaced.

    Raises InvalidSettings that names each invalid variable, its value, and what is allowed.
    """
    try:
        return Settings(**overrides)  # type: ignore[arg-type]
    except ValidationError as exc:
        problems = "; ".join(
            f"{PREFIX}{str(error['loc'][0]).upper()}={_shown(error['input'])}: {error['msg']}"
            for error in exc.errors()
        )
        raise InvalidSettings(problems) from exc


def unknown_variables(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the unknown variables with our prefix, each with the most similar setting.

    The text is empty if no setting is similar. A misspelt variable would have no effect, so a
    process logs a warning for each when it starts.
    """
    names = {name: name.upper().removeprefix(PREFIX).lower() for name in sorted(environment)}
    return {
        name: _nearest(stem)
        for name, stem in names.items()
        if name.upper().startswith(PREFIX)
        and stem not in Settings.model_fields
        and stem not in _READ_ELSEWHERE
        and not stem.startswith(_SET_BY_KUBERNETES)
    }


def _nearest(stem: str) -> str:
    found = get_close_matches(stem, Settings.model_fields, n=1, cutoff=_MIN_SIMILARITY)
    return f"{PREFIX}{found[0].upper()}" if found else ""


def require_same_settings(own: Mapping[str, str], workers: Mapping[str, str]) -> None:
    """Raise InvalidSettings if a setting of the running workers differs from that of this command.

    Both map names of fields to values as text; only those in `workers` are compared.
    """
    for name, value in workers.items():
        if own.get(name) != value:
            raise InvalidSettings(
                f"the workers run with CODELODE_{name.upper()}={value!r}, but this command with "
                f"{own.get(name, '')!r}: run it with the same settings"
            )
