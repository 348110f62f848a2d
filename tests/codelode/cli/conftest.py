"""Run the command line in this process, and return its status, output, and errors."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from codelode.cli import main


class Answer(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture
def codelode(capsys, monkeypatch, tmp_path):
    """Runs `codelode ARGUMENTS…` without any cluster and settings of this machine."""
    monkeypatch.setenv("CODELODE_DATA", str(tmp_path / "data"))

    def run(*args: str) -> Answer:
        with pytest.raises(SystemExit) as ended:
            main(args)
        captured = capsys.readouterr()
        return Answer(int(ended.value.code or 0), captured.out, captured.err)

    return run


@pytest.fixture
def served(codelode, gateway, monkeypatch):
    """Return a function that runs a command with the canned gateway as its server."""
    monkeypatch.setenv("CODELODE_SERVER", gateway.address)
    return codelode
