"""Find the repositories that an identity may see."""

from __future__ import annotations

from codelode.access import EVERYTHING, Visibility
from codelode.ledger import Catalog
from codelode.model import RepositoryName
from codelode.repository_globs import Within
from gateway.access.fresh import FreshCache
from gateway.access.identity import Identity


class Visibilities:
    """Applies the rule of docs/security.md to identities."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._names: FreshCache[None, tuple[RepositoryName, ...]] = FreshCache(self._read)

    async def of(self, identity: Identity) -> Visibility:
        """Return what the identity may see. Raises Unavailable if the catalog does not answer."""
        if not identity.bounds:
            return EVERYTHING
        within = Within(identity.bounds)
        return Visibility.of(name for name in await self._names.get(None) if name in within)

    def _read(self, _: None) -> tuple[RepositoryName, ...]:
        return tuple(repository.name for repository in self._catalog.repositories())
