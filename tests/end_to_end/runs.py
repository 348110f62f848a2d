"""Runs that are disturbed: how far they are, what shows that they felt it, what commands say."""

from __future__ import annotations

import subprocess
import sys


def state_of(client, run):
    """The run as it is now."""
    return next(iter(client.watch(run.id)))


def under_way(client, run):
    """A tenth of the files are through, and not yet nine tenths."""
    state = state_of(client, run)
    assert not state.state.is_over, f"the run was over before it could be disturbed: {state}"
    return state.total and state.done > state.total // 10


def log_of(cluster, stage):
    """What the worker of the stage has logged."""
    return (cluster.data / "logs" / f"{stage}.log").read_text()


def times_put_off(cluster, stage):
    """How often a job of the stage began to wait for a server; logged at level debug."""
    return log_of(cluster, stage).count("Retry in")


def clustered(address, *, replicas=1):
    """The settings of a cluster that stores at a server of the test's own."""
    return {
        "store": "weaviate",
        "weaviate_url": address.url,
        "weaviate_grpc_port": str(address.grpc_port),
        "weaviate_api_key": address.api_key,
        "weaviate_replicas": str(replicas),
        "log_level": "debug",
    }


def command(cluster, *args):
    """A `codelode` command that is under way."""
    return subprocess.Popen(
        [sys.executable, "-m", "codelode", *args],
        env={**cluster.environment(), "CODELODE_SERVER": cluster.facts["grpc"]},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process):
    """Exit status and all it said."""
    out, err = process.communicate(timeout=120)
    return process.returncode, out + err


def said(cluster, *args):
    """Exit status and output of a `codelode` command."""
    return ended(command(cluster, *args))
