"""Time health probes during hostile requests, and calls when there are more than can be served.

    python tests/bench/probes.py [--only WORD …] [--json FILE]

A running cluster with this repository gets one kind of load after another. Meanwhile, a separate
process probes the gateway's health service 20 times a second, over a new connection each time, as
Kubernetes does, and records how long each answer takes. Another process makes the calls. It neither
builds requests nor reads answers, so that it needs little of the processor time that it shares with
the gateway.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import random
import socket
import subprocess
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import embedded
import grpc
from fairness import commit
from google.rpc import error_details_pb2, status_pb2
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from codelode.client import Client
from codelode.cluster import token_file
from codelode.operations.evaluation.metrics import percentile
from codelode.v1 import graph_pb2, search_pb2

#: Duration of each load, seconds.
SECONDS = 10.0
DEADLINE_S = 5.0
PROBE_EVERY_S = 0.05
#: Number of callers that share a connection.
SHARING = 20
HOSTILE_CALLERS = 40
DETAILS = "grpc-status-details-bin"

SEARCH, GRAPH = "codelode.v1.SearchService/Search", "codelode.v1.GraphService/GetGraph"


@dataclass(frozen=True, slots=True)
class Load:
    """Calls that a number of callers repeat. Patient callers wait as long as refusals say."""

    callers: int
    method: str = SEARCH
    requests: tuple[bytes, ...] = ()
    is_patient: bool = True


def search(query: str, **fields: Any) -> bytes:
    return search_pb2.SearchRequest(query=query, skip_cache=True, **fields).SerializeToString()


def hostile(*requests: bytes, method: str = SEARCH) -> Load:
    return Load(HOSTILE_CALLERS, method, requests, is_patient=False)


WORDS = ("retry", "queue", "store", "parse", "chunk", "index", "token", "limit", "cache", "graph")
QUERIES = tuple(
    search(f"{first} {second} {third}")
    for first, second, third in (random.Random(at).sample(WORDS, 3) for at in range(300))
)
#: A function of 440 lines, each of which is a name of 2,000 letters.
LONG_FUNCTION = "def long_function():\n" + ("    " + "a" * 2_000 + "\n") * 440
GLOBS = [f"*{'?*' * 75}{at:03}*" for at in range(100)]
LARGE = [f"{at:03}" + "x" * 500 for at in range(1_000)]

LOADS: Mapping[str, Load] = {
    "idle": Load(0),
    "queries of 8,192 characters": hostile(
        search("x" + "\n" * 8_186 + " y"), search("a b " * 2_048)
    ),
    "100 globs of 160 characters": hostile(search("retry", filters={"paths": GLOBS})),
    "the graph of 440 lines of 2,000 characters": hostile(
        graph_pb2.GetGraphRequest(
            subject="long_function", repository="hostile"
        ).SerializeToString(),
        method=GRAPH,
    ),
    "requests of 500 kB": hostile(search("retry", filters={"languages": LARGE})),
    "bytes that are no request": hostile(b"\xff" * 500_000),
    "answers of 200 hits": hostile(
        search(
            "retry",
            top_k=200,
            explain=True,
            options={"retrieve": {"max_chunks": 500, "window": 500}},
        )
    ),
    "50 callers": Load(50, requests=QUERIES),
    "600 callers": Load(600, requests=QUERIES),
    "2,000 callers": Load(2_000, requests=QUERIES),
    "600 callers that never wait": Load(600, requests=QUERIES, is_patient=False),
    "2,000 callers that never wait": Load(2_000, requests=QUERIES, is_patient=False),
}


def probe(address: str, stop: Any, results: Any) -> None:
    """Probe until `stop` is set; put the milliseconds of each answer, and the count by status."""
    took_ms, statuses = [], Counter[str]()
    options = (("grpc.use_local_subchannel_pool", 1),)
    while not stop.wait(PROBE_EVERY_S):
        began = time.perf_counter()
        with grpc.insecure_channel(address, options) as channel:
            try:
                health = health_pb2_grpc.HealthStub(channel)
                answer = health.Check(health_pb2.HealthCheckRequest(), timeout=DEADLINE_S)
                statuses[health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)] += 1
            except grpc.RpcError as error:
                statuses[error.code().name] += 1
        took_ms.append(1000 * (time.perf_counter() - began))
    results.put((address, took_ms, dict(statuses)))


def call(address: str, token: str, load: Load, results: Any) -> None:
    """Send the load for SECONDS; put the milliseconds of the calls, by their status."""
    results.put(asyncio.run(_called(address, token, load)))


async def _called(address: str, token: str, load: Load) -> dict[str, list[float]]:
    took_ms: dict[str, list[float]] = defaultdict(list)
    channels = [
        aio.insecure_channel(
            address,
            (("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", 16 << 20)),
        )
        for _ in range(-(-load.callers // SHARING))
    ]
    ends_at = time.monotonic() + SECONDS
    metadata = (("authorization", f"Bearer {token}"),)

    async def caller(number: int) -> None:
        method = channels[number // SHARING].unary_unary(f"/{load.method}")
        at = number
        while time.monotonic() < ends_at:
            began = time.perf_counter()
            request, at = load.requests[at % len(load.requests)], at + 1
            wait_s = 0.0
            try:
                await method(request, timeout=DEADLINE_S, metadata=metadata)
                code = "OK"
            except aio.AioRpcError as error:
                code, wait_s = error.code().name, _retry_s(error) if load.is_patient else 0.0
            took_ms[code].append(1000 * (time.perf_counter() - began))
            await asyncio.sleep(min(wait_s, max(0.0, ends_at - time.monotonic())))

    await asyncio.gather(*map(caller, range(load.callers)))
    for channel in channels:
        await channel.close()
    return dict(took_ms)


def _retry_s(error: aio.AioRpcError) -> float:
    told = error_details_pb2.RetryInfo()
    for key, value in error.trailing_metadata() or ():
        if key == DETAILS:
            any(detail.Unpack(told) for detail in status_pb2.Status.FromString(value).details)
    return told.retry_delay.ToMilliseconds() / 1000


def measured(cluster: embedded.Cluster, probed: Mapping[str, str], load: Load) -> dict[str, Any]:
    """Return the figures of one load: of the probes, of the calls, and of the gateway."""
    context = multiprocessing.get_context("spawn")
    stop, probes, calls = context.Event(), context.Queue(), context.Queue()
    probers = [context.Process(target=probe, args=(at, stop, probes)) for at in probed.values()]
    token = token_file(cluster.data).read_text().strip()
    caller = context.Process(target=call, args=(cluster.address, token, load, calls))
    before = _gateway(cluster)
    for process in (*probers, caller):
        process.start()
    if not load.callers:
        time.sleep(SECONDS)
    called: dict[str, list[float]] = calls.get()
    after = _gateway(cluster)
    stop.set()
    found = {
        address: (took, statuses) for address, took, statuses in (probes.get() for _ in probers)
    }
    for process in (*probers, caller):
        process.join()
    return {
        "probes": {
            name: _spread(found[address][0]) | {"statuses": found[address][1]}
            for name, address in probed.items()
        },
        "calls": {code: _spread(took) for code, took in sorted(called.items())},
        "gateway": {
            "rss_mb": round(after.rss / 1e6),
            "peak_rss_mb": round(after.peak_rss / 1e6),
            "cpu_s": round(after.cpu_s - before.cpu_s, 1),
        },
    }


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _gateway(cluster: embedded.Cluster) -> embedded.Process:
    return next(one for one in embedded.processes(cluster.pid) if one.name == "gateway")


def _spread(took_ms: list[float]) -> dict[str, float]:
    points = {"p50": 50, "p99": 99, "max": 100}
    return {"n": len(took_ms)} | {
        name: round(percentile(took_ms, at), 1) for name, at in points.items()
    }


def _line(name: str, found: Mapping[str, Any]) -> str:
    parts = [f"{name:44}"]
    for where, one in found["probes"].items():
        parts.append(f" {where}: {one['p50']:6.1f} {one['p99']:7.1f} {one['max']:7.1f} ms ")
        odd = {status: n for status, n in one["statuses"].items() if status != "SERVING"}
        parts.append(f"{odd} " if odd else "")
    for code, one in found["calls"].items():
        parts.append(f" {code} {one['n']} (p50 {one['p50']:.0f}, p99 {one['p99']:.0f})")
    parts.append(f" {found['gateway']}")
    return "".join(parts)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    arguments.add_argument("--only", nargs="*", default=[], help="words of the names to measure")
    arguments.add_argument("--json", type=Path, help="write the figures to this file")
    given = arguments.parse_args()
    report: dict[str, Any] = {"machine": embedded.machine(), "loads": {}}
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        own = commit(scratch / "hostile", {"long.py": LONG_FUNCTION})
        subprocess.run(["git", "clone", "-q", embedded.SOURCES, scratch / "codelode"], check=True)
        health = f"127.0.0.1:{_free_port()}"
        with (
            embedded.running(scratch / "data", health_listen=health) as cluster,
            Client(cluster.address) as client,
        ):
            for repository in (own, scratch / "codelode"):
                embedded.index(client, str(repository), name=repository.name, limit_s=600)
            embedded.await_rest(limit_s=30)
            probed = {"on the port of the calls": cluster.address, "process of its own": health}
            for name, load in LOADS.items():
                if given.only and not any(word in name for word in given.only):
                    continue
                found = report["loads"][name] = measured(cluster, probed, load)
                print(_line(name, found), flush=True)
    if given.json:
        given.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
