"""`codelode demo`: index a repository on a temporary cluster and search it.

The demo does what a user would type: it runs `codelode up` as a separate process and calls it over
gRPC. The data folder is temporary, so nothing of a demo remains.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from codelode.addresses import check_url
from codelode.cli import data_folder, printing
from codelode.cli.failures import report_failed
from codelode.cli.parent_watch import die_with_parent
from codelode.cli.progress import Progress
from codelode.client import Client
from codelode.client.locator import locator
from codelode.cluster import Cluster, running_cluster, token_of
from codelode.counts import counted
from codelode.environment import HTTP_PORT
from codelode.errors import Corrupt, NotFound, TimedOut, Unavailable
from codelode.local_repositories import OWNED
from codelode.model import Run, RunState
from codelode.settings import load
from codelode.text.runs import run_line

#: Maximum time that a cluster takes to start on a busy machine, and to stop, and the interval at
#: which its start is checked, seconds.
START_S = 120.0
STOP_S = 30.0
LOOK_S = 0.05

TERMINATED = 128 + signal.SIGTERM

HITS = 3


@dataclass(frozen=True, slots=True)
class Question:
    """A query, and globs of the files to search."""

    query: str
    paths: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """Return the command that a user would type for the question."""
        options = [word for glob in self.paths for word in ("--path", glob)]
        return shlex.join(["codelode", "search", self.query, *options, "--top-k", str(HITS)])


#: Questions about codelode's own source: in words, a name, and its uses. The paths exclude this
#: file, in which every question would find itself.
OWN_QUESTIONS = (
    Question(
        "how are the rankings of two searches fused into one", ("gateway/**", "codelode/*.py")
    ),
    Question("chunk_id", ("codelode/*.py", "workers/**")),
    Question("where is embedding_text called", ("workers/**", "gateway/**")),
)

#: The query that finds a symbol for the questions about a repository other than codelode.
ANY_QUERY = "main entry point"


@click.command()
@click.argument("repositories", nargs=-1, metavar="[URL_OR_PATH]...")
def demo(repositories: tuple[str, ...]) -> None:
    """Index a repository on a fresh cluster, search it three times, clean up.

    Without an argument, the git checkout that you are in is indexed. The exit status is 0 only if
    every search has found something.

    \b
    Examples:
      codelode demo
      codelode demo https://github.com/pallets/click
    """
    urls = tuple(map(locator, repositories)) or (str(_checkout(Path.cwd())),)
    for url in urls:
        check_url(url, local_paths=load().local_paths or OWNED)  # fail before starting a cluster
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit(TERMINATED)
    )  # the context managers still clean up
    with tempfile.TemporaryDirectory(prefix="codelode-demo-") as temporary:
        data = Path(temporary).resolve()
        with _cluster(data) as (cluster, token), Client(cluster.grpc, token=token) as client:
            runs = [_index(client, url) for url in urls]
            _search(client, _questions(client, runs[0]))
        _check_all_gone(data)
    printing.note("the demo is over; all of its processes and files are removed")
    printing.note(
        f"while `codelode up` runs, the web page is http://127.0.0.1:{HTTP_PORT}; `codelode web` "
        "opens it and signs you in"
    )


@contextmanager
def _cluster(data: Path) -> Iterator[tuple[Cluster, str]]:
    """Run a cluster with its data in the folder; yield it and its token, and stop it at the end."""
    up = (sys.executable, "-P", "-m", "codelode", "up", f"--data={data}")
    # In a new session, Ctrl-C does not reach the process: `_stop` below ends it.
    with subprocess.Popen(
        die_with_parent([*up, "--port=0", "--no-flower"]), start_new_session=True
    ) as process:
        try:
            cluster = _await_ready(process, data)
            yield cluster, token_of(cluster.grpc, data)
        finally:
            _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired as exc:
        process.kill()
        raise TimedOut(f"the cluster did not stop within {STOP_S:g} s and was killed") from exc


def _await_ready(process: subprocess.Popen[bytes], data: Path) -> Cluster:
    deadline = time.monotonic() + START_S
    while (cluster := running_cluster(data)) is None:
        if process.poll() is not None:
            raise Unavailable("the cluster did not start; the lines above say why")
        if time.monotonic() > deadline:
            raise TimedOut(f"the cluster was not ready within {START_S:g} s; see the lines above")
        time.sleep(LOOK_S)
    return cluster


def _index(client: Client, url: str) -> Run:
    printing.note(f"indexing {url}")
    with Progress() as progress:
        run = client.index(url, on_progress=progress)
    click.echo(run_line(run))
    report_failed(client, run)
    if run.state is not RunState.COMPLETE:
        raise Corrupt(f"indexing {url} ended as {run.state}: {run.error}")
    return run


def _search(client: Client, questions: tuple[Question, ...]) -> None:
    """Print the hits of each question. Raises NotFound when one has none."""
    for question in questions:
        result = client.search(question.query, paths=question.paths, top_k=HITS)
        click.echo(click.style(f"\n$ {question.command}", bold=True))
        if not result:
            raise NotFound(f"nothing found by `{question.command}`")
        click.echo("\n\n".join(printing.hit_text(hit, question.query) for hit in result))
        click.echo(f"{counted(len(result), 'hit')} in {result.took_ms:.1f} ms")


def _questions(client: Client, run: Run) -> tuple[Question, ...]:
    """Return three questions about a repository: in words, a name that it has, and its uses."""
    if client.search("chunk_id", paths=["codelode/model.py"], top_k=1):
        return OWN_QUESTIONS
    name = run.repository.rpartition("/")[2]
    symbols = [hit.symbol.rpartition(".")[2] for hit in client.search(ANY_QUERY) if hit.symbol]
    symbol = symbols[0] if symbols else name
    return tuple(map(Question, (f"what is {name} for", symbol, f"where is {symbol} used")))


def _checkout(here: Path) -> Path:
    """Return the root of the git checkout that holds the folder."""
    for candidate in (here, *here.parents):
        if (candidate / ".git").exists():
            return candidate
    raise NotFound(f"{here} is not in a git checkout; name a repository: codelode demo URL_OR_PATH")


def _check_all_gone(data: Path) -> None:
    left = data_folder.members(data)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    if left:
        raise Corrupt(f"processes {sorted(left)} outlived the cluster and were killed")
