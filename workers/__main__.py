"""Run the workers of one stage, or beat, which sends the periodic jobs: `python -m workers NAME`.

NAME is beat or the name of a row in `codelode.stages.STAGES`.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from codelode.stages import STAGES, served
from workers.delivery.app import app

BY_NAME = {stage.name: stage for stage in STAGES}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m workers", description=__doc__)
    parser.add_argument("name", choices=[*BY_NAME, "beat"])
    parser.add_argument("--concurrency", type=int, help="pool size; default: the stage's own")
    args = parser.parse_args()
    app.start(_arguments(args.name, args.concurrency))


def _arguments(name: str, concurrency: int | None) -> list[str]:
    # --quiet: no banner, so that the log is JSON from its first line.
    if name == "beat":
        Path(app.conf.beat_schedule_filename).parent.mkdir(parents=True, exist_ok=True)
        return ["--quiet", "beat", "--pidfile="]
    stage = BY_NAME[name]
    app.conf.broker_transport_options["gathers_s"] = stage.gathers_s
    return [
        "--quiet",
        "worker",
        f"--hostname={name}@%h",
        f"--queues={','.join(served(stage))}",
        f"--pool={stage.pool}",
        f"--concurrency={concurrency or stage.concurrency or os.cpu_count() or 2}",
        f"--prefetch-multiplier={stage.prefetch}",
        "--without-gossip",
        "--without-mingle",
        *(["--task-events"] if stage.is_watched else []),
    ]


if __name__ == "__main__":
    main()
