"""The Makefile tells what it makes, and what it lacks."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

#: What one make tells another that it runs.
OF_MAKE = ("MAKELEVEL", "MAKEFLAGS", "MFLAGS")


def make(*arguments):
    # Nothing is installed: what is there counts as up to date. The make that runs the tests is
    # none of its business: under another one it says where it is.
    environment = {name: value for name, value in os.environ.items() if name not in OF_MAKE}
    return subprocess.run(
        ["make", "--old-file=.venv/.ready", *arguments],
        cwd=ROOT,
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
