"""The Makefile describes its targets, reports missing input, and fails if a check fails."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

#: Variables that make sets for the make processes that it starts.
MAKE_VARIABLES = ("MAKELEVEL", "MAKEFLAGS", "MFLAGS")


def make(*arguments, folder=ROOT):
    # --old-file keeps make from installing anything. Without the variables of an outer make, it
    # does not print its folder.
    environment = {name: value for name, value in os.environ.items() if name not in MAKE_VARIABLES}
    return subprocess.run(
        ["make", "--old-file=.venv/.ready", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_help_lists_every_target_with_a_description():
    (phony,) = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)

    lines = make("help").stdout.splitlines()

    assert {line.split()[0] for line in lines} == set(phony.split())
    assert all(len(line.split()) > 2 for line in lines)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([], "there is no file EVAL=''; set EVAL to a file with judged queries"),
        (["EVAL=nowhere.json"], "there is no file EVAL='nowhere.json'; set EVAL"),
        (["EVAL=README.md"], "there is no folder CORPORA=''; set CORPORA to the folder"),
    ],
)
def test_quality_benchmark_reports_missing_input(given, says):
    ended = make("bench-quality", *given)

    assert ended.returncode == 2
    assert ended.stderr.startswith(says)


@pytest.mark.parametrize("failing", ["ruff", "mypy", "lint-imports", "pytest", None])
def test_make_test_runs_everything_and_fails_if_a_check_or_a_test_fails(tmp_path, failing):
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name in ("ruff", "mypy", "lint-imports", "pytest"):
        (programs / name).write_text(f"#!/bin/sh\necho {name} ran\nexit {int(name == failing)}\n")
        (programs / name).chmod(0o755)
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in ("requirements.lock", "pyproject.toml", ".venv/.ready"):
        (tmp_path / name).touch()

    ended = make("test", folder=tmp_path)

    assert "pytest ran" in ended.stdout
    assert (ended.returncode == 0) == (failing is None)
