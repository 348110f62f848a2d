"""Settings: the only reader of the environment.

Each field is the variable `CODELODE_<FIELD>`; its description gives the unit and the bounds are
part of the type. `codelode settings` and the README's table are printed from here.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from codelode.errors import InvalidSettings


class Settings(BaseSettings):
    """Everything an operator can set. Immutable; a worker and the gateway read the same values."""

    model_config = SettingsConfigDict(env_prefix="CODELODE_", frozen=True, extra="forbid")

    # Where things are
    data: Path = Field(
        default=Path("~/.local/share/codelode"),
        description="Folder of the embedded cluster: mirrors, chunk index, job state.",
    )
    redis_url: str = Field(
        default="redis://127.0.0.1:6379/0",
        description="Broker, ledger and graph. `codelode up` starts one and sets this itself.",
    )
    cache_url: str = Field(
        default="", description="Redis for the query cache; empty: the same as redis_url."
    )
    listen: str = Field(default="127.0.0.1:50051", description="Address of the gRPC gateway.")
    server: str = Field(
        default="127.0.0.1:50051", description="Gateway that the command line talks to."
    )
    redis_bin: str = Field(
        default="",
        description="Redis or Valkey program for `codelode up`; empty: PATH, then the wheel's.",
    )

    # Backends
    store: Literal["lance"] = Field(default="lance", description="Chunk store.")
    embedder: Literal["static"] = Field(default="static", description="Embedding model.")

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

    @property
    def data_dir(self) -> Path:
        return self.data.expanduser().resolve()

    @property
    def mirrors_dir(self) -> Path:
        return self.data_dir / "mirrors"

    @property
    def index_dir(self) -> Path:
        return self.data_dir / "index"

    def environment(self) -> dict[str, str]:
        """These settings as variables, for a child process."""
        values = {f"CODELODE_{name.upper()}": str(value) for name, value in self}
        return {**os.environ, **values}


def load(**overrides: object) -> Settings:
    """Settings from the environment, with the given fields replaced.

    Raises InvalidSettings naming each wrong variable, its value and what it should be.
    """
    try:
        return Settings(**overrides)  # type: ignore[arg-type]
    except ValidationError as exc:
        problems = "; ".join(
            f"CODELODE_{str(error['loc'][0]).upper()}={error['input']!r}: {error['msg']}"
            for error in exc.errors()
        )
        raise InvalidSettings(problems) from exc
