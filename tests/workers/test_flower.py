"""Flower does not start without a login."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize("login", [None, "", "codelode", "codelode:", ":secret", "a:b,c"])
def test_flower_without_a_login_refuses_to_start(login, tmp_path):
    environment = {name: value for name, value in os.environ.items() if "FLOWER" not in name}
    given = {} if login is None else {"FLOWER_BASIC_AUTH": login}

    ended = subprocess.run(
        [sys.executable, "-P", "-m", "workers.flower", "--port=0"],
        env={**environment, **given},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert ended.returncode == 1
    assert "flower: set a login: FLOWER_BASIC_AUTH=NAME:PASSWORD" in ended.stderr
