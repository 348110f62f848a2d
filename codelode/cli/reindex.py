"""`codelode reindex`: rebuild the index for another embedder while searches go on.

`python -m workers.reindex` does the work on this machine, which must reach the store, Redis, and
the model. This command starts it with the right settings and shows its progress.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from codelode.backends import registry
from codelode.cli import printing
from codelode.cli.progress import LOG_INTERVAL_S, bar
from codelode.cli.stores import data_option, require_data, require_redis
from codelode.cluster import running_cluster
from codelode.counts import counted, plural
from codelode.environment import without_token
from codelode.errors import CodelodeError, Corrupt
from codelode.settings import Settings, load

#: Values of the settings that mean the embedder's default model and the model's own dimensions.
_UNSET = ("", "0")

_WORKER = (sys.executable, "-P", "-m", "workers.reindex")


@click.command()
@click.option(
    "--embedder",
    type=click.Choice(registry.choices("embedder")),
    help="Embed with the built-in model, an Ollama server, or a server with the OpenAI API. "
    "Default: CODELODE_EMBEDDER.",
)
@click.option(
    "--model",
    metavar="NAME",
    help="Use this model of the server. Default: CODELODE_EMBEDDING_MODEL.",
)
@click.option(
    "--dim",
    type=click.IntRange(0, 16_384),
    help="Request vectors of this many dimensions; 0 takes those of the model. Default: "
    "CODELODE_EMBEDDING_DIM.",
)
@data_option
@click.option(
    "--skip-missing",
    is_flag=True,
    help="Publish the new index even if some files or summaries cannot be copied.",
)
@click.option(
    "--drop", is_flag=True, help="Remove the unfinished index of an interrupted reindex, and exit."
)
@click.pass_context
def reindex(
    context: click.Context,
    *,
    embedder: str | None,
    model: str | None,
    dim: int | None,
    data: Path | None,
    skip_missing: bool,
    drop: bool,
) -> None:
    """Rebuild the index for another embedding model while searches go on.

    Builds a shadow index and swaps it in when it is complete; then all processes switch to it and
    its embedder without a restart. Cached parse results and summaries are reused. The cluster must
    run. Run the command on a machine that reaches the store, Redis, the mirrors, and the model,
    with the settings of the workers. After an interruption, the same command continues; --drop
    discards the new index.

    \b
    Examples:
      codelode reindex --embedder ollama
      codelode reindex --embedder openai --model text-embedding-3-large --dim 1024
      codelode reindex --drop
    """
    settings = _settings(data, embedder=embedder, model=model, dim=dim)
    options = ["--drop"] * drop + ["--skip-missing"] * skip_missing
    end = _shown(_run(settings, options))
    click.echo(_outcome(end))


def _settings(
    data: Path | None, *, embedder: str | None, model: str | None, dim: int | None
) -> Settings:
    """Return the settings of the environment, of the running cluster, and of the options."""
    base = load(**({} if data is None else {"data": data}))
    cluster = running_cluster(base.data_dir)
    if cluster is None:
        require_data(base, named=data)
        require_redis(base)
    changed: dict[str, object] = {"data": base.data_dir}
    if cluster is not None:
        changed["redis_url"] = cluster.redis
    if embedder is not None and embedder != base.embedder:
        changed |= {"embedder": embedder, "embedding_model": "", "embedding_dim": 0}
    if model is not None:
        changed["embedding_model"] = model
    if dim is not None:
        changed["embedding_dim"] = dim
    return base.model_copy(update=changed)


def _run(settings: Settings, options: list[str]) -> Iterator[Mapping[str, Any]]:
    """Yield the reports of the process until it ends."""
    with subprocess.Popen(
        [*_WORKER, *options],
        env=without_token(settings.environment()),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield from map(json.loads, process.stdout)
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)
            printing.note(
                "interrupted: the same command continues; "
                "`codelode reindex --drop` discards the new index"
            )
            raise


def _shown(told: Iterator[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Show progress on stderr and return the last report. Raises the error that it contains."""
    last: Mapping[str, Any] = {}
    with _Bar() as shown:
        for last in told:
            shown(last)
    if "error" in last:
        raise CodelodeError(last["error"])
    if "state" not in last:
        raise Corrupt("the rebuild ended without a result; run the command again to continue")
    return last


def _outcome(end: Mapping[str, Any]) -> str:
    """Return `published for nomic-embed-text…; removed at-1a2b3c4d5e`."""
    removed = f"; removed {', '.join(end['dropped'])}" if end["dropped"] else ""
    if end["state"] == "dropped":
        return f"removed {', '.join(end['dropped'])}" if removed else "nothing was left over"
    if end["state"] == "unchanged":
        half_built = _half_built(end["half_built"]) if end["half_built"] else ""
        return printing.plain(f"the index already uses {end['embedder']}{removed}{half_built}")
    missing = f", without {counted(end['missing'], 'file')}" if end["missing"] else ""
    if lost := end["summaries_missing"]:
        missing += f", without {counted(lost, 'summary')}, which `codelode enrich` writes again"
    return printing.plain(f"published for {end['embedder']}{missing}{removed}")


def _half_built(choice: Mapping[str, str]) -> str:
    """Return how to continue or drop the unfinished index for these settings."""
    flags = {"embedder": "--embedder", "embedding_model": "--model", "embedding_dim": "--dim"}
    given = (f"{flag} {choice[name]}" for name, flag in flags.items() if choice[name] not in _UNSET)
    return (
        f"; another index is unfinished: `codelode reindex {' '.join(given)}` continues it, "
        "`codelode reindex --drop` removes it"
    )


class _Bar:
    """Shows progress: one redrawn line on a terminal, a line every few seconds elsewhere."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._shown_at = float("-inf")
        self._started_at = time.monotonic()
        self._is_open = False

    def __call__(self, told: Mapping[str, Any]) -> None:
        line = self._line(told)
        now = time.monotonic()
        is_due = self._is_terminal or "exchanged" in told or now - self._shown_at > LOG_INTERVAL_S
        if line and is_due:
            self._shown_at, self._is_open = now, self._is_terminal
            click.echo(
                f"\r{line}\x1b[K" if self._is_terminal else line, err=True, nl=not self._is_open
            )

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_open:
            click.echo(err=True)

    def _line(self, told: Mapping[str, Any]) -> str:
        if "exchanged" in told:
            return "published; the old index is removed when its last searches have ended"
        if "total" not in told:
            return ""
        done, total = told["done"], told["total"]
        rate = done / max(0.5, time.monotonic() - self._started_at)
        files = plural(total, "file")
        return f"rebuilding  {bar(done, max(1, total))}  {done}/{total} {files}, {rate:.0f}/s"
