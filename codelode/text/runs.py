"""Describe runs, in the words that all faces share."""

from __future__ import annotations

from codelode.counts import counted
from codelode.display import plain
from codelode.model import Run, RunState


def run_state(run: Run) -> str:
    """Return `indexing`, `complete`, `complete without 303 summaries`."""
    missing = run.summaries_missing
    if run.state is not RunState.COMPLETE or not missing:
        return run.state.value
    return f"{run.state.value} without {counted(missing, 'summary')}"


def run_note(run: Run) -> str:
    """Return one line: why a run failed, else what it waits for, else its notices."""
    return " ".join((run.error or run.waits_for or "; ".join(run.notices)).split())


def run_line(run: Run) -> str:
    """Return `acme/http  complete  120 files, 3 skipped, 1 failed  at 1a2b3c4d5e6f  run 7f…`."""
    parts = [run.repository, run_state(run)]
    if run.state.is_over:
        counts = [counted(run.done, "file"), f"{run.skipped:,} skipped", f"{run.failed:,} failed"]
        parts.append(", ".join(counts))
    if run.revision:
        parts.append(f"at {run.revision[:12]}")
    if run.started_at and run.finished_at:
        parts.append(f"in {run.finished_at - run.started_at:.1f} s")
    parts.append(f"run {run.id}")
    return plain("  ".join(parts))
