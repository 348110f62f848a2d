"""Serve an agent on stdin and stdout as a client of the gateway."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mcp.server.stdio import stdio_server

from codelode.client import AsyncClient
from codelode.client.locator import locator
from codelode.mcp.server import make_server

if TYPE_CHECKING:
    from codelode.model import Run


class LocalClient(AsyncClient):
    """A client for an agent on this machine; relative paths start at the current folder."""

    async def index(self, url: str, **given: Any) -> Run:
        """Bring the index of a repository at a ref up to date; see `Client.index`."""
        return await super().index(locator(url), **given)


async def serve(address: Callable[[], str]) -> None:
    """Serve until stdin is closed. `address` returns the address of the gateway.

    Each tool call asks for the address and opens a connection. So after a restart of the gateway,
    even at another address and with another token, the next call is answered.
    """
    server = make_server(lambda: LocalClient(address()))
    async with stdio_server() as (received, sent):
        await server.run(received, sent, server.create_initialization_options())
