"""`codelode watch`: keep the uncommitted state of a checkout searchable as a separate ref.

The command commits the state to a ref of the checkout (`codelode.checkouts.working_copy`) and has
the workers index that ref. The workers read the checkout, so they must run on this machine. The
command waits for one run at a time; changes made meanwhile are in the next run.
"""

from __future__ import annotations

import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from codelode.checkouts.changes import UNWATCHED_S, changes
from codelode.checkouts.checkout import Checkout, checkout_at
from codelode.checkouts.working_copy import Snapshot, WorkingCopy, forget, require_no_namesake
from codelode.cli import printing
from codelode.cli.failures import FAILED
from codelode.cli.index import waited
from codelode.cli.options import server_option
from codelode.cluster import split
from codelode.counts import counted
from codelode.errors import InvalidQuery, Unavailable
from codelode.loopback import is_loopback
from codelode.model import WORKING_COPY, Run, RunState

if TYPE_CHECKING:
    from codelode.client import Client


@click.command()
@click.argument("path", default=".", type=click.Path(path_type=Path))
@click.option(
    "--name",
    default="",
    help="Register the checkout under this name. Default: the name that it is registered under, "
    "or else that of its folder.",
)
@click.option("--once", is_flag=True, help="Index the present state, and end.")
@click.option(
    "--remove",
    is_flag=True,
    help="Remove the ref of the working copy from the index and from the checkout, and end.",
)
@server_option
@click.pass_context
def watch(
    context: click.Context, *, client: Client, path: Path, name: str, once: bool, remove: bool
) -> None:
    """Keep the checkout at PATH searchable with its uncommitted changes, until Ctrl-C.

    The files are those that `git add --all` would add: tracked, changed, and untracked ones that
    no ignore rule matches. They are searched with `--ref worktree`, and not by searches without
    --ref. The index, the branches, and the hooks of the checkout do not change: the state is
    committed to refs/worktree/codelode/worktree, which `git log --all` shows. The ref stays
    searchable when the command ends; --remove removes it. Untracked files above 50 MB are left out.

    PATH is any folder of a checkout that has a commit. The cluster must run on this machine and be
    allowed to read the checkout. Exit status: 0 ended by Ctrl-C or done, 2 error.

    \b
    Examples:
      codelode watch
      codelode search "retry with back-off" --ref worktree
      codelode watch ~/src/app --once
      codelode watch --remove
    """
    if once and remove:
        raise click.UsageError("--once and --remove exclude each other")
    _require_here(client)
    checkout = checkout_at(path)
    if remove:
        _remove(client, checkout)
        return
    require_no_namesake(checkout)
    with _ended_by_signals(), tempfile.TemporaryDirectory(prefix="codelode-") as scratch:
        watched = _Watched(client, checkout, name, WorkingCopy(checkout, Path(scratch)))
        context.exit(_index_once(watched) if once else _follow(watched))
    printing.note(
        f"ended; the last state stays searchable with --ref {WORKING_COPY}, and "
        "`codelode watch --remove` removes it"
    )


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """End the block without an error at Ctrl-C and at SIGTERM, even if the caller ignores them."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {one: signal.signal(one, signal.default_int_handler) for one in numbers}
    try:
        with suppress(KeyboardInterrupt):
            yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


@dataclass(slots=True)
class _Watched:
    """A checkout, and its state that was indexed last."""

    client: Client
    checkout: Checkout
    name: str
    copy: WorkingCopy
    latest: Snapshot | None = None

    def is_new(self, snapshot: Snapshot) -> bool:
        return self.latest is None or snapshot.revision != self.latest.revision

    def index(self, ref: str) -> Run:
        """Index a ref of the checkout, and return the run when it is over."""
        root = str(self.checkout.root)
        run = self.client.index(root, name=self.name, ref=ref, wait=False)
        return waited(self.client, run)


def _require_here(client: Client) -> None:
    host = split(client.address)[1]
    if not is_loopback(host):
        raise InvalidQuery(
            "path",
            f"the gateway at {client.address} runs on another machine, which cannot read a working "
            "copy of this one: run `codelode up` here, or push a branch and index that with --ref",
        )


def _remove(client: Client, checkout: Checkout) -> None:
    """Remove the ref from the checkout, and from every repository registered with its path."""
    was_there = forget(checkout)
    for one in client.repositories():
        is_here = one.repository.url == str(checkout.root)
        if is_here and any(status.ref == WORKING_COPY for status in one.refs):
            client.remove(one.repository.name, ref=WORKING_COPY)
            printing.note(f"removed {one.repository.name}@{WORKING_COPY}")
            was_there = True
    if not was_there:
        printing.note("nothing to remove: this working copy is not indexed")


def _index_once(watched: _Watched) -> int:
    return _index_default(watched) or _index_state(watched)


def _follow(watched: _Watched) -> int:
    """Index each state of the checkout until Ctrl-C."""
    if status := _index_default(watched):
        return status
    for _ in changes(watched.checkout.root, on_unwatched=_note_unwatched):
        try:
            _index_state(watched)
        except Unavailable as exc:  # the next check of the checkout tries again
            printing.complain(str(exc))
    return 0


def _note_unwatched(reason: str) -> None:
    printing.note(
        f"the files cannot be watched ({reason}), so they are checked every {UNWATCHED_S:g} s; "
        "if a limit is reached, raise fs.inotify.max_user_watches"
    )


def _index_default(watched: _Watched) -> int:
    """Index the default ref first, because the first indexed ref could become the default."""
    run = watched.index("")
    if run.state is RunState.COMPLETE:
        watched.name = run.repository
        return 0
    printing.complain(f"{run.repository}: {run.error or f'the run was {run.state}'}")
    return FAILED


def _index_state(watched: _Watched) -> int:
    """Index the present state of the checkout unless that is done; return the exit status."""
    snapshot = watched.copy.snapshot()
    if not watched.is_new(snapshot):
        return 0
    for line in _remarks(snapshot, watched.latest):
        printing.note(line)
    run = watched.index(WORKING_COPY)
    watched.latest = snapshot  # even if the run failed: another run would fail too
    click.echo(_line(run))
    if run.state is not RunState.COMPLETE:
        printing.complain(f"{run.repository}: {run.error or f'the run was {run.state}'}")
        return FAILED
    return 0


def _remarks(snapshot: Snapshot, before: Snapshot | None) -> Iterator[str]:
    known = before.left_out if before else ()
    for path in snapshot.left_out:
        if path not in known:
            kind = "a separate repository" if path.endswith("/") else "untracked and too large"
            yield f"left out: {path} is {kind}"


def _line(run: Run) -> str:
    """Return `12:30:01  acme/http@worktree  complete  3 files in 0.8 s`."""
    took = f" in {run.finished_at - run.started_at:.1f} s" if run.finished_at else ""
    changed = counted(run.done, "file")
    at = time.strftime("%H:%M:%S")
    return printing.plain(f"{at}  {run.repository}@{WORKING_COPY}  {run.state}  {changed}{took}")
