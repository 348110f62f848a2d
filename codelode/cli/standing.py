"""What is to be said of repositories beside the files that failed, read from a status.

A repository that cannot even be cloned has no file that failed, and is anything but well.
"""

from __future__ import annotations

from codelode.client import IndexedRepository, Status
from codelode.model import Run, RunState


def troubles(state: Status, name: str | None) -> list[str]:
    """Why the named repository, or each of all, is not in the index as it should be."""
    last: dict[str, Run] = {}
    for run in state.runs:  # newest first
        last.setdefault(run.repository, run)
    found = ((each, last.get(each.repository.name)) for each in _asked_for(state, name))
    return [
        f"{each.repository.name}: {text}" for each, run in found if (text := _trouble(each, run))
    ]


def left_out(state: Status, name: str | None) -> str:
    """`8 were left out on purpose: …` of the named repository or all; empty when none was."""
    count = sum(ref.skipped for each in _asked_for(state, name) for ref in each.refs)
    if not count:
        return ""
    were, them = ("was", "it") if count == 1 else ("were", "them")
    command = " ".join(filter(None, ("codelode failures", name, "--all")))
    return f"{count:,} {were} left out on purpose: `{command}` lists {them}"


def _asked_for(state: Status, name: str | None) -> list[IndexedRepository]:
    return [each for each in state.repositories if not name or each.repository.name == name]


def _trouble(repository: IndexedRepository, last: Run | None) -> str:
    if last is not None and last.state is RunState.FAILED:
        return f"its last run failed: {last.error}; `codelode index` tries again"
    if last is not None and last.state is RunState.CANCELLED:
        return "its last run was cancelled; `codelode index` goes on"
    if last is None and not any(ref.indexed for ref in repository.refs):
        return "nothing of it is indexed yet; `codelode index` does it"
    return ""
