"""Agents for tests: the official MCP client, talking to a command or over HTTP to a gateway."""

from __future__ import annotations

import asyncio
import sys
import threading
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

ANSWER_S = 120
CODELODE = (sys.executable, "-m", "codelode", "mcp")


class Agent:
    """Calls tools. The session runs in a separate thread, because it belongs to one task."""

    def __init__(self, environment, *, command=CODELODE, mode="auto", log=sys.stderr):
        program, *arguments = command
        server = StdioServerParameters(command=program, args=arguments, env=environment)
        self._begin(lambda: stdio_client(server, log), mode)

    def _begin(self, transport, mode):
        self._ready = Future()
        self._thread = threading.Thread(target=self._run, args=(transport, mode), daemon=True)
        self._thread.start()
        self._loop, self._ended, self.session = self._ready.result(ANSWER_S)

    def do(self, call):
        """Run a coroutine of the session and return its result."""
        return asyncio.run_coroutine_threadsafe(call, self._loop).result(ANSWER_S)

    def call(self, tool, **arguments):
        """Return the text of the answer. Raises Refused with the text of an error."""
        answer = self.result(tool, **arguments)
        (content,) = answer.content
        if answer.is_error:
            raise Refused(content.text)
        return content.text

    def result(self, tool, *, on_progress=None, **arguments):
        """Return the whole answer."""
        return self.do(self.session.call_tool(tool, arguments, progress_callback=on_progress))

    def close(self):
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(ANSWER_S)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _run(self, *how):
        try:
            asyncio.run(self._serve(*how))
        except BaseException as exc:  # noqa: BLE001  passed to the thread that waits for the session
            if not self._ready.done():
                self._ready.set_exception(exc)

    async def _serve(self, transport, mode):
        ended = asyncio.Event()
        async with Client(transport(), mode=mode) as session:
            self._ready.set_result((asyncio.get_running_loop(), ended, session))
            await ended.wait()


class HttpAgent(Agent):
    """Calls the tools of the gateway at a URL."""

    def __init__(self, url, token, *, mode="auto"):
        headers = {"authorization": f"Bearer {token}"}

        @asynccontextmanager
        async def transport():
            async with (
                httpx2.AsyncClient(headers=headers, timeout=ANSWER_S) as client,
                streamable_http_client(f"{url}/mcp", http_client=client) as streams,
            ):
                yield streams

        self._begin(transport, mode)


class Refused(Exception):
    """The answer is an error."""
