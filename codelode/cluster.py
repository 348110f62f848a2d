"""Find the cluster that `codelode up` runs on a data folder, by the files that it leaves there.

    run/up.json     the addresses of the cluster, while it is ready, and the password of its Redis
    run/other.json  the same, for a cluster on another data folder
    run/token       the secret that its gateway asks for
    run/login.json  the logins of this user at other gateways

Only the user who runs the cluster can enter the folder `run`. A client therefore finds the clusters
of its own user only.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from codelode.loopback import is_loopback


@dataclass(frozen=True, slots=True)
class Cluster:
    """The addresses of a running cluster; that of Redis contains the password."""

    pid: int  # of `codelode up`
    grpc: str  # HOST:PORT, with TLS grpcs://HOST:PORT
    flower: str  # URL; empty if it does not run
    redis: str  # URL
    data: str
    certificate: str = ""  # PEM file of the gateway's own certificate; empty: no TLS
    tls_name: str = ""  # a name in that certificate
    http: str = ""  # URL of the gateway; its API is below /api/v1


def run_dir(data: Path) -> Path:
    return data / "run"


def cluster_file(data: Path) -> Path:
    return run_dir(data) / "up.json"


def other_file(data: Path) -> Path:
    return run_dir(data) / "other.json"


def token_file(data: Path) -> Path:
    return run_dir(data) / "token"


def login_file(data: Path) -> Path:
    return run_dir(data) / "login.json"


def found_cluster(data: Path) -> Cluster | None:
    """Return the cluster that clients of the folder use: its own, else one of another folder."""
    return running_cluster(data) or read_cluster(other_file(data))


def running_cluster(data: Path) -> Cluster | None:
    """Return the cluster that runs on the folder and is ready, or None."""
    return read_cluster(cluster_file(data))


def read_cluster(file: Path) -> Cluster | None:
    """Return the cluster whose addresses the file holds if it runs, else None."""
    try:
        cluster = Cluster(**json.loads(file.read_text()))
        os.kill(cluster.pid, 0)
    except (OSError, ValueError, TypeError):  # missing, half written, another user's, or dead
        return None
    return cluster


def own_cluster(address: str, data: Path) -> Cluster | None:
    """Return the cluster at the address, if clients of the folder find it, or None.

    They find the folder's own cluster and one of another folder. The address must be the cluster's,
    or have the same port on this machine, so that its token is sent to no other server.
    """
    for cluster in map(read_cluster, (cluster_file(data), other_file(data))):
        if cluster is not None and _is_same(address, cluster.grpc):
            return cluster
    return None


def token_of(address: str, data: Path) -> str:
    """Return the token for the gateway at the address; "" if no cluster of the folder has it."""
    cluster = own_cluster(address, data)
    with suppress(OSError):
        return token_file(Path(cluster.data)).read_text().strip() if cluster is not None else ""
    return ""


def _is_same(address: str, other: str) -> bool:
    """Return whether both addresses are the same, or both are the same port on loopback."""
    if address == other:
        return True
    (scheme, host, port), (other_scheme, other_host, other_port) = split(address), split(other)
    is_alike = (scheme, port) == (other_scheme, other_port)
    return is_alike and is_loopback(host) and is_loopback(other_host)


def split(address: str) -> tuple[str, str, str]:
    """Return the scheme (or ""), the host without brackets, and the port of a gateway's address."""
    scheme, _, rest = address.rpartition("://")
    host, _, port = rest.rpartition(":")
    return scheme, host.strip("[]"), port
