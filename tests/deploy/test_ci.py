""".ci/run installs missing programs, reports those that it cannot install, and runs all tests."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

RUN = Path(__file__).parents[2] / ".ci" / "run"
SHEBANG = "#!/bin/sh\n"


@pytest.fixture
def ran(tmp_path):
    """Runs the script with these programs on PATH; returns the calls that it makes, and stderr."""

    def program(path, body):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'{SHEBANG}echo "$(basename "$0") $*" >> {tmp_path}/calls\n{body}\n')
        path.chmod(0o755)

    def run(*names, user="0", fails=""):
        for name in ("env", "bash", "sh", "dirname", "basename"):
            found = tmp_path / "bin" / name
            found.parent.mkdir(exist_ok=True)
            found.symlink_to(shutil.which(name))
        (tmp_path / ".ci").mkdir()
        script = shutil.copy(RUN, tmp_path / ".ci" / "run")
        (tmp_path / "bin" / "id").write_text(f"{SHEBANG}echo {user}\n")
        (tmp_path / "bin" / "id").chmod(0o755)
        failing = f'case " $* " in *" {fails or "-"} "*) exit 100;; esac'
        program(tmp_path / "bin" / "apt-get", failing)
        program(tmp_path / "deploy" / "services.sh", failing)
        for name in ("make", "sshd", *names):
            program(tmp_path / "bin" / name, "")
        done = subprocess.run(
            [script],
            env={"PATH": str(tmp_path / "bin")},
            capture_output=True,
            text=True,
            check=True,
        )
        return (tmp_path / "calls").read_text().splitlines(), done.stderr

    return run


SERVERS = [f"services.sh binary {name}" for name in ("weaviate", "ollama", "gitea")]


@pytest.mark.parametrize("browser", ["chromium", "chromium-browser", "google-chrome"])
def test_nothing_is_installed_if_all_programs_exist(ran, browser):
    calls, stderr = ran(browser, "ssh-keygen")

    assert (calls, stderr) == ([*SERVERS, "make test"], "")


def test_root_installs_missing_programs(ran):
    calls, stderr = ran()

    install = "apt-get -qq install --yes --no-install-recommends"
    expected = ["apt-get -qq update", f"{install} chromium", f"{install} openssh-client"]
    assert (calls, stderr) == ([*expected, *SERVERS, "make test"], "")


@pytest.mark.parametrize(
    ("fails", "user", "lacking"),
    [
        ("update", "0", []),
        ("chromium", "0", ["chromium"]),
        ("gitea", "0", ["gitea"]),
        ("", "1000", ["chromium", "openssh-client"]),
    ],
    ids=["lists", "package", "server", "user"],
)
def test_missing_programs_are_reported_and_the_tests_run_anyway(ran, fails, user, lacking):
    calls, stderr = ran(user=user, fails=fails)

    assert calls[-1] == "make test"
    expected = [f".ci/run: {one} is missing; the tests that need it will fail" for one in lacking]
    assert stderr.splitlines() == expected
