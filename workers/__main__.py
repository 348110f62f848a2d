"""`python -m workers NAME`: run one worker group, or beat.

NAME is pull, parse, enrich, embed, store or beat; see `workers.delivery.app.WORKERS`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from workers.delivery.app import WORKERS, app


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m workers", description=__doc__)
    parser.add_argument("name", choices=[*WORKERS, "beat"])
    parser.add_argument("--concurrency", type=int, help="pool size; default: the group's own")
    args = parser.parse_args()
    app.start(_arguments(args.name, args.concurrency))


def _arguments(name: str, concurrency: int | None) -> list[str]:
    # --quiet: without the banner, for a log is JSON from its first line.
    if name == "beat":
        Path(app.conf.beat_schedule_filename).parent.mkdir(parents=True, exist_ok=True)
        return ["--quiet", "beat", "--pidfile="]
    shape = WORKERS[name]
    app.conf.broker_transport_options["gathers_s"] = shape.gathers_s
    return [
        "--quiet",
        "worker",
        f"--hostname={name}@%h",
        f"--queues={','.join(shape.queues)}",
        f"--pool={shape.pool}",
        f"--concurrency={concurrency or shape.concurrency}",
        f"--prefetch-multiplier={shape.prefetch}",
        "--without-gossip",
        "--without-mingle",
        *(["--task-events"] if shape.is_watched else []),
    ]


if __name__ == "__main__":
    main()
