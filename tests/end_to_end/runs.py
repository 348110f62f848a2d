"""Helpers for tests that disturb a run: its progress, its retries, and the output of commands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

#: The folder with the `sitecustomize` by which tests change the product, for PYTHONPATH.
HOOKS = str(Path(__file__).parent / "hooks")


def state_of(client, run):
    """Return the current state of the run."""
    return next(iter(client.watch(run.id)))


def under_way(client, run, tenths=1):
    """Return whether more than so many tenths of the files are done. Fails if the run is over."""
    state = state_of(client, run)
    assert not state.state.is_over, f"the run was over before it could be disturbed: {state}"
    return state.total and state.done > state.total * tenths // 10


def log_of(cluster, stage):
    """Return the log of the stage's worker."""
    return (cluster.data / "logs" / f"{stage}.log").read_text()


def times_put_off(cluster, stage):
    """Return how often a job of the stage was postponed; needs log level debug."""
    return log_of(cluster, stage).count("Retry in")


def clustered(address, *, replicas=1):
    """Return the settings of a cluster that stores in the given Weaviate."""
    return {
        "store": "weaviate",
        "weaviate_url": address.url,
        "weaviate_grpc_port": str(address.grpc_port),
        "weaviate_api_key": address.api_key,
        "weaviate_replicas": str(replicas),
        "log_level": "debug",
    }


def command(cluster, *args):
    """Start a `codelode` command."""
    return subprocess.Popen(
        [sys.executable, "-m", "codelode", *args],
        env={**cluster.environment(), "CODELODE_SERVER": cluster.facts["grpc"]},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process):
    """Wait for the command, and return its exit status and all of its output."""
    out, err = process.communicate(timeout=120)
    return process.returncode, out + err


def said(cluster, *args):
    """Run a `codelode` command, and return its exit status and output."""
    return ended(command(cluster, *args))
