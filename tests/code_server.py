"""VS Code in a browser: code-server from npm, installed once, with one extension."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.guardian import GUARDIAN
from tests.programs import cached, node, npm
from tests.waiting import wait_until

VERSION = "4.139.1"  # MIT
READY_S = 120.0
LISTENING = re.compile(r"HTTP server listening on (http://127\.0\.0\.1:\d+)")

SETTINGS = {
    "chat.disableAIFeatures": True,
    "security.workspace.trust.enabled": False,
    "telemetry.telemetryLevel": "off",
    "workbench.startupEditor": "none",
}


@contextmanager
def running_code_server(folder: Path, vsix: Path, **environment: str) -> Iterator[str]:
    """Yield the address of a code-server with the extension; its files are in the folder."""
    program = _installed() / "node_modules" / "code-server" / "out" / "node" / "entry.js"
    settings = folder / "data" / "User" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps(SETTINGS))
    (folder / "config.yaml").write_text("auth: none\nbind-addr: 127.0.0.1:0\n")
    command = [node(), program, "--config", folder / "config.yaml"]
    command += ["--user-data-dir", folder / "data", "--extensions-dir", folder / "extensions"]
    own = {**os.environ, "HOME": str(folder), **environment}
    install = [*command, "--install-extension", vsix]
    subprocess.run(install, env=own, check=True, capture_output=True, timeout=READY_S)
    log = folder / "code-server.log"
    with log.open("wb") as output:
        process = GUARDIAN.popen(
            [*command, "--disable-telemetry", "--disable-update-check"],
            env=own,
            stdout=output,
            stderr=output,
        )
    try:
        wait_until(
            lambda: LISTENING.search(log.read_text()),
            "code-server to listen",
            seconds=READY_S,
            give_up=lambda: "" if process.poll() is None else log.read_text(),
        )
        found = LISTENING.search(log.read_text())
        assert found
        yield found[1]
    finally:
        process.terminate()
        process.wait(30)


def _installed() -> Path:
    """Return the folder with code-server, without native modules, which no test needs."""

    def install(folder: Path) -> None:
        npm(folder, "install", "--ignore-scripts", f"code-server@{VERSION}")
        editor = folder / "node_modules" / "code-server" / "lib" / "vscode"
        for part in (editor, editor / "extensions"):
            npm(part, "install", "--omit=dev", "--ignore-scripts")

    return cached(f"code-server-{VERSION}", install)
