"""Show a run's progress on stderr: a redrawn line on a terminal, a line per change elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Self

import click

from codelode.cli.printing import note, plain
from codelode.counts import plural
from codelode.model import Run, RunState
from codelode.text.runs import run_state

BAR_CHARS = 24
#: Interval of redraws on a terminal and of lines in a log, seconds.
TERMINAL_INTERVAL_S = 0.1
LOG_INTERVAL_S = 5.0


class Progress:
    """Shows the runs it is called with; leaving it as a context manager ends the line."""

    def __init__(self, *, is_terminal: bool | None = None) -> None:
        self._is_terminal = sys.stderr.isatty() if is_terminal is None else is_terminal
        self._shown_at = 0.0
        self._state: RunState | None = None
        self._started_at = time.monotonic()
        self._told: set[str] = set()  # reasons for waiting, reported since the run last worked

    def __call__(self, run: Run) -> None:
        if not run.waits_for:
            self._told.clear()
        elif run.waits_for not in self._told:
            self._told.add(run.waits_for)
            self.note(f"{run.repository} waits: {' '.join(run.waits_for.split())}")
        interval_s = TERMINAL_INTERVAL_S if self._is_terminal else LOG_INTERVAL_S
        now = time.monotonic()
        if run.state is self._state and now - self._shown_at < interval_s:
            return
        self._state, self._shown_at = run.state, now
        line = progress_line(run, elapsed_s=now - self._started_at)
        # Erase to the end of the line: the line before may have been longer.
        click.echo(f"\r{line}\x1b[K" if self._is_terminal else line, err=True, nl=self._is_log)

    def note(self, text: str) -> None:
        """Print a separate line below the progress so far."""
        self._end_line()
        self._state = None
        note(text)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end_line()

    def _end_line(self) -> None:
        if self._is_terminal and self._state is not None:
            click.echo(err=True)

    @property
    def _is_log(self) -> bool:
        return not self._is_terminal


def progress_line(run: Run, *, elapsed_s: float) -> str:
    """Return `acme/http  indexing  [######------]  120/240 files, 60/s`."""
    parts = [plain(run.repository), run_state(run)]
    if run.total:
        through = min(run.done + run.failed, run.total)
        parts.append(bar(through, run.total))
        rate = f", {through / elapsed_s:.0f}/s" if through >= elapsed_s > 0.5 else ""
        parts.append(f"{through}/{run.total} {plural(run.total, 'file')}{rate}")
    if run.failed:
        parts.append(f"{run.failed} failed")
    return "  ".join(parts)


def bar(done: int, total: int) -> str:
    """Return `[######------]`."""
    filled = BAR_CHARS * done // total
    return f"[{'#' * filled}{'-' * (BAR_CHARS - filled)}]"
