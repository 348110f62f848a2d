"""Run the workers of one stage, or beat, which sends the periodic jobs: `python -m workers NAME`.

NAME is beat or the name of a row in `codelode.stages.STAGES`. `python -m workers fork-server`
starts a process that forks workers or beat on request (`workers.fork_server`).
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
from pathlib import Path

from codelode import garbage
from codelode.backends import registry
from codelode.files import make_private
from codelode.settings import Settings, load
from codelode.stages import PULL, STAGES, served
from workers import fork_server
from workers.delivery.configuration import configured, log_by

BY_NAME = {stage.name: stage for stage in STAGES}


def main() -> None:
    if len(sys.argv) > 1 and sys.argv[1].rstrip() == fork_server.ARGUMENT:
        # Returns in forked workers only, with their arguments in sys.argv.
        fork_server.serve((*fork_server.PRELOADED, *registry.modules(load())))
    parser = argparse.ArgumentParser(prog="python -m workers", description=__doc__)
    parser.add_argument("name", choices=[*BY_NAME, "beat"])
    parser.add_argument("--concurrency", type=int, help="pool size; default: the stage's own")
    args = parser.parse_args()
    settings = load()
    log_by(settings)
    if args.name == "beat":
        _run_beat(settings)
    else:
        sys.exit(_run_worker(args.name, args.concurrency))


def _run_beat(settings: Settings) -> None:
    """Run beat as `_run_worker` runs a worker, but without importing the code of the stages."""
    app = configured(settings)
    make_private(Path(app.conf.beat_schedule_filename).parent)
    app.Beat(quiet=True).run()


def _run_worker(name: str, concurrency: int | None) -> int:
    """Run until a signal ends the worker, and return its exit status.

    Celery's own command line would import all of its plugins, among them Flower with its web
    server, which takes a third of a worker's start-up time. `quiet` suppresses the banner, so that
    the log is JSON from its first line.
    """
    with garbage.postponed():
        from workers import confined
        from workers.delivery.app import app

    stage = BY_NAME[name]
    if stage is PULL:
        confined.prepare()
    app.conf.broker_transport_options["gathers_s"] = stage.gathers_s
    worker = app.Worker(
        hostname=f"{name}@{socket.gethostname()}",
        queues=",".join(served(stage)),
        pool_cls=stage.pool,
        concurrency=concurrency or stage.concurrency or os.cpu_count() or 2,
        prefetch_multiplier=stage.prefetch,
        without_gossip=True,
        without_mingle=True,
        quiet=True,
    )
    worker.start()
    return int(worker.exitcode or 0)


if __name__ == "__main__":
    main()
