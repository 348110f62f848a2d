"""`codelode regroup`: give repositories the groups that follow from the current rights."""

from __future__ import annotations

import time
from pathlib import Path

import click

from codelode.backends import registry
from codelode.cli import printing
from codelode.cli.stores import data_option, stores
from codelode.counts import counted
from codelode.errors import InvalidSettings, Unavailable
from codelode.ports import RegroupingStates
from codelode.regrouping import RegroupingState

LEFT = 1

#: Interval at which the state is read, seconds.
LOOK_S = 1.0

#: Time within which a worker begins, seconds; the periodic task runs every few seconds.
BEGINS_S = 60.0


@click.command()
@data_option
@click.pass_context
def regroup(context: click.Context, *, data: Path | None) -> None:
    """Rewrite the repositories whose groups no longer match the current rights.

    Groups keep searches fast for callers who see thousands of repositories. They are derived from
    the rights that are in force when a repository is first indexed. After large changes of labels,
    permissions, the access file, or the globs of keys, the workers regroup the repositories by
    themselves, within 15 minutes of a search whose filter is long; this command lets them begin at
    once. The repositories concerned are processed again, with cached summaries and vectors;
    searches go on. The cluster must run. Run the command on a machine that reaches Redis, with the
    settings of the workers. If you interrupt it, regrouping goes on. Exit status: 0 done, 1 a run
    has failed, 2 error.

    \b
    Example:
      codelode regroup
    """
    with stores(data) as settings:
        if not registry.STORES[settings.store].has_groups:
            raise InvalidSettings(
                f"the store {settings.store} needs no groups: it filters by names"
            )
        left = _regrouped(registry.regrouping_states(settings))
    if left:
        printing.complain(
            f"{counted(len(left), 'repository')} could not be rewritten, such as {left[0]}: "
            "see `codelode status`, and run the command again; until then searches filter by name"
        )
        context.exit(LEFT)


def _regrouped(states: RegroupingStates) -> tuple[str, ...]:
    """Ask for a regrouping, show its progress, and return the repositories that it left out."""
    request, told = states.want(), ""
    gives_up_at = time.monotonic() + BEGINS_S
    while not _is_over(state := states.state(), request, states.wanted()):
        if state.is_active:
            gives_up_at = time.monotonic() + BEGINS_S
        if state.answers == request and (now := _progress(state)) != told:
            click.echo(now, err=True)
            told = now
        if time.monotonic() > gives_up_at:
            raise Unavailable(
                f"no worker has begun to regroup within {BEGINS_S:.0f} s: start the workers, which "
                "then do it, or see their log"
            )
        time.sleep(LOOK_S)
    click.echo(_progress(state), err=True)
    return state.left


def _is_over(state: RegroupingState, request: str, latest: str) -> bool:
    """Return whether this request, or a later one, has been answered."""
    return not state.is_active and state.answers in (request, latest)


def _progress(state: RegroupingState) -> str:
    return f"{state.done} of {counted(state.total, 'repository')}"
