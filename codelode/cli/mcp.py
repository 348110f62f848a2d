"""`codelode mcp`: serve agents on stdin and stdout, and configure agents to start the command."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from codelode.cli import printing
from codelode.cli.options import address_option, default_server
from codelode.environment import DEFAULT_DATA, TOKEN, client_settings, client_variables
from codelode.errors import InvalidSettings, NotFound
from codelode.loopback import is_confidential

if TYPE_CHECKING:
    from codelode.operations.agents import Agent, Change

project_option = click.option(
    "--project",
    "is_project",
    is_flag=True,
    help="Change the file of the project in this folder instead of that of the user.",
)
yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")


@click.group(invoke_without_command=True)
@address_option
@click.pass_context
def mcp(context: click.Context, *, server: str | None) -> None:
    """Serve agents on stdin and stdout over the Model Context Protocol.

    Agents start this command themselves; `codelode mcp install AGENT` configures an agent for that.
    The gateway need not run yet: each tool call opens a new connection.

    \b
    Examples:
      codelode mcp install claude-code
      codelode mcp install cursor --project
      codelode mcp --server grpcs://search.example.com:50051
    """
    if server is not None:
        from codelode.client.channel import checked

        checked(server)
    if context.invoked_subcommand is None:
        _serve(server)


def _serve(server: str | None) -> None:
    from codelode.mcp.stdio import serve

    # The library waits for a line on stdin uninterruptibly, so let Ctrl-C end the process.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if sys.stdin.isatty():
        printing.note("an agent starts this command and speaks to it on stdin; Ctrl-D ends it")
    asyncio.run(serve(lambda: server or default_server()))


@mcp.command()
@click.argument("agent", required=False)
@click.option("--list", "is_list", is_flag=True, help="List the agents and their files.")
@click.option(
    "--http",
    "url",
    metavar="URL",
    help="Let the agent call the gateway at this URL over HTTP instead of starting a command.",
)
@project_option
@yes_option
@click.pass_context
def install(
    context: click.Context,
    *,
    agent: str | None,
    is_list: bool,
    url: str | None,
    is_project: bool,
    yes: bool,
) -> None:
    """Configure AGENT to start `codelode mcp`.

    The command shows the change before it makes it. The rest of the file stays as it is. The
    options of `codelode mcp` before `install`, and variables that are set now, such as
    CODELODE_DATA and CODELODE_TOKEN_FILE, become part of the entry; a token never does.

    With --http, the entry names the URL. If CODELODE_TOKEN is set, the entry names that variable,
    which must then be set when the agent starts; otherwise the agent logs in at the issuer.

    \b
    Examples:
      codelode mcp install --list
      codelode mcp install claude-code
      codelode mcp --server grpcs://search.example.com:50051 install codex --yes
      codelode mcp install cursor --http https://search.example.com:50080
    """
    from codelode.operations.agents import installation

    if is_list:
        click.echo(printing.table(("agent", "codelode", "file"), _rows(is_project=is_project)))
        return
    chosen, path = _chosen(agent, is_project=is_project)
    assert context.parent is not None
    server = context.parent.params["server"]
    entry = _entry(chosen, server, url)
    change = installation(chosen, path, entry, records=_records())
    _make(change, yes=yes, done=f"{chosen.title} uses codelode from its next start on")


@mcp.command()
@click.argument("agent")
@project_option
@yes_option
def uninstall(*, agent: str, is_project: bool, yes: bool) -> None:
    """Undo `codelode mcp install AGENT` after showing the change.

    A file that was not changed since the installation is restored; from any other file, only the
    entry is removed.

    \b
    Examples:
      codelode mcp uninstall claude-code
    """
    from codelode.operations.agents import removal

    chosen, path = _chosen(agent, is_project=is_project)
    change = removal(chosen, path, records=_records())
    _make(change, yes=yes, done=f"{chosen.title} does not use codelode any more")


def _chosen(name: str | None, *, is_project: bool) -> tuple[Agent, Path]:
    from codelode.operations.agents import AGENTS

    if name not in AGENTS:
        told = "name an agent" if name is None else f"there is no agent {name!r}"
        raise click.UsageError(f"{told}: {', '.join(AGENTS)}")
    path = AGENTS[name].file(Path.cwd() if is_project else None)
    if path is None:
        raise click.UsageError(f"{AGENTS[name].title} has no file for a project; omit --project")
    return AGENTS[name], path


def _rows(*, is_project: bool) -> list[tuple[str, str, str]]:
    from codelode.operations.agents import AGENTS

    files = [(agent, agent.file(Path.cwd() if is_project else None)) for agent in AGENTS.values()]
    return [(agent.name, _state(agent, path), str(path)) for agent, path in files if path]


def _state(agent: Agent, path: Path) -> str:
    from codelode.operations.agents import removal

    try:
        removal(agent, path, records=_records())
    except NotFound:
        return "no"
    except InvalidSettings:
        return "broken"
    return "yes"


def _records() -> Path:
    """Return the folder of the records that undo changes, which is the same for all clusters."""
    return Path(DEFAULT_DATA).expanduser() / "agents"


def _entry(agent: Agent, server: str | None, url: str | None) -> dict[str, Any]:
    has_token = bool(client_settings().token)
    if url is None:
        if has_token:
            printing.note(f"{TOKEN} is not written: use CODELODE_TOKEN_FILE or `codelode login`")
        return agent.entry(_command(server), client_variables())
    if server is not None:
        raise click.UsageError("give --server or --http, not both")
    if agent.http is None:
        raise click.UsageError(f"{agent.title} only starts commands; omit --http")
    return agent.http.entry(_endpoint(url), TOKEN if has_token else "")


def _endpoint(url: str) -> str:
    """Return the URL, with the path /mcp if it has none."""
    from urllib.parse import urlsplit

    if not is_confidential(url):
        raise click.UsageError(
            f"{url!r}: the agent sends its token there; give https://HOST:PORT, or "
            "http://127.0.0.1:PORT on this machine"
        )
    return url if urlsplit(url).path.strip("/") else f"{url.rstrip('/')}/mcp"


def _command(server: str | None) -> list[str]:
    """Return the command for the agent, with its full path: the agent may have another PATH."""
    script = Path(sys.executable).with_name("codelode")
    program = [str(script)] if script.exists() else [sys.executable, "-m", "codelode"]
    return [*program, "mcp", *(["--server", server] if server else [])]


def _make(change: Change, *, yes: bool, done: str) -> None:
    from codelode.operations.agents import applied

    if not (diff := change.diff()):
        printing.note(f"{change.path} already has this entry")
        return
    click.echo(printing.plain(diff), nl=False)
    if not yes:
        if not sys.stdin.isatty():
            raise click.UsageError("there is no terminal to confirm on; give --yes")
        click.confirm(f"Change {change.path}?", abort=True, err=True)
    applied(change, records=_records())
    printing.note(done)
