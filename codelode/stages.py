"""The stages of indexing, one row each, in the order in which a file passes them.

To add a stage, add a row here and write the function that it names. Everything else derives from
the rows: queues, Celery tasks and their routing, the worker processes of `codelode up`, the worker
services that docker-compose.yml must have, and what the ledger knows of stages.

The table is in the kernel because the gateway (queue depths) and the command line (processes) need
the names. Functions are named as `module:function`; only the workers import them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from codelode.settings import Settings

#: The queue of periodic jobs, which the workers of the first row serve, too.
CONTROL = "control"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The rules by which files gather for calls of a stage's function, one call per run.

    A batch is complete when it has `files` files or `bytes` bytes of them, when no file arrived for
    `lull_s` seconds, or `wait_s` seconds after its first file. If `fills` is set, a pause in
    arrivals does not complete the batch while more files of its runs are in flight. The files of
    other runs wait for one batch, so `bytes` bounds their delay.
    """

    files: int
    bytes: int = 1 << 20  # one file may have more
    lull_s: float
    wait_s: float
    fills: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage: a queue, a Celery task, and a worker process of the same name.

    `work`: the function that does the work, as `module:function`. The function of the first row
    plans whole runs (`workers.planning`); the others process files (`workers.stages`).
    `known`: the function that looks up earlier results, with which a file skips the stage.
    `needs`: the parts that the stage requires; a file that lacks one starts over at the first
    stage. `takes`: the parts that the stage uses if the file has them. `prepare`: the function that
    is called before a file is indexed; it returns None if the stage has what it needs of the run's
    commit, or else a function that gets it, which may take long.
    `batch`: None means that the function is called with one file at a time. `is_exclusive`: the
    published index must not be swapped during a call. `is_passed`: whether files pass the stage
    under these settings.

    `concurrency`: the number of processes or threads in the pool; 0 means one per core.
    `prefetch`: how many messages each of them reserves ahead. `gathers_s`: how many seconds
    messages collect in the queue before the worker takes more.
    `timeout_setting`: the setting that limits the duration of a job. Only a "prefork" stage can
    have one, because the pool enforces it by killing the process.
    """

    name: str
    work: str
    pool: Literal["threads", "prefork"]
    concurrency: int
    known: str = ""
    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    prepare: str = ""
    batch: Batch | None = None
    is_exclusive: bool = False
    is_passed: Callable[[Settings], bool] = lambda _: True
    prefetch: int = 1
    gathers_s: float = 0.0
    timeout_setting: str = ""

    @property
    def task(self) -> str:
        """The name of the stage's Celery task."""
        return f"workers.{self.name}"


def has_language_model(settings: Settings) -> bool:
    """Return whether summaries are written."""
    return settings.language_model != "none"


#: Time for which messages of file stages gather, seconds: receiving each one separately takes up to
#: twice the processor time. Shorter than parsing the prefetched files takes.
GATHERS_S = 0.05

#: `embed`: with a lull of 0.03 s batches have 6 files, and each call has a few round trips of its
#: own. `store`: each call is a commit; 16 files take 3.4 ms of processor time each, 128 take 1.5.
#: Its pool has a thread for each file of the default window: a batch is written while the next
#: gathers.
STAGES = (
    Stage(
        name="pull",
        work="workers.planning:plan",
        pool="threads",
        concurrency=64,  # most of them wait for remotes; transfers have a separate limit
    ),
    Stage(
        name="parse",
        work="workers.stages:parse_file",
        known="workers.stages:parsed_before",
        pool="prefork",
        concurrency=0,
        prefetch=8,
        gathers_s=GATHERS_S,
        timeout_setting="parse_timeout_s",
    ),
    Stage(
        name="enrich",
        work="workers.stages:enrich_files",
        needs=("parsed",),
        batch=Batch(files=8, lull_s=0.05, wait_s=0.05),
        is_passed=has_language_model,
        pool="threads",
        concurrency=32,
        gathers_s=GATHERS_S,
    ),
    Stage(
        name="embed",
        work="workers.stages:embed_files",
        known="workers.stages:embedded_before",
        needs=("parsed",),
        takes=("summaries",),
        batch=Batch(files=64, lull_s=0.1, wait_s=0.5),
        pool="threads",
        concurrency=64,
        gathers_s=GATHERS_S,
    ),
    Stage(
        name="store",
        work="workers.stages:store_files",
        needs=("parsed", "vectors"),
        takes=("summaries",),
        prepare="workers.layouts:prepare",
        batch=Batch(files=128, lull_s=0.03, wait_s=1.5, fills=True),
        is_exclusive=True,
        pool="threads",
        concurrency=256,
        gathers_s=GATHERS_S,
    ),
)

PULL = STAGES[0]

#: A file begins at the first of these. Removals and skipped files only pass the last one.
FILE_STAGES = STAGES[1:]
LAST = FILE_STAGES[-1]


def passed(settings: Settings, stages: Sequence[Stage] = FILE_STAGES) -> tuple[Stage, ...]:
    """Return the stages that files pass under these settings."""
    return tuple(stage for stage in stages if stage.is_passed(settings))


def begins_at(*, is_removal: bool, stages: Sequence[Stage] = FILE_STAGES) -> Stage:
    """Return the stage at which a file of a run begins."""
    return stages[-1] if is_removal else stages[0]


def queues(stages: Sequence[Stage] = STAGES) -> tuple[str, ...]:
    """Return the names of all queues, in pipeline order."""
    return (CONTROL, *(stage.name for stage in stages))


def served(stage: Stage) -> tuple[str, ...]:
    """Return the queues that the stage's worker process takes messages from."""
    return (CONTROL, stage.name) if stage is PULL else (stage.name,)
