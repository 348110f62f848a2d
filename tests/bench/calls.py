"""Measure what authentication, limits, and the audit log cost per call, in processor time.

    python tests/bench/calls.py

The limiter counts in a separate Redis, as that of the gateway does, and API keys are stored there.
At the end, keys are revoked, and the time until another gateway refuses them is measured. Each part
runs alone, many times; the figures are microseconds of processor time of this process (all of its
threads), and the time that a call waits.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from statistics import median

from embedded import machine

from codelode import api_keys
from codelode.access import EVERYTHING, FRESH_S, Principal, Role
from codelode.api_keys import ApiKey
from codelode.backends import registry
from codelode.backends.memory.call_limits import MemoryCallLimits
from codelode.backends.memory.ledger import MemoryLedger
from codelode.cli import redis_server
from codelode.errors import Unauthenticated
from codelode.ports import ApiKeys
from codelode.settings import Settings
from gateway.access import Access
from gateway.access.api_keys import KeyAuthenticator
from gateway.access.attempts import GuardedAccess
from gateway.access.identity import Authenticator, ClientCertificates, Credentials
from gateway.access.openid import OpenIdConnect
from gateway.access.shared_token import SharedToken
from gateway.access.visibility import Visibilities
from gateway.service.audit import begin, involve
from gateway.service.audit_log import Call, opened
from gateway.service.limits import Limiter, limiter, wrong_credentials
from gateway.sessions import Credential, sessions
from tests.issuers import AUDIENCE, Issuer

WHO = Principal("user:ann@example.org", Role.READER, EVERYTHING)
#: Number of keys that are revoked, and time between two calls with each, seconds.
REVOCATIONS = 40
POLL_S = 0.005
CERTIFIED = "ci.example.org"
REPOSITORIES = [f"acme/r{number}" for number in range(10)]


@contextmanager
def redis(folder: Path) -> Iterator[str]:
    """Yield the URL of a server that runs until the block ends."""
    with redis_server.place_in(folder) as place:
        command = redis_server.command(place, binary=redis_server.locate())
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            url = redis_server.url(place)
            redis_server.wait_ready(url, is_alive=lambda: server.poll() is None)
            yield url
        finally:
            server.terminate()
            server.wait()


async def microseconds(call: Callable[[], Awaitable[object]], times: int) -> dict[str, float]:
    for _ in range(times // 10):
        await call()
    started, used = time.perf_counter(), time.process_time()
    for _ in range(times):
        await call()
    passed, spent = time.perf_counter() - started, time.process_time() - used
    return {
        "processor_us": round(spent / times * 1e6, 1),
        "wall_us": round(passed / times * 1e6, 1),
    }


async def limits(url: str, times: int) -> dict[str, object]:
    settings = Settings(
        redis_url=url, limits="on", search_per_minute=10_000_000, search_at_once=100_000
    )
    shared = registry.call_limits(settings)
    sides: dict[str, Limiter] = {
        "limits, off": limiter(settings, None),
        "limits, in this process": limiter(settings, MemoryCallLimits()),
        "limits, in Redis": limiter(settings, shared),
    }
    found: dict[str, object] = {}
    for name, side in sides.items():

        async def call(side: Limiter = side) -> None:
            async with side.admitted(WHO, "search"):
                await asyncio.sleep(0)  # as every call does: lets the previous release run

        found[name] = await microseconds(call, times)
    access = GuardedAccess(
        Access([SharedToken("sesame")], Visibilities(MemoryLedger())),
        shared,
        wrong_credentials(settings),
    )
    right = Credentials("Bearer sesame")

    async def known() -> None:
        await access.principal(right, source="10.0.0.1")

    found["shared token, with the guard of wrong ones"] = await microseconds(known, times)
    await shared.close()
    return found


async def authentication(url: str, times: int) -> dict[str, object]:
    """Return the cost of each kind of credentials, for calls that repeat them as clients do.

    The names in a client certificate are those that gRPC has verified with the connection.
    """
    issuer = Issuer()
    settings = Settings(redis_url=url, oidc_issuers=issuer.url, oidc_audience=AUDIENCE)
    keys, nobody = registry.api_keys(settings), Visibilities(MemoryLedger())
    values, documents = registry.expiring_values(settings), registry.documents()
    opened_sessions = sessions(settings, values, documents)
    key = f"Bearer {created(keys, 'bench')}"
    try:
        token = f"Bearer {issuer.token()}"
        sides: dict[str, tuple[Authenticator, Credentials]] = {
            "API key": (KeyAuthenticator(keys), Credentials(key)),
            "OpenID Connect, RS256": (
                OpenIdConnect.of(settings, documents),
                Credentials(token),
            ),
            "client certificate": (ClientCertificates(), Credentials(certificate=(CERTIFIED,))),
            "browser session with an API key": (
                KeyAuthenticator(keys),
                Credentials(session=await opened_sessions.open(Credential(key))),
            ),
        }
        found: dict[str, object] = {}
        for name, (side, given) in sides.items():
            access = Access([side], nobody, opened_sessions)
            found[name] = await microseconds(partial(access.principal, given), times)
    finally:
        issuer.stop()
        await values.close()
    return {**found, "from revocation to refusal, ms": await revocations(keys, nobody)}


def created(keys: ApiKeys, name: str) -> str:
    """Store a key, and return the text that its owner sends."""
    id, secret = api_keys.generate()
    assert keys.add(
        ApiKey(id, name, api_keys.digest(secret), Role.READER, (), time.time(), "bench")
    )
    return api_keys.text(id, secret)


async def revocations(keys: ApiKeys, visibilities: Visibilities) -> dict[str, float]:
    """Revoke keys while another gateway is called with them all the time."""
    other, taken = Access([KeyAuthenticator(keys)], visibilities), []
    for number in range(REVOCATIONS):
        text = created(keys, f"revoked{number}")
        given, (id, _) = Credentials(f"Bearer {text}"), api_keys.parts(text) or ("", "")
        await other.principal(given)
        await asyncio.sleep(number / REVOCATIONS * FRESH_S)  # so that cached keys have all ages
        started = time.perf_counter()
        await asyncio.to_thread(keys.remove, id)
        with suppress(Unauthenticated):
            while await other.principal(given):
                await asyncio.sleep(POLL_S)
        taken.append((time.perf_counter() - started) * 1e3)
    return {"median": round(median(taken), 1), "longest": round(max(taken), 1)}


async def recording(folder: Path, times: int) -> dict[str, object]:
    log = opened(Settings(audit_log=str(folder / "audit.jsonl"), audit_queries=True))
    assert log is not None

    async def call() -> None:
        facts = begin()
        involve(REPOSITORIES, query="where are sessions closed")
        log.record(Call("search", "10.0.0.1", "d705b886a4d8484f", WHO, facts, None))
        await asyncio.sleep(0)

    found: dict[str, object] = {
        "audit log, 10 repositories": await microseconds(call, min(times, 15_000))
    }
    log.close()
    return found


async def measured(folder: Path, times: int) -> dict[str, object]:
    with redis(folder) as url:
        return {
            **await authentication(url, times),
            **await limits(url, times),
            **await recording(folder, times),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=5_000)
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    given = parser.parse_args()
    facts = machine()
    with tempfile.TemporaryDirectory(prefix="calls-") as folder:
        found = asyncio.run(measured(Path(folder), given.times))
    for name, figures in found.items():
        print(f"{name:44}{figures}")
    if given.json:
        given.json.write_text(json.dumps({**facts, **found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
