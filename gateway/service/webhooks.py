"""Act on events of code hosts: pushes, and changes of repositories and of rights to read them.

A connection acts on all repositories below its address. Its visibility does not limit that, because
nothing about them is returned.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from urllib.parse import unquote

from codelode.access import Principal
from codelode.errors import Denied, Unavailable
from codelode.host_permissions import address, has_prefix
from codelode.model import DEFAULT_REF, RefName, RefStatus, Repository, RepositoryName
from codelode.repository_sources import Mode
from gateway.service.audit import involve, note
from gateway.service.capabilities import permitted
from gateway.service.dependencies import Dependencies
from gateway.service.requests import HostEvent, PushedRef
from gateway.service.runs import begin

#: How long deliveries are remembered, seconds. Hosts repeat a delivery within hours.
KEPT_S = 86_400.0


@permitted
async def deliver(dependencies: Dependencies, principal: Principal, event: HostEvent) -> bool:
    """Act on an event of a code host; return whether it caused an action.

    A push starts runs of the repositories with one of its URLs, if they index the ref. After a
    change of rights, workers read the permissions; after a change of repositories, they list them.
    A delivery that was acted on before is ignored. Raises Denied for principals other than the
    connection.
    """
    if principal.name != event.principal:
        raise Denied("only a code host may report what happened there")
    note(connection=event.connection, delivery=event.delivery[:100])
    known, name = dependencies.deliveries, _name(event)
    if event.delivery and await known.get(name) is not None:
        note(repeated=True)
        return False
    acted = await asyncio.to_thread(_acted, dependencies, event)
    if event.delivery:  # last, so that a delivery that failed halfway can be repeated
        await known.put(name, b"acted on", ttl_s=KEPT_S)
    return acted


def _name(event: HostEvent) -> str:
    """Return the key of a delivery. Its length is bounded although the host chooses the id."""
    digest = hashlib.sha256(event.delivery.encode("utf-8", "surrogatepass")).hexdigest()
    return f"delivery:{event.connection}:{digest}"


def _acted(dependencies: Dependencies, event: HostEvent) -> bool:
    read = _read_permissions(dependencies, event)
    names = list(_named(dependencies, event)) if event.refs else []
    listed = _list_repositories(dependencies, event, is_known=bool(names))
    return _start_runs(dependencies, event, names) or listed or read


def _read_permissions(dependencies: Dependencies, event: HostEvent) -> bool:
    if not event.changes_rights:
        return False
    states = dependencies.permissions.states()
    if event.connection not in {state.declared.name for state in states}:
        return False
    dependencies.permissions.want(event.connection)
    with suppress(Unavailable):  # the periodic job finds that they are due
        dependencies.jobs.read_permissions(event.connection)
    return True


def _list_repositories(dependencies: Dependencies, event: HostEvent, *, is_known: bool) -> bool:
    if not event.changes_repositories and (is_known or not event.may_be_first):
        return False
    states = dependencies.sources.states()
    if event.connection not in {state.declared.name for state in states}:
        return False
    dependencies.sources.want(event.connection, Mode.SYNC)
    with suppress(Unavailable):  # the periodic job finds that they are due
        dependencies.jobs.read_source(event.connection)
    return True


def _start_runs(
    dependencies: Dependencies, event: HostEvent, names: Sequence[RepositoryName]
) -> bool:
    involve(names)
    ledger = dependencies.ledger
    known = zip(ledger.get_all(names), ledger.refs_of(names), strict=True) if names else ()
    runs = [
        begin(dependencies, repository.name, ref)
        for repository, statuses in known
        if repository
        for ref in _affected(repository, statuses, event.refs)
    ]
    if event.refs:
        note(runs=len(runs))
    return bool(runs)


def _named(dependencies: Dependencies, event: HostEvent) -> Iterator[RepositoryName]:
    """Yield the repositories of the connection with one of the URLs of the event."""
    places = set(filter(None, map(address, event.urls)))
    tails = tuple({place.rpartition("/")[2] for place in places})
    for name, url in dependencies.ledger.urls().items():
        # Parsing all of 10,000 URLs takes 60 ms, so compare their ends first.
        ends = unquote(url).lower().removesuffix("/").removesuffix(".git").endswith(tails)
        if ends and has_prefix(url, event.prefix) and address(url) in places:
            yield name


def _affected(
    repository: Repository, statuses: Sequence[RefStatus], pushed: Sequence[PushedRef]
) -> Collection[RefName]:
    """Return the refs of the repository to index because of a push; there may be none.

    The next run of any ref removes deleted refs, adds new refs that the rules of the connection
    name, and follows a new default branch. The default ref is returned to request such a run.
    """
    indexed = {status.ref for status in statuses}
    found = (_affected_by(repository, indexed, one) for one in pushed)
    return dict.fromkeys(ref for ref in found if ref is not None)


def _affected_by(
    repository: Repository, indexed: Collection[str], pushed: PushedRef
) -> RefName | None:
    if pushed.name == repository.default_ref or not repository.default_ref:
        return DEFAULT_REF
    if pushed.is_default and repository.follows_default:
        return DEFAULT_REF
    if pushed.name not in indexed:
        return DEFAULT_REF if pushed.brings_ref else None
    return DEFAULT_REF if pushed.is_deletion else RefName(pushed.name)
