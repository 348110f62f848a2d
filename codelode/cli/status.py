"""`codelode repos` and `codelode status`: show what is indexed and what the cluster does."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from codelode.cli import printing
from codelode.cli.options import json_option, server_option
from codelode.disk_use import DiskPart, readable
from codelode.model import FilePatterns, LanguageHealth, Run, by_language
from codelode.text.runs import run_note, run_state
from codelode.text.servers import server_state, summary

if TYPE_CHECKING:
    from codelode.client import Client, IndexedRepository, Server, Status

_REPOSITORY_COLUMNS = (
    *("repository", "ref", "commit", "files", "chunks", "failed", "indexed"),
    *("label", "url", "patterns"),
)
_RUN_COLUMNS = ("run", "repository", "ref", "state", "files", "failed", "started", "note")
_HEALTH_COLUMNS = ("language", "files", "ok", "partial", "error", "unsupported")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list, for machines.")
@server_option
def repos(*, client: Client, as_json: bool) -> None:
    """List the repositories and their indexed refs."""
    repositories = client.repositories()
    if as_json:
        click.echo(printing.to_json([_repository_json(each) for each in repositories]))
    elif repositories:
        click.echo(printing.table(_REPOSITORY_COLUMNS, _repository_rows(repositories)))
    else:
        printing.note("no repositories yet; add one with `codelode index URL_OR_PATH`")


@click.command()
@json_option
@server_option
def status(*, client: Client, as_json: bool) -> None:
    """Show repositories, parse results by language, recent runs, queues, and workers.

    Admins who see every repository also see the disk use and the memory of Redis, measured within
    the last minutes.

    The last column of the runs says why a run failed, what it waits for (for example a model
    server that does not answer), or what may be unexpected about it (for example that another ref
    is the default).

    \b
    Examples:
      codelode status
      codelode status --json | jq .repositories
    """
    state = client.status()
    click.echo(printing.to_json(_status_json(state)) if as_json else _status_text(state))


def _status_text(state: Status) -> str:
    parts = [printing.plain(summary(state.version, state.chunks, state.store, state.embedder))]
    if state.servers:
        parts.append(printing.table(("server", "name", "state"), map(_server_row, state.servers)))
    if state.repositories:
        parts.append(printing.table(_REPOSITORY_COLUMNS, _repository_rows(state.repositories)))
    if health := _health(state.repositories):
        parts.append(printing.table(_HEALTH_COLUMNS, map(_health_row, health)))
    if state.runs:
        parts.append(printing.table(_RUN_COLUMNS, map(_run_row, state.runs)))
    if state.queues:
        rows = [
            (queue.name, queue.messages, queue.workers if queue.workers >= 0 else "?")
            for queue in state.queues
        ]
        parts.append(printing.table(("queue", "messages", "workers"), rows))
    if state.disk:
        parts.append(printing.table(("disk", "size", "measured"), map(_disk_row, state.disk)))
    parts += [printing.plain(f"problem: {problem}") for problem in state.problems]
    return "\n\n".join(parts)


def _server_row(one: Server) -> tuple[object, ...]:
    return one.role, one.name or "-", server_state(one.problem)


def _disk_row(one: DiskPart) -> tuple[object, ...]:
    return one.part, readable(one.size_bytes), printing.moment(one.measured_at)


def _repository_rows(
    repositories: tuple[IndexedRepository, ...],
) -> Iterator[tuple[object, ...]]:
    for each in repositories:
        name, url, label = each.repository.name, each.repository.url, each.repository.label or "-"
        patterns = _options(each.repository.patterns)
        if not each.refs:
            yield name, "-", "-", 0, 0, 0, "-", label, url, patterns
        for ref in each.refs:
            commit = (ref.indexed or "-")[:12]
            indexed = printing.moment(ref.indexed_at)
            counts = (ref.files, ref.chunks, ref.failed)
            yield name, ref.ref, commit, *counts, indexed, label, url, patterns


def _options(patterns: FilePatterns) -> str:
    """Return the patterns as a user types them: `--include src/ --exclude '*.snap'`."""
    sides = (("--include", patterns.include), ("--exclude", patterns.exclude))
    return shlex.join(word for option, some in sides for one in some for word in (option, one))


def _health(repositories: tuple[IndexedRepository, ...]) -> list[LanguageHealth]:
    """Sum the parse results of all default refs by language, most files first."""
    return by_language(one for each in repositories for ref in each.refs[:1] for one in ref.health)


def _health_row(one: LanguageHealth) -> tuple[object, ...]:
    return one.language, one.files, one.ok, one.partial, one.error, one.unsupported


def _run_row(run: Run) -> tuple[object, ...]:
    files = f"{run.done + run.failed}/{run.total}"
    started = printing.moment(run.started_at)
    state, note = run_state(run), run_note(run)
    return run.id, run.repository, run.ref, state, files, run.failed, started, note


def _repository_json(each: IndexedRepository) -> dict[str, object]:
    refs = [
        {
            "ref": ref.ref,
            "revision": ref.indexed,
            "files": ref.files,
            "skipped": ref.skipped,
            "failed": ref.failed,
            "chunks": ref.chunks,
            "indexed_at": ref.indexed_at,
            "health": [asdict(one) for one in ref.health],
        }
        for ref in each.refs
    ]
    return {**asdict(each.repository), "refs": refs}


def _status_json(state: Status) -> dict[str, object]:
    return {
        "version": state.version,
        "store": state.store,
        "embedder": state.embedder,
        "chunks": state.chunks,
        "repositories": [_repository_json(each) for each in state.repositories],
        "runs": [asdict(run) for run in state.runs],
        "queues": [asdict(queue) for queue in state.queues],
        "problems": list(state.problems),
        "disk": [asdict(one) for one in state.disk],
        "servers": [asdict(one) for one in state.servers],
    }
