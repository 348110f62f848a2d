"""Work that never ends, takes all memory, or dies costs one process and nothing else."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from codelode.errors import NotFound, Rejected, Unavailable
from workers import confined

MEMORY = 1 << 30

#: A match that never ends and holds the interpreter lock.
ENDLESS = (re.fullmatch, "(a+)+b", "a" * 60)


def call(function, *arguments, timeout_s=60.0, **more):
    return confined.call(
        function, *arguments, what="it", timeout_s=timeout_s, memory_bytes=MEMORY, **more
    )


def fail():
    raise NotFound("there is none")


def test_a_call_returns_its_result_or_raises_its_error():
    assert call(divmod, 7, 2) == (3, 1)
    with pytest.raises(NotFound, match="there is none"):
        call(fail)
    with pytest.raises(TypeError):
        call(divmod, 1)


def test_work_that_does_not_end_is_killed_although_it_holds_the_interpreter_lock():
    with pytest.raises(Rejected, match="it took longer than"):
        call(*ENDLESS, timeout_s=0.2)


def test_other_threads_go_on_meanwhile():
    with ThreadPoolExecutor() as pool:
        stalled = pool.submit(call, *ENDLESS, timeout_s=2.0)
        assert call(divmod, 7, 2) == (3, 1)
        with pytest.raises(Rejected):
            stalled.result()


def test_work_that_is_no_longer_wanted_is_killed():
    with pytest.raises(confined.Abandoned):
        call(*ENDLESS, is_wanted=lambda: False)


def test_work_that_needs_too_much_memory_is_rejected():
    with pytest.raises(Rejected, match="it needs more than 1024 MB"):
        call(bytearray, MEMORY)


def test_a_process_that_dies_is_reported_with_its_signal():
    with pytest.raises(Unavailable, match="it ended its process \\(SIGKILL\\)"):
        call(signal.raise_signal, signal.SIGKILL)
    with pytest.raises(Unavailable, match="status 3"):
        call(os._exit, 3)


#: Calls through a server that is forked from this program, and again after the server has died.
PREPARED = """
import os, signal
from workers import confined

def call(function, *arguments):
    return confined.call(function, *arguments, what="it", timeout_s=60, memory_bytes=1 << 30)

confined.prepare()
server = call(os.getppid)
assert call(divmod, 7, 2) == (3, 1)
os.kill(server, signal.SIGKILL)
os.waitid(os.P_PID, server, os.WEXITED | os.WNOWAIT)
assert call(divmod, 7, 2) == (3, 1)
assert call(os.getppid) not in (server, os.getpid())
"""


@pytest.mark.slow
def test_a_server_is_forked_and_replaced_when_it_died():
    subprocess.run([sys.executable, "-c", PREPARED], cwd=Path(__file__).parents[2], check=True)


def test_a_child_has_no_socket_of_another_call(tmp_path, wait_for):
    pid_file, is_over = tmp_path / "pid", threading.Event()
    with ThreadPoolExecutor() as pool:
        stalled = pool.submit(
            call, work_for_ever, str(pid_file), is_wanted=lambda: not is_over.is_set()
        )
        try:
            wait_for(lambda: pid_file.exists() and pid_file.read_text(), "the work to begin")
            assert call(sockets) == 1
        finally:
            is_over.set()
        with pytest.raises(confined.Abandoned):
            stalled.result()


def sockets():
    """Return how many sockets this process has."""
    return sum(file.is_socket() for file in Path("/proc/self/fd").iterdir())


def work_for_ever(pid_file):
    """Write the id of this process to a file, then hold the interpreter lock."""
    Path(pid_file).write_text(str(os.getpid()))
    re.fullmatch(*ENDLESS[1:])


def test_work_ends_with_the_process_that_called(tmp_path, wait_for):
    pid_file = tmp_path / "pid"
    program = "from tests.workers import test_confined as t; t.call(t.work_for_ever, t.sys.argv[1])"
    command = [sys.executable, "-c", program, str(pid_file)]
    with subprocess.Popen(command, cwd=Path(__file__).parents[2]) as caller:
        wait_for(lambda: pid_file.exists() and pid_file.read_text(), "the work to begin")
        caller.kill()
    wait_for(lambda: not is_alive(int(pid_file.read_text())), "the work to end")


def is_alive(pid):
    """Return whether the process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def test_slots_bound_what_is_done_at_once_and_waiting_can_be_given_up():
    slots = confined.Slots(1)
    with slots.taken(), pytest.raises(confined.Abandoned), slots.taken(lambda: False):
        pass
    with slots.taken():
        assert threading.active_count()


def test_a_call_in_a_fork_says_why_it_failed():
    assert confined.tried(lambda: None, 60) == ""
    assert confined.tried(lambda: time.sleep(60), 0.05) == "it takes longer than 0.05 s"
    died = confined.tried(lambda: signal.raise_signal(signal.SIGKILL), 60)
    assert died == "it crashes (SIGKILL)"


#: Starts work that never ends, and prints the id of the fork that does it.
TRIES = """
import os
from workers import confined

def run():
    print(os.getpid(), flush=True)
    while True:
        pass

confined.tried(run, 600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_a_fork_that_tries_a_call_ends_with_its_process():
    with subprocess.Popen([sys.executable, "-c", TRIES], stdout=subprocess.PIPE) as trying:
        fork = os.pidfd_open(int(trying.stdout.readline()))
        trying.kill()

    try:
        assert select.select([fork], [], [], 60)[0] == [fork]
    finally:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(fork, signal.SIGKILL)
        os.close(fork)
