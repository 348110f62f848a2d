"""Run an embedded cluster during a measurement, and measure the cost of its processes.

The cluster is the product's own `codelode up`, in a separate process group, on free ports and with
a separate data folder, so that the figures are those of what a user runs. Memory and processor time
are read from Linux's /proc; elsewhere they are left out.
"""

from __future__ import annotations

import os
import platform
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Timer

from codelode.client import Client
from codelode.cluster import running_cluster
from codelode.model import Run, RunState

START_S = 90
STOP_S = 60
POLL_S = 0.1
SOURCES = Path(__file__).resolve().parents[2]

#: A machine is idle if this share of its processor time is unused for this time, seconds.
IDLE_SHARE = 0.9
IDLE_S = 3.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running cluster: the address of its gateway, and the process that started the others."""

    address: str
    pid: int
    data: Path


@dataclass(frozen=True, slots=True)
class Process:
    """One process of the cluster. Memory in bytes, CPU in seconds since it started."""

    name: str
    pss: int  # proportional: pages shared by n processes count 1/n here
    rss: int
    peak_rss: int
    cpu_s: float


@contextmanager
def running(
    data: Path, *, workers: int = 0, gateways: int = 1, **variables: str
) -> Iterator[Cluster]:
    """Run `codelode up` on free ports until the block ends; its log is `data`/../up.log.

    `variables` are settings, such as `cache_entries="0"`. Raises SystemExit with the end of the
    log if the cluster does not serve in time.
    """
    command = [sys.executable, "-P", "-m", "codelode", "up", f"--data={data}"]
    command += ["--port=0", "--http-port=0", *([f"--workers={workers}"] if workers else [])]
    command += [f"--gateways={gateways}"] if gateways > 1 else []
    environment = os.environ | {
        f"CODELODE_{key.upper()}": value for key, value in variables.items()
    }
    environment["PYTHONPATH"] = os.pathsep.join(
        [str(SOURCES), *filter(None, [environment.get("PYTHONPATH")])]
    )
    log = data.parent / "up.log"
    with log.open("wb") as sink:
        process = subprocess.Popen(
            command, env=environment, stdout=sink, stderr=sink, start_new_session=True
        )
    os.environ["CODELODE_DATA"] = str(data)  # lets clients find the token of the gateway
    try:
        yield Cluster(_await_serving(process, data, log), process.pid, data)
    finally:
        _stop(process)


def index(client: Client, url: str, *, name: str, ref: str = "", limit_s: float) -> Run:
    """Index a repository and return the run, which is cancelled after `limit_s`.

    Raises SystemExit with the reason if the run did not complete.
    """
    run = client.index(url, name=name, ref=ref, wait=False)
    guard = Timer(limit_s, client.cancel, (run,))
    guard.start()
    try:
        *_, run = client.watch(run)
    finally:
        guard.cancel()
    if run.state is not RunState.COMPLETE:
        raise SystemExit(f"{name}: indexing ended as {run.state.value}: {run.error or 'too slow'}")
    return run


def processes(root: int) -> tuple[Process, ...]:
    """Return the process `root` and all that it started, by name; empty if there is no /proc."""
    if not Path("/proc/self/smaps_rollup").exists():
        return ()
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        fields = _stat(int(entry.name))
        if fields:
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        waiting += children.get(pid, [])
        one = _process(pid)
        found += [one] if one else []
    return tuple(sorted(found, key=lambda one: one.name))


def await_rest(limit_s: float = 180) -> None:
    """Wait until the machine is idle, or until the limit.

    Servers go on compacting data long after they have acknowledged it.
    """
    deadline = time.monotonic() + limit_s
    while Path("/proc/stat").exists() and time.monotonic() < deadline:
        before = _processor_time()
        time.sleep(IDLE_S)
        total, idle = (now - then for now, then in zip(_processor_time(), before, strict=True))
        if idle >= IDLE_SHARE * total:
            return


def machine() -> dict[str, object]:
    """Return the facts about the machine that are needed to interpret times."""
    return {
        "commit": _commit(),
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "load_before": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "measured_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _await_serving(process: subprocess.Popen[bytes], data: Path, log: Path) -> str:
    """Wait until the gateway serves, and return its address."""
    deadline = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < deadline:
        cluster = running_cluster(data)
        if cluster is not None:
            with Client(cluster.grpc) as client:
                if client.is_serving():
                    return cluster.grpc
        time.sleep(POLL_S)
    tail = log.read_text(errors="replace")[-2_000:]
    raise SystemExit(f"the cluster did not start; the end of {log}:\n{tail}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Stop the cluster with SIGINT, as a user does; kill what is left after a minute."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _process(pid: int) -> Process | None:
    fields = _stat(pid)
    try:
        memory = _kilobytes(Path(f"/proc/{pid}/smaps_rollup").read_text())
        memory |= _kilobytes(Path(f"/proc/{pid}/status").read_text())
        command = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    if not fields or "Pss" not in memory:
        return None
    ticks = os.sysconf("SC_CLK_TCK")
    return Process(
        name=_name(command),
        pss=memory["Pss"],
        rss=memory["Rss"],
        peak_rss=memory.get("VmHWM", 0),
        cpu_s=sum(map(int, fields[11:15])) / ticks,
    )


def _processor_time() -> tuple[int, int]:
    """Return the ticks of all processors since the start of the machine, and the idle ones."""
    _, *ticks = Path("/proc/stat").read_text().partition("\n")[0].split()
    idle, waiting = ticks[3:5]
    return sum(map(int, ticks)), int(idle) + int(waiting)


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the state on; empty if the process is gone.

    [0] state, [1] parent, [11] to [14] its CPU and that of its children that have ended.
    """
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _kilobytes(text: str) -> dict[str, int]:
    return {key: int(value) * 1024 for key, value in re.findall(r"^(\w+):\s+(\d+) kB", text, re.M)}


def _name(command: list[str]) -> str:
    """Return the part of a command line that identifies a process of the cluster."""
    line = " ".join(command)
    group = re.search(r"\bworkers (\w+)", line)
    if group:
        return "worker planning" if group.group(1) == "call" else f"worker {group.group(1)}"
    for word in ("gateway", "flower", "valkey", "redis", "cat-file"):
        if word in line:
            return word
    return "up" if " up" in line else Path(command[0]).name


def _commit() -> str:
    try:
        return subprocess.run(
            ["git", "-C", str(SOURCES), "describe", "--always", "--dirty", "--abbrev=10"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _cpu_model() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()
    found = re.search(r"model name\s*:\s*(.+)", text)
    return found.group(1) if found else platform.processor()


def table(rows: Mapping[str, object]) -> str:
    """Return the rows as two aligned columns."""
    width = max(map(len, rows), default=0)
    return "\n".join(f"  {key:<{width}}  {value}" for key, value in rows.items())
