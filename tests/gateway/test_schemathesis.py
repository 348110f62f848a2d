"""Schemathesis finds no request whose answer differs from the description of the HTTP port.

It runs apart from the packages of the tests, because it needs rich: where that is installed,
structlog imports it in every process.
"""

from __future__ import annotations

import asyncio
import subprocess

import pytest

from tests.http_gateways import RIGHT, serving
from tests.programs import python_program

pytestmark = pytest.mark.slow

SCHEMATHESIS = "schemathesis==4.32.5"
#: Random requests for each operation, besides those at the bounds of its schema. All together take
#: about 25 s of processor time.
EXAMPLES = 10
RUN_S = 240

#: Checks that promise nothing about this API: a text that the schema allows may name something that
#: does not exist, or have no words, and is then refused.
EXCLUDED = "positive_data_acceptance"


async def test_every_request_is_answered_as_described(tmp_path):
    command, environment = python_program("schemathesis.cli", SCHEMATHESIS)
    async with serving(tmp_path / "data") as (_, gateway):
        described = f"http://127.0.0.1:{gateway.http_port}/api/openapi.json"
        given = ("--header", f"Authorization: {RIGHT['authorization']}", "--seed", "20261125")
        run = asyncio.to_thread(
            subprocess.run,
            [
                *(*command, "run", described, *given, "--max-examples", str(EXAMPLES)),
                *("--exclude-operation-id", "WatchRun", "--exclude-checks", EXCLUDED),
                *("--phases", "examples,coverage,fuzzing", "--no-shrink", "--continue-on-failure"),
            ],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=RUN_S,
        )
        ended = await run

    assert ended.returncode == 0, ended.stdout + ended.stderr
