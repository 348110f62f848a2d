"""Create, list, and revoke API keys, and sign browsers in.

A key has no more rights than the principal that created it: it has the bounds of its creator, and
expires no later than a key that created it. Other credentials set no time: tokens of issuers live
for minutes. A creator with bounds lists and revokes only keys within them.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Container, Iterator, Mapping, Sequence

from codelode import api_keys, repository_globs
from codelode.access import FRESH_S, Bounds, Label, Principal, Role
from codelode.api_keys import ApiKey
from codelode.errors import Denied, InvalidQuery, NotFound
from codelode.host_permissions import has_prefix
from codelode.model import RepositoryName
from codelode.repository_globs import Within, literals
from gateway.service.audit import note
from gateway.service.capabilities import permitted
from gateway.service.catalog import unknown
from gateway.service.dependencies import Dependencies
from gateway.service.requests import CreateKeyRequest
from gateway.service.results import CreatedKey, Key, key_of
from gateway.sessions import Credential

#: Longest life of a key, seconds: ten years.
MAX_LIFE_S = 10 * 365 * 86_400


@permitted
async def create_key(
    dependencies: Dependencies, principal: Principal, request: CreateKeyRequest
) -> CreatedKey:
    """Create a key and return it with its secret, which is stored nowhere.

    Raises InvalidQuery, and Denied for a key that would outlive its creator's key.
    """
    _require_no_key(request.name)
    note(key=request.name[:100], key_role=request.role[:100])
    id, secret = api_keys.generate()
    key = _key(request, principal, id=id, digest=api_keys.digest(secret))
    note(key_id=id)
    if not await asyncio.to_thread(dependencies.keys.add, key):
        raise InvalidQuery(
            "name", f"{key.name!r} is the name of another key; choose another, or revoke that one"
        )
    notices = await asyncio.to_thread(_notices, dependencies, key)
    return CreatedKey(key=api_keys.text(id, secret), created=key_of(key), notices=notices)


@permitted
async def list_keys(dependencies: Dependencies, principal: Principal) -> tuple[Key, ...]:
    """List the keys within the bounds of the principal, by name."""
    return tuple(map(key_of, await asyncio.to_thread(_within, dependencies, principal)))


@permitted
async def revoke_key(dependencies: Dependencies, principal: Principal, name: str) -> None:
    """Revoke a key; when this returns, no gateway accepts it. Raises NotFound."""
    _require_no_key(name)
    note(key=name[:100])
    keys = await asyncio.to_thread(_within, dependencies, principal)
    found = next((key for key in keys if key.name == name), None)
    if found is None:
        names = [key.name for key in keys]
        raise NotFound(unknown("key", name, names) if names else f"there is no key {name[:100]!r}")
    await asyncio.to_thread(dependencies.keys.remove, found.id)
    await asyncio.sleep(FRESH_S)


@permitted
async def sign_in(dependencies: Dependencies, principal: Principal, credential: Credential) -> str:
    """Open a session with the caller's own credential and return its id, the value of a cookie."""
    return await dependencies.sessions.open(credential)


@permitted
async def sign_in_link(dependencies: Dependencies, principal: Principal, authorization: str) -> str:
    """Return the code of a link that signs one browser in, once, with the authorization."""
    return await dependencies.sessions.link(authorization)


def _notices(dependencies: Dependencies, key: ApiKey) -> tuple[str, ...]:
    """Return notices about repositories that the key does not see although its globs match."""
    within = Within(key.bounds)
    labels = {n: label for n, label in dependencies.ledger.labels().items() if n in within}
    if key.bounds and not labels:
        return ("the globs of the key match no repository so far",)
    if key.role is Role.ADMIN:
        return ()
    account = f"the account that the access file gives to key:{key.name}"
    synced = _synced(dependencies) & labels.keys()
    of = f"of the {len(labels)} {'matching ' if key.bounds else ''}repositories"
    host = (
        f"{len(synced)} {of} are under permission sync: the key sees only those that {account} "
        "may read"
    )
    bare = (
        "without globs, the key sees only repositories with the label public, and those that "
        f"{account} may read"
    )
    hidden = _hidden(key, labels, synced, of) if key.bounds else (bare,)
    return (*hidden, *([host] if synced else []))


def _hidden(
    key: ApiKey,
    labels: Mapping[RepositoryName, Label | None],
    synced: Container[RepositoryName],
    of: str,
) -> Iterator[str]:
    """Yield notices about matching repositories that the key cannot see because of their labels."""
    named = literals(glob for globs in key.bounds for glob in globs)
    bare = sum(label is None and name not in synced for name, label in labels.items())
    private = sum(one is Label.PRIVATE and name not in named for name, one in labels.items())
    if bare:
        remedy = "`codelode label NAME internal` makes them visible"
        yield f"the key does not see {bare} {of}: they have no label; {remedy}"
    if private:
        remedy = "a key sees them if it names them without wildcards"
        yield f"the key does not see {private} {of}: they are private; {remedy}"


def _synced(dependencies: Dependencies) -> frozenset[RepositoryName]:
    """Return the repositories whose code host decides who sees them."""
    prefixes = [state.declared.prefix for state in dependencies.permissions.states()]
    urls = dependencies.ledger.urls() if prefixes else {}
    return frozenset(
        name for name, url in urls.items() if any(has_prefix(url, one) for one in prefixes)
    )


def _within(dependencies: Dependencies, principal: Principal) -> list[ApiKey]:
    own = set(principal.bounds)
    return [key for key in dependencies.keys.all() if own <= set(key.bounds)]


def _key(request: CreateKeyRequest, principal: Principal, *, id: str, digest: str) -> ApiKey:
    now = time.time()
    return ApiKey(
        id=id,
        name=_name(request.name),
        digest=digest,
        role=_role(request.role),
        bounds=_bounds(request.repositories, principal),
        created_at=now,
        created_by=principal.name,
        expires_at=_expiry(request.expires_in_s, principal, now),
    )


def _require_no_key(name: str) -> None:
    """Raise InvalidQuery if the name is a key, because no message may contain its secret."""
    if api_keys.is_in(name):
        raise InvalidQuery("name", "holds a key; give its name, which `codelode keys list` shows")


def _name(name: str) -> str:
    if not api_keys.is_name(name):
        raise InvalidQuery(
            "name", f"{name[:100]!r} is not 1 to 64 letters, digits, and . _ -; rename the key"
        )
    return name


def _role(role: str) -> Role:
    if role not in tuple(Role):
        raise InvalidQuery("role", unknown("role", role, tuple(Role)))
    return Role(role)


def _bounds(globs: Sequence[str], principal: Principal) -> Bounds:
    if problem := repository_globs.problem(globs):
        raise InvalidQuery("repositories", problem)
    given = (tuple(globs),) if globs else ()
    return tuple(dict.fromkeys((*principal.bounds, *given)))


def _expiry(expires_in_s: float, principal: Principal, now: float) -> float | None:
    if not 0 <= expires_in_s <= MAX_LIFE_S:  # also refuses NaN
        raise InvalidQuery("expires_in_s", f"is {expires_in_s}; give 1 s to ten years, or 0: never")
    expires_at = now + expires_in_s if expires_in_s else math.inf
    if expires_at > principal.expires_at:
        left_s = int(principal.expires_at - now)
        raise Denied(
            f"a key may not outlive the key that creates it: let it expire in {left_s} s or sooner"
        )
    return None if expires_at == math.inf else expires_at
