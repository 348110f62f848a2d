"""MCP works with other implementations: TypeScript client, Inspector, and conformance suite."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.guardian import GUARDIAN
from tests.http_gateways import TOKEN, serving
from tests.programs import node, npm_packages

pytestmark = pytest.mark.slow

CLIENT = "@modelcontextprotocol/client@2.4.0"
INSPECTOR = "@modelcontextprotocol/inspector@2.12.0"
CONFORMANCE = "@modelcontextprotocol/conformance@0.1.16"

#: Programs in these packages.
INSPECT = "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
CONFORM = "@modelcontextprotocol/conformance/dist/index.js"

HERE = Path(__file__).parents[1]
#: Maximum duration of a program, seconds; they take one to four.
RUN_S = 100

#: What the conformance suite asks of the server that its authors test it with, and of features that
#: codelode does not have and does not announce. It fails if one of them passes.
MISSING = {
    "logging-set-level": "logging",
    "completion-complete": "completion",
    "resources-subscribe": "subscriptions",
    "resources-unsubscribe": "subscriptions",
    "server-sse-multiple-streams": "sessions",
    **dict.fromkeys(
        (
            *("tools-call-simple-text", "tools-call-image", "tools-call-audio"),
            *("tools-call-embedded-resource", "tools-call-mixed-content", "tools-call-error"),
            *("tools-call-with-logging", "tools-call-with-progress", "tools-call-sampling"),
            *("tools-call-elicitation", "elicitation-sep1034-defaults"),
            "elicitation-sep1330-enums",
        ),
        "a tool of that server",
    ),
    **dict.fromkeys(
        ("resources-read-text", "resources-read-binary", "resources-templates-read"),
        "a resource of that server",
    ),
    **dict.fromkeys(
        (
            *("prompts-get-simple", "prompts-get-with-args"),
            *("prompts-get-embedded-resource", "prompts-get-with-image"),
        ),
        "a prompt of that server",
    ),
}


async def ran(*command):
    """Return what a program printed, which must not fail; the event loop serves meanwhile."""

    def run():
        return subprocess.run(
            [str(part) for part in command],
            capture_output=True,
            text=True,
            check=False,
            timeout=RUN_S,
            env={**os.environ, "NO_COLOR": "1", "NO_UPDATE_NOTIFIER": "1"},
        )

    ended = await asyncio.to_thread(run)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


async def test_the_typescript_client_uses_tools_files_and_prompts(tmp_path):
    program = tmp_path / "mcp_client.mjs"
    shutil.copy(HERE / program.name, program)
    (tmp_path / "node_modules").symlink_to(npm_packages(CLIENT) / "node_modules")
    async with serving(tmp_path / "data") as (_, gateway):
        url = f"http://127.0.0.1:{gateway.http_port}/mcp"
        got = json.loads(await ran(node(), program, url, TOKEN))

    def text(answer):
        return answer["content"][0]["text"]

    assert got["server"]["name"] == "codelode"
    assert len(got["tools"]) == 8
    assert "src/a.py:1-2 load (function)" in text(got["found"])
    assert got["refused"]["isError"]
    assert "query" in text(got["refused"])
    assert "def load(store):" in got["file"]["contents"][0]["text"]
    assert "Explain src/a.py" in got["prompt"]["messages"][0]["content"]["text"]
    assert "the run goes on" in text(got["started"])
    assert got["progress"][0].startswith("acme/new  pulling")


async def test_the_inspector_lists_and_calls_tools(tmp_path):
    inspect = npm_packages(INSPECTOR) / "node_modules" / INSPECT
    async with serving(tmp_path) as (_, gateway):
        url = f"http://127.0.0.1:{gateway.http_port}/mcp"
        to = ("--cli", url, "--transport", "http", "--header", f"Authorization: Bearer {TOKEN}")
        listed, called = await asyncio.gather(
            ran(node(), inspect, *to, "--method", "tools/list"),
            ran(
                *(node(), inspect, *to, "--method", "tools/call"),
                *("--tool-name", "search", "--tool-arg", "query=load"),
            ),
        )

    assert len(json.loads(listed)["tools"]) == 8
    assert "src/a.py:1-2" in json.loads(called)["content"][0]["text"]


async def test_the_conformance_suite_finds_nothing_but_what_is_missing_on_purpose(tmp_path):
    conform = npm_packages(CONFORMANCE) / "node_modules" / CONFORM
    expected = tmp_path / "expected.yaml"
    expected.write_text("server:\n" + "".join(f"  - {name}\n" for name in MISSING))
    async with serving(tmp_path) as (_, gateway):
        relay = GUARDIAN.popen(
            [node(), HERE / "mcp_relay.mjs", "127.0.0.1", str(gateway.http_port), TOKEN],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            port = int(await asyncio.to_thread(relay.stdout.readline))
            url = f"http://127.0.0.1:{port}/mcp"
            told = await ran(
                node(), conform, "server", "--url", url, "--expected-failures", expected
            )
        finally:
            relay.kill()
            relay.wait()
            relay.stdout.close()

    passed = {"server-initialize", "ping", "tools-list", "resources-list", "prompts-list"}
    for scenario in (*passed, "dns-rebinding-protection"):
        assert f"✓ {scenario}: " in told
