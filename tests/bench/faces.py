"""Measure the cost of the HTTP faces: memory of the gateway, and the latency of gRPC with them.

    python tests/bench/faces.py DATA_FOLDER

The folder is that of a running `codelode up` in which something is indexed. The program starts two
gateways for its data: one with gRPC alone, the other also with REST, MCP, and the web page. Both
answer the same searches in turn, so other work on the machine affects both alike. Then all faces of
the second are used, and the memory of both processes is read.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median, quantiles

import httpx
from embedded import machine

from codelode.client import Client
from codelode.cluster import running_cluster

ROUNDS = 25
START_S = 120
QUERIES = (
    *("retry with back-off", "Connection", "how is a message sent", "close a session", "parse"),
    *("where is the configuration read", "Task.apply_async", "timeout", "serialize a value"),
    *("exchange declare", "publish", "event loop", "signal handler", "raise an error"),
)
PAGES = (
    *("/", "/search?q=retry", "/lab?q=retry", "/repositories", "/graph?symbol=retry", "/map"),
    *("/api/v1/status", "/api/docs", "/api/openapi.json", "/repositories/failures?all=1"),
)
RPC = {"jsonrpc": "2.0", "id": 1}
TOOLS = (
    {**RPC, "method": "tools/list"},
    {**RPC, "method": "tools/call", "params": {"name": "search", "arguments": {"query": "retry"}}},
)


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        return port


@contextmanager
def gateway(folder: Path, http: str) -> Iterator[tuple[subprocess.Popen[bytes], Client]]:
    address = f"127.0.0.1:{free_port()}"
    token = (folder / "run/token").read_text().strip()
    running = running_cluster(folder)
    assert running is not None, "start `codelode up` on the folder first"
    given = {
        "CODELODE_DATA": str(folder),
        "CODELODE_REDIS_URL": running.redis,
        "CODELODE_LISTEN": address,
        "CODELODE_HTTP_LISTEN": http,
        "CODELODE_TOKEN": token,
        "CODELODE_LOG_LEVEL": "warning",
    }
    started = subprocess.Popen([sys.executable, "-m", "gateway"], env={**os.environ, **given})
    try:
        with Client(address, token=token) as client:
            ends = time.monotonic() + START_S
            while not client.is_serving():
                assert time.monotonic() < ends, "the gateway does not serve"
                time.sleep(0.1)
            yield started, client
    finally:
        started.terminate()
        started.wait()


def memory_mb(process: subprocess.Popen[bytes]) -> float:
    status = Path(f"/proc/{process.pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1000


def search_ms(client: Client, query: str) -> float:
    began = time.perf_counter()
    client.search(query, top_k=10, skip_cache=True)
    return 1000 * (time.perf_counter() - began)


def use_all_faces(url: str, token: str) -> None:
    headers = {
        "authorization": f"Bearer {token}",
        "accept": "application/json, text/event-stream",
    }
    with httpx.Client(base_url=url, headers=headers, timeout=60) as http:
        for _ in range(10):
            for query in QUERIES:
                assert http.post("/api/v1/search", json={"query": query}).is_success
                assert http.get("/search", params={"q": query}).is_success
            for page in PAGES:
                assert not http.get(page).is_server_error, page
            for call in TOOLS:
                assert http.post("/mcp", json=call).is_success, call


def told(name: str, times: list[float]) -> str:
    return f"{name}: p50 {median(times):.2f} ms, p95 {quantiles(times, n=20)[-1]:.2f} ms"


def main(folder: Path) -> None:
    token = (folder / "run/token").read_text().strip()
    http = f"127.0.0.1:{free_port()}"
    with ExitStack() as stack:
        alone, plain = stack.enter_context(gateway(folder, ""))
        whole, beside = stack.enter_context(gateway(folder, http))
        for client in (plain, beside):
            for query in QUERIES:
                search_ms(client, query)
        times: dict[str, list[float]] = {"gRPC alone": [], "gRPC beside all faces": []}
        pairs = [*zip(times, (plain, beside), strict=True)]
        for _ in range(ROUNDS):
            for query in QUERIES:
                pairs.reverse()  # so that the same one does not always find the caches cold
                for name, client in pairs:
                    times[name].append(search_ms(client, query))
        print(machine())
        for name, some in times.items():
            print(told(name, some))
        use_all_faces(f"http://{http}", token)
        print(f"memory: {memory_mb(alone):.0f} MB alone, {memory_mb(whole):.0f} MB with all faces")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
