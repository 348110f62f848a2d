"""`codelode regroup`: give repositories the groups that follow from the current rights."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import click

from codelode.backends import registry
from codelode.cli import printing
from codelode.cli.stores import data_option, stores
from codelode.counts import counted
from codelode.errors import InvalidSettings
from codelode.grouping import find_teams, rights
from codelode.host_permissions import HostPermissions
from codelode.operations.regrouping import Regrouping
from codelode.settings import Settings

LEFT = 1


@click.command()
@data_option
@click.pass_context
def regroup(context: click.Context, *, data: Path | None) -> None:
    """Rewrite the repositories whose groups no longer match the current rights.

    Groups keep searches fast for callers who see thousands of repositories. They are derived from
    the rights that are in force when a repository is first indexed, so run this command after large
    changes of labels, permissions, the access file, or the globs of keys. The repositories
    concerned are processed again, with cached summaries and vectors; searches go on. The cluster
    must run. Run the command on a machine that reaches Redis and Weaviate, with the settings of the
    workers. After an interruption, the same command continues. Exit status: 0 done, 1 a run has
    failed, 2 error.

    \b
    Example:
      codelode regroup
    """
    with stores(data) as settings:
        left = _regrouped(settings)
    if left:
        printing.complain(
            f"{counted(len(left), 'repository')} could not be rewritten, such as {left[0]}: "
            "see `codelode status`, and run the command again; until then searches filter by name"
        )
        context.exit(LEFT)


def _regrouped(settings: Settings) -> tuple[str, ...]:
    if not registry.STORES[settings.store].has_groups:
        raise InvalidSettings(f"the store {settings.store} needs no groups: it filters by names")
    ledger, swap = registry.ledger(settings), registry.index_swap(settings)
    states = registry.permission_states(settings)

    def flush() -> None:
        with swap.alone():
            pass  # taking the lock waits for writes in progress, including those of ended runs

    @lru_cache
    def permissions(connection: str, version: str) -> HostPermissions | None:
        return states.permissions(connection)

    find_teams(states, permissions, are_wanted_again=True)
    regroup = Regrouping(ledger, lambda: registry.inventory(settings), flush, _tell)
    return regroup(rights(ledger, registry.api_keys(settings), states, permissions))


def _tell(done: int, total: int) -> None:
    click.echo(f"{done} of {counted(total, 'repository')}", err=True)
