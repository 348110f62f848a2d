"""The agents that codelode can configure: one row each, according to their documentation."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from codelode.environment import variable
from codelode.operations.agents import json_text, toml_text


@dataclass(frozen=True, slots=True)
class HttpForm:
    """The form of an entry for a server that is reached over HTTP."""

    variable: str  # the reference to an environment variable, whose name replaces `{}`
    url: str = "url"
    fixed: dict[str, str] = field(default_factory=dict)
    token: str = ""  # the key under which the entry names the variable; empty: it has headers

    def entry(self, url: str, token: str) -> dict[str, Any]:
        """Return the entry for the URL; `token` names the variable with the token, if any."""
        made: dict[str, Any] = {**self.fixed, self.url: url}
        if token and self.token:
            made[self.token] = token
        elif token:
            made["headers"] = {"Authorization": f"Bearer {self.variable.format(token)}"}
        return made


@dataclass(frozen=True, slots=True)
class Agent:
    """The file in which an agent reads its MCP servers, and the form of its entries."""

    name: str
    title: str
    user: str  # the file of the user, below `home`
    project: str = ""  # the file in a project's folder; empty: it has none
    section: str = "mcpServers"
    form: ModuleType = json_text
    fixed: dict[str, str] = field(default_factory=dict)  # what an entry has besides the command
    home: str = ""  # the variable whose value replaces the folder of `user`
    http: HttpForm | None = None  # None: the agent only starts commands

    def file(self, project: Path | None) -> Path | None:
        """Return the file of the user, or that of the project if one is given."""
        if project is not None:
            return project / self.project if self.project else None
        moved = variable(self.home) if self.home else ""
        if moved:
            return Path(moved) / Path(self.user).name
        return Path.home() / self.user

    def entry(self, command: list[str], environment: dict[str, str]) -> dict[str, Any]:
        """Return the entry that starts the command."""
        made = {**self.fixed, "command": command[0], "args": command[1:]}
        return {**made, "env": environment} if environment else made


#: The folder, below the home folder, in which desktop programs keep their settings.
_SETTINGS = "Library/Application Support" if sys.platform == "darwin" else ".config"

AGENTS = {
    agent.name: agent
    for agent in (
        Agent(
            "claude-code",
            "Claude Code",
            ".claude.json",
            ".mcp.json",
            home="CLAUDE_CONFIG_DIR",
            http=HttpForm("${{{}}}", fixed={"type": "http"}),
        ),
        Agent("claude-desktop", "Claude Desktop", f"{_SETTINGS}/Claude/claude_desktop_config.json"),
        Agent(
            "codex",
            "Codex",
            ".codex/config.toml",
            ".codex/config.toml",
            section="mcp_servers",
            form=toml_text,
            home="CODEX_HOME",
            http=HttpForm("", token="bearer_token_env_var"),
        ),
        Agent(
            "cursor",
            "Cursor",
            ".cursor/mcp.json",
            ".cursor/mcp.json",
            http=HttpForm("${{env:{}}}"),
        ),
        Agent(
            "gemini",
            "Gemini CLI",
            ".gemini/settings.json",
            ".gemini/settings.json",
            http=HttpForm("${{{}}}", "httpUrl"),
        ),
        Agent(
            "vscode",
            "VS Code",
            f"{_SETTINGS}/Code/User/mcp.json",
            ".vscode/mcp.json",
            section="servers",
            fixed={"type": "stdio"},
            http=HttpForm("${{env:{}}}", fixed={"type": "http"}),
        ),
        Agent(
            "windsurf",
            "Windsurf",
            ".codeium/windsurf/mcp_config.json",
            http=HttpForm("${{env:{}}}", "serverUrl"),
        ),
    )
}
