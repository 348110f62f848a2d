"""Answer one HTTP request of an agent: streamable HTTP without sessions."""

from __future__ import annotations

import logging
from typing import Any

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from codelode.mcp.server import Connect, make_server

# The library would log two lines for each request.
logging.getLogger("mcp").setLevel(logging.WARNING)


async def serve(connect: Connect, *asgi: Any) -> None:
    """Answer a request. `asgi`: the scope, and the functions that receive and send its parts.

    Without sessions, the library's manager keeps nothing between requests. So each request gets a
    manager, and everything that the request has begun ends with it.
    """
    manager = StreamableHTTPSessionManager(make_server(connect), stateless=True)
    async with manager.run():
        await manager.handle_request(*asgi)
