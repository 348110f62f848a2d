"""`codelode doctor`: check that ledger, index, graph, symbol table, and mirrors agree."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import click

from codelode import scopes, sources
from codelode.backends import engine, registry
from codelode.cli import printing
from codelode.cli.stores import data_option, stores
from codelode.declarations import problem_of
from codelode.operations.doctor import Doctor, Finding, Report
from codelode.ports import ChunkStore
from codelode.settings import Settings

FOUND = 1


@click.command()
@click.option(
    "--repair",
    is_flag=True,
    help="Remove data that belongs to no repository, and index lost files again.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for machines.")
@data_option
@click.pass_context
def doctor(context: click.Context, *, repair: bool, as_json: bool, data: Path | None) -> None:
    """Compare ledger, chunk index, graph, symbol table, and mirrors; report differences.

    Run it on a machine that reaches the stores, with the settings of the workers; the cluster need
    not run. Repositories that are being indexed are skipped. With --repair, data that belongs to no
    repository is removed, and files that the index has lost are indexed again by a new run, as soon
    as workers run. A sources file or a scopes file that cannot be used is also reported. Exit
    status: 0 healthy or repaired, 1 something was found, 2 error.

    \b
    Examples:
      codelode doctor
      codelode doctor --repair
      codelode doctor --json | jq '.findings[].trouble'
    """
    with stores(data) as settings:
        report = _examined(settings, is_repairing=repair)
    problems = {
        "sources": problem_of(settings.sources, sources.read),
        "scopes": problem_of(settings.scopes, scopes.read),
    }
    if as_json:
        click.echo(printing.to_json({**_plain(report), **problems}))
    else:
        _show(report, is_repairing=repair)
    found = [problem for problem in problems.values() if problem]
    for problem in found:
        printing.complain(f"running processes keep the last good version of a file: {problem}")
    context.exit(0 if report.is_healthy and not found else FOUND)


def _examined(settings: Settings, *, is_repairing: bool) -> Report:
    store = _Store(settings)
    inventory = registry.inventory(settings)
    indexes = _Indexes(settings)
    examine = Doctor(
        ledger=registry.ledger(settings),
        inventory=inventory,
        store=lambda: store.opened,
        graph=registry.graph(settings),
        symbols=registry.symbols(settings),
        references=registry.references(settings),
        packages=registry.packages(settings),
        table_inventory=registry.table_inventory(settings),
        swap=registry.index_swap(settings),
        indexes=indexes,
        mirrors=settings.mirrors_dir,
        is_repairing=is_repairing,
    )
    try:
        return examine()
    finally:
        inventory.close()
        indexes.close()
        store.close()


class _Store:
    """The write side of the published index, opened only if something has to be removed."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @cached_property
    def opened(self) -> ChunkStore:
        return registry.chunk_store(registry.published(self._settings).settings)

    def close(self) -> None:
        if "opened" in vars(self):
            self.opened.close()


@dataclass(frozen=True)
class _Indexes:
    """The indexes that are neither published nor being built."""

    settings: Settings

    def left_over(self) -> list[str]:
        return [] if registry.index_swap(self.settings).target() else self._beside.others()

    def drop(self, name: str) -> None:
        with registry.index_swap(self.settings).running():
            self._beside.drop(name)

    def close(self) -> None:
        self._beside.close()

    @cached_property
    def _beside(self) -> engine.ShadowIndex:
        # The embedder does not matter here, and the built-in one needs no server.
        return registry.shadow_index(self.settings.model_copy(update={"embedder": "static"}))


def _show(report: Report, *, is_repairing: bool) -> None:
    for finding in report.findings:
        mark = "repaired" if finding.is_repaired else "found"
        click.echo(printing.plain(f"{mark:<9} {finding}"))
    for run in report.runs:
        click.echo(f"started   run {run}, which indexes lost files again")
    if report.busy:
        printing.note(f"skipped, being indexed: {', '.join(report.busy)}")
    if not report.findings:
        printing.note("healthy: ledger, index, graph, symbol table and mirrors agree")
    elif not is_repairing:
        printing.note("`codelode doctor --repair` repairs this")


def _plain(report: Report) -> dict[str, object]:
    return {
        "healthy": report.is_healthy,
        "findings": [_row(finding) for finding in report.findings],
        "busy": report.busy,
        "runs": report.runs,
    }


def _row(finding: Finding) -> dict[str, object]:
    return {
        "trouble": finding.trouble.value,
        "repository": finding.repository,
        "ref": finding.ref,
        "names": list(finding.names),
        "repaired": finding.is_repaired,
        "text": str(finding),
    }
