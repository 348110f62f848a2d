"""A gateway with an HTTP port over one repository in memory, and a client of it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import httpx

from codelode.backends.memory.call_limits import MemoryCallLimits
from codelode.settings import Settings
from gateway.app import Gateway
from tests.worlds import World

TOKEN = "sesame"
RIGHT = {"authorization": f"Bearer {TOKEN}"}
FILES = {"src/a.py": "def load(store):\n    return store\n"}


def connect(url, headers=None):
    """Return a client for plain HTTP, without trusted certificates, which take 25 ms to load."""
    return httpx.AsyncClient(base_url=url, headers=headers, timeout=60, verify=False)


@asynccontextmanager
async def serving(tmp_path, *, dependencies=None, limited=False, audit=None, **settings):
    """Yield a client with the token, and its gateway over one repository or `dependencies`."""
    given = {"listen": "127.0.0.1:0", "http_listen": "127.0.0.1:0", "token": TOKEN, **settings}
    chosen = Settings(data=tmp_path, local_paths=str(tmp_path), **given)
    world = World(chosen)
    world.index("acme/app", FILES)
    counts = MemoryCallLimits() if limited else None
    served = dependencies or world.dependencies
    gateway = Gateway(replace(served, settings=chosen, call_limits=counts, audit_log=audit))
    await gateway.start()
    scheme = "https" if chosen.tls_certificate else "http"
    try:
        async with connect(f"{scheme}://127.0.0.1:{gateway.http_port}", RIGHT) as client:
            yield client, gateway
    finally:
        await gateway.stop(grace_s=0)
        await world.dependencies.close()


async def answer_to_half_a_body(gateway, path, **headers):
    """Send only the beginning of a body, and return the answer of the gateway."""
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.http_port)
    given = {"Host": "localhost", "Content-Length": "100", "Connection": "close", **headers}
    lines = "".join(f"{name}: {value}\r\n" for name, value in given.items())
    writer.write(f"POST {path} HTTP/1.1\r\n{lines}\r\n{{".encode())
    answer = await reader.read()
    writer.close()
    return answer.decode()
