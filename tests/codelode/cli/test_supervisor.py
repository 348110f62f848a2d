"""The supervisor over real, small processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from codelode.cli import data_folder
from codelode.cli import supervisor as supervisor_module
from codelode.cli.supervisor import Child, Supervisor
from codelode.errors import InvalidSettings

PATIENCE_S = 20.0

#: Says that it is ready, has a child of its own, and ends at SIGTERM after a word.
WORKER = """
import os, signal, subprocess, sys, time
def end(*_):
    print("ending", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("ready in", os.getcwd(), flush=True)
time.sleep(600)
"""
STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(600)
"""
REFUSED = "import sys; print('a log line\\nscopes.yaml:3: is wrong', flush=True); sys.exit(78)"
#: Refuses its settings as soon as a file is there, and is ready until then.
TURNED = """
import pathlib, sys, time
if pathlib.Path("turned").exists():
    sys.exit(78)
print("ready", flush=True)
while not pathlib.Path("turned").exists():
    time.sleep(0.01)
sys.exit(3)
"""
BROKEN = "import sys; print('no disk left', flush=True); sys.exit(3)"

#: The command of a server that forks children whose only argument is code.
FORK_SERVER = (
    sys.executable,
    "-c",
    "from workers import fork_server; exec(fork_server.serve(preloaded=())[0])",
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc").exists(), reason="looks at /proc"),
]


def child(name: str, code: str, **fields: object) -> Child:
    """Return a child that a fork server starts, if the supervisor has one."""
    command = (sys.executable, "-c", code)
    return Child(name, command, lambda out: "ready" in out, forked=(code,), **fields)


@pytest.fixture
def data(tmp_path):
    with data_folder.locked(tmp_path):
        yield tmp_path


@pytest.fixture
def said():
    return []


@pytest.fixture(
    params=[
        "executed",
        pytest.param(
            "forked",
            marks=pytest.mark.skipif(sys.platform != "linux", reason="forks on Linux alone"),
        ),
    ]
)
def supervisor(request, data, said):
    server = FORK_SERVER if request.param == "forked" else ()
    with Supervisor(data, environment=os.environ, announce=said.append, fork_server=server) as made:
        yield made


@pytest.fixture
def forking(data, said):
    """A supervisor whose children are forked."""
    with Supervisor(
        data, environment=os.environ, announce=said.append, fork_server=FORK_SERVER
    ) as made:
        yield made


def step_until(supervisor, condition):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        supervisor.step()


def pid_of(data, name):
    return int((data / "run" / f"{name}.pid").read_text().split()[0])


def is_alive(pid):
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def test_a_child_is_ready_once_it_says_so(supervisor, data):
    supervisor.start(child("worker", WORKER))
    assert supervisor.not_ready() == ("worker",)

    step_until(supervisor, lambda: not supervisor.not_ready())

    assert f"ready in {data}" in (data / "logs" / "worker.log").read_text()


def test_stop_leaves_no_process_behind(supervisor, data):
    supervisor.start(child("one", WORKER), child("two", WORKER))
    step_until(supervisor, lambda: len(data_folder.members(data)) >= 4)

    supervisor.stop()

    assert data_folder.members(data) == frozenset()
    assert list((data / "run").glob("*.pid")) == []
    assert (data / "logs" / "one.log").read_text().endswith("ending\n")


def test_stop_goes_phase_by_phase(supervisor, data):
    ends = {}
    for name, phase in (("last", 2), ("first", 0), ("middle", 1)):
        supervisor.start(child(name, WORKER, stop_phase=phase))
    step_until(supervisor, lambda: not supervisor.not_ready())

    supervisor.stop()

    for name in ("first", "middle", "last"):
        ends[name] = (data / "logs" / f"{name}.log").stat().st_mtime_ns
    assert sorted(ends, key=ends.__getitem__) == ["first", "middle", "last"]


def test_a_child_that_ignores_its_signals_is_killed(supervisor, data):
    supervisor.start(child("stubborn", STUBBORN, stop=((signal.SIGTERM, 0.1),)))
    step_until(supervisor, lambda: not supervisor.not_ready())

    supervisor.stop()

    assert data_folder.members(data) == frozenset()


def test_stopping_in_a_hurry_skips_the_grace_periods(data, said):
    hurried = Supervisor(
        data, environment=os.environ, announce=said.append, in_a_hurry=lambda: True
    )
    hurried.start(child("stubborn", STUBBORN, stop=((signal.SIGTERM, 600.0),)))
    step_until(hurried, lambda: not hurried.not_ready())

    hurried.stop()

    assert data_folder.members(data) == frozenset()


def test_a_dead_child_is_restarted_and_reported(supervisor, data, said):
    supervisor.start(child("worker", WORKER))
    step_until(supervisor, lambda: not supervisor.not_ready())
    before = pid_of(data, "worker")

    os.kill(before, signal.SIGKILL)
    step_until(supervisor, lambda: said)
    assert supervisor.not_ready() == ("worker",)
    step_until(supervisor, lambda: not supervisor.not_ready())

    assert said == ["worker was ended by SIGKILL; it starts again in 0.5 s"]
    assert pid_of(data, "worker") != before
    assert not is_alive(before)


@pytest.mark.skipif(sys.platform != "linux", reason="forks on Linux alone")
def test_children_end_with_their_fork_server_and_start_again_with_another(forking, data, said):
    forking.start(child("one", WORKER), child("two", WORKER))
    step_until(forking, lambda: not forking.not_ready())
    before = [pid_of(data, name) for name in ("one", "two")]

    os.kill(parent_of(before[0]), signal.SIGKILL)
    step_until(forking, lambda: len(said) == 2)
    step_until(forking, lambda: not forking.not_ready())

    assert sorted(said) == [
        f"{name} was ended by SIGKILL; it starts again in 0.5 s" for name in ("one", "two")
    ]
    assert not any(map(is_alive, before))
    forking.stop()
    assert data_folder.members(data) == frozenset()


@pytest.mark.skipif(sys.platform != "linux", reason="forks on Linux alone")
def test_a_fork_server_that_cannot_start_says_why_like_a_child(data, said, monkeypatch):
    monkeypatch.setattr(supervisor_module, "RESTART_BACKOFF_S", (0.05, 0.2))
    with Supervisor(
        data,
        environment=os.environ,
        announce=said.append,
        fork_server=(sys.executable, "-c", BROKEN),
    ) as supervisor:
        supervisor.start(child("worker", WORKER))
        step_until(supervisor, lambda: "    no disk left" in said)

    assert said[0] == "worker ended with status 3; it starts again in 0.05 s"


@pytest.mark.skipif(sys.platform != "linux", reason="forks on Linux alone")
def test_children_are_started_by_their_commands_if_the_fork_server_hangs(data, said, monkeypatch):
    monkeypatch.setattr("codelode.cli.fork_server.ANSWER_S", 0.1)
    with Supervisor(
        data,
        environment=os.environ,
        announce=said.append,
        fork_server=(sys.executable, "-c", STUBBORN),
    ) as supervisor:
        supervisor.start(child("one", WORKER), child("two", WORKER))
        step_until(supervisor, lambda: not supervisor.not_ready())

    (told,) = said
    assert "hangs (no answer within 0.1 s); from now on each worker is started on its own" in told
    assert data_folder.members(data) == frozenset()


@pytest.mark.skipif(sys.platform != "linux", reason="forks on Linux alone")
def test_the_log_of_a_fork_server_that_hangs_is_that_of_its_first_child(
    forking, data, said, monkeypatch
):
    forking.start(child("one", WORKER))
    step_until(forking, lambda: not forking.not_ready())
    monkeypatch.setattr("codelode.cli.fork_server.ANSWER_S", 0.1)
    os.kill(parent_of(pid_of(data, "one")), signal.SIGSTOP)

    forking.start(child("two", WORKER))

    assert said[0].endswith(f"its log is {data / 'logs' / 'one.log'}")


@pytest.mark.skipif(sys.platform != "linux", reason="forks on Linux alone")
def test_a_forked_child_has_its_own_session_and_no_file_of_another(forking, data):
    forking.start(child("one", WORKER), child("two", WORKER))
    step_until(forking, lambda: not forking.not_ready())

    for name in ("one", "two"):
        pid = pid_of(data, name)
        log = str(data / "logs" / f"{name}.log")
        assert os.getsid(pid) == os.getpgid(pid) == pid
        assert files_of(pid) == {"0": os.devnull, "1": log, "2": log}


def parent_of(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def files_of(pid):
    return {link.name: os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()}


def test_a_child_that_keeps_dying_is_reported_and_restarted_at_growing_intervals(
    supervisor, said, monkeypatch
):
    monkeypatch.setattr(supervisor_module, "RESTART_BACKOFF_S", (0.05, 0.2))
    supervisor.start(child("broken", BROKEN))

    step_until(supervisor, lambda: sum("again in" in line for line in said) == 4)

    pauses = [line.rpartition(" in ")[2] for line in said if "again in" in line]
    assert pauses == ["0.05 s", "0.1 s", "0.2 s", "0.2 s"]
    assert said[0].startswith("broken ended with status 3")
    assert said[1].startswith("broken ended with status 3")  # once is an accident
    assert said[3] == "    no disk left"


def test_a_child_that_dies_late_before_it_is_ready_has_its_log_shown(supervisor, said, monkeypatch):
    monkeypatch.setattr(supervisor_module, "RESTART_BACKOFF_S", (0.05, 0.2))
    monkeypatch.setattr(supervisor_module, "SETTLED_S", 0.0)
    supervisor.start(child("broken", BROKEN))

    step_until(supervisor, lambda: "    no disk left" in said)


def test_a_child_that_refuses_its_settings_ends_the_start_with_its_reason(supervisor, said):
    supervisor.start(child("gateway", REFUSED), child("worker", WORKER))

    with pytest.raises(InvalidSettings, match=r"^scopes.yaml:3: is wrong$"):
        step_until(supervisor, lambda: False)
    assert said == []


def test_a_child_that_was_ready_is_restarted_even_if_its_settings_are_refused(
    supervisor, data, said, monkeypatch
):
    monkeypatch.setattr(supervisor_module, "RESTART_BACKOFF_S", (0.05, 0.2))
    supervisor.start(child("gateway", TURNED))
    step_until(supervisor, lambda: not supervisor.not_ready())
    (data / "turned").touch()

    step_until(supervisor, lambda: any("status 78; it starts again" in line for line in said))


def test_a_child_that_cannot_restart_does_not_prevent_stopping_the_others(supervisor, data, said):
    supervisor.start(child("broken", BROKEN), child("worker", WORKER))
    step_until(supervisor, lambda: said)
    (data / "logs").rename(data / "elsewhere")

    with pytest.raises(FileNotFoundError):
        step_until(supervisor, lambda: False)
    supervisor.stop()

    assert data_folder.members(data) == frozenset()


def test_a_verbose_supervisor_shows_the_output_of_children(data, said):
    with Supervisor(
        data, environment=os.environ, announce=said.append, show_logs=True
    ) as supervisor:
        supervisor.start(child("worker", WORKER))
        step_until(supervisor, lambda: said)

    assert said[0] == f"  worker | ready in {data}"


def test_a_large_log_is_put_aside_at_the_start(supervisor, data, monkeypatch):
    monkeypatch.setattr(supervisor_module, "LOG_BYTES", 10)
    log = data / "logs" / "worker.log"
    log.write_text("of yesterday")

    supervisor.start(child("worker", WORKER))
    step_until(supervisor, lambda: not supervisor.not_ready())

    assert log.with_name("worker.log.1").read_text() == "of yesterday"
    assert "yesterday" not in log.read_text()


ORPHANING = """
import os, sys, time
from pathlib import Path
from codelode.cli import data_folder
from codelode.cli.supervisor import Child, Supervisor
data = Path(sys.argv[1])
with data_folder.locked(data):
    supervisor = Supervisor(data, environment=os.environ, announce=print)
    command = (sys.executable, "-c", sys.argv[2])
    supervisor.start(Child("worker", command, lambda out: "ready" in out))
    while supervisor.not_ready():
        supervisor.step()
    print("started", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def orphan(tmp_path):
    """A worker whose supervisor was killed without a chance to stop it."""
    command = [sys.executable, "-c", ORPHANING, str(tmp_path), WORKER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "started\n"
        worker = pid_of(tmp_path, "worker")
        parent.kill()
    return worker


@pytest.mark.skipif(sys.platform != "linux", reason="needs prctl")
def test_the_children_of_a_killed_supervisor_end(orphan):
    deadline = time.monotonic() + PATIENCE_S
    while is_alive(orphan):
        assert time.monotonic() < deadline, "the child outlived its parent"


def test_leftovers_of_a_killed_supervisor_are_ended_by_the_next(orphan, tmp_path):
    left = data_folder.members(tmp_path)
    assert left  # the grandchild survives its parents

    with data_folder.locked(tmp_path):
        assert data_folder.end_leftovers(tmp_path) >= 1

    assert data_folder.members(tmp_path) == frozenset()
    assert not any(map(is_alive, left))
