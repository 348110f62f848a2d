"""`codelode mcp`: serve agents over stdin and stdout."""

from __future__ import annotations

import asyncio
import signal
import sys

import click

from codelode.cli import printing
from codelode.cli.options import address_option, default_server


@click.group(invoke_without_command=True)
@address_option
@click.pass_context
def mcp(context: click.Context, *, server: str | None) -> None:
    """Serve agents on stdin and stdout by the Model Context Protocol.

    Agents start this command themselves.

    \b
    Examples:
      codelode mcp
    """
    if context.invoked_subcommand is None:
        _serve(server)


def _serve(server: str | None) -> None:
    from codelode.client.channel import checked
    from codelode.mcp import serve

    if server is not None:
        checked(server)
    # The library waits for a line on stdin, which nothing interrupts. Nothing is lost by ending.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if sys.stdin.isatty():
        printing.note("an agent starts this command and speaks to it on stdin; Ctrl-D ends it")
    asyncio.run(serve(lambda: server or default_server()))
