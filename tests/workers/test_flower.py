"""Flower does not start without a login."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

#: Runs Flower for each login that it is given, in processes that share the imports; prints how
#: they end.
EACH = """
import os, sys
from workers.flower import main
logins, sys.argv = sys.argv[1:], ["flower", "--port=0"]
for login in logins:
    if not os.fork():
        os.environ["FLOWER_BASIC_AUTH"] = login
        main()
    print(os.waitstatus_to_exitcode(os.wait()[1]))
"""
LOGINS = ("", "codelode", "codelode:", ":secret", "a:b,c")
REFUSAL = "flower: set a login: FLOWER_BASIC_AUTH=NAME:PASSWORD"


def ended(folder, *arguments):
    return subprocess.run(
        [sys.executable, "-P", *arguments],
        env={name: value for name, value in os.environ.items() if "FLOWER" not in name},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_flower_without_a_login_refuses_to_start(tmp_path):
    flower = ended(tmp_path, "-m", "workers.flower", "--port=0")

    assert flower.returncode == 1
    assert REFUSAL in flower.stderr


def test_flower_with_half_a_login_refuses_to_start(tmp_path):
    flowers = ended(tmp_path, "-c", EACH, *LOGINS)

    assert flowers.stdout.split() == ["1"] * len(LOGINS), flowers.stderr
    assert flowers.stderr.count(REFUSAL) == len(LOGINS)
