"""The Makefile tells what it makes, and what it lacks."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

#: What one make tells another that it runs.
OF_MAKE = ("MAKELEVEL", "MAKEFLAGS", "MFLAGS")


def make(*arguments, folder=ROOT):
    # Nothing is installed: what is there counts as up to date. The make that runs the tests is
    # none of its business: under another one it says where it is.
    environment = {name: value for name, value in os.environ.items() if name not in OF_MAKE}
    return subprocess.run(
        ["make", "--old-file=.venv/.ready", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_help_has_every_target_with_its_comment():
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
def test_a_quality_run_says_what_it_lacks(given, says):
    ended = make("bench-quality", *given)

    assert ended.returncode == 2
    assert ended.stderr.startswith(says)


@pytest.mark.parametrize("failing", ["ruff", "mypy", "lint-imports", "pytest", None])
def test_a_test_run_fails_if_a_check_or_a_test_fails(tmp_path, failing):
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
