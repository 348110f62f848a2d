"""Follow dependencies between whole repositories: which publish what another one imports.

The packages that repositories publish are known, so which files of another one import them is
looked up by the name of the package. No file is read.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from codelode import deadline, references
from codelode.model import DEFAULT_REF, RefName, RepositoryName
from codelode.name_resolution import Confidence
from gateway.expand.imported import Publisher, elsewhere
from gateway.expand.links import GraphNode, Link
from gateway.state import Backends

_RELATION = "cross_repository"


@dataclass(frozen=True, slots=True)
class RepositoryQuery:
    """A repository, and how far to follow its dependencies, or for `reverse` its users."""

    repository: RepositoryName
    ref: RefName  # of the repository; others are read at their default refs
    visible: Sequence[RepositoryName]  # where links may lead
    depth: int
    reverse: bool
    limit: int


async def around(query: RepositoryQuery, backends: Backends) -> list[Link]:
    """Return links between repositories, nearest first and then by number of files."""
    return await asyncio.to_thread(_around, query, backends)


def _around(query: RepositoryQuery, backends: Backends) -> list[Link]:
    if backends.references is None or backends.packages is None:
        return []
    published = _published(query, backends)
    find = _users if query.reverse else _providers
    links: list[Link] = []
    seen, level = {query.repository}, [query.repository]
    for depth in range(1, query.depth + 1):
        found = [
            link for one in level for link in find(one, query, published, backends, depth=depth)
        ]
        links += sorted(found, key=lambda link: -link.files)
        ends = (link.source if query.reverse else link.target for link in found)
        level = [one for one in dict.fromkeys(end.repository for end in ends) if one not in seen]
        seen.update(level)
        if not level or len(links) >= query.limit:
            break
    return links[: query.limit]


#: The visible publishers of each package.
_Published = Mapping[str, Sequence[Publisher]]


def _published(query: RepositoryQuery, backends: Backends) -> _Published:
    assert backends.packages is not None
    found: defaultdict[str, list[Publisher]] = defaultdict(list)
    for one in dict.fromkeys((*query.visible, query.repository)):
        deadline.check()
        for key, folder in backends.packages.published_by(one, _ref(one, query)).keys.items():
            found[key].append((one, folder))
    return found


def _providers(
    repository: RepositoryName,
    query: RepositoryQuery,
    published: _Published,
    backends: Backends,
    *,
    depth: int,
) -> list[Link]:
    """Return links to the repositories that publish what the repository imports."""
    paths: defaultdict[RepositoryName, set[str]] = defaultdict(set)
    sure: set[RepositoryName] = set()
    for key, some in _importing(repository, published, query, backends).items():
        publishers = {one for one, _ in elsewhere(key, published[key], repository)}
        sure |= publishers if len(publishers) == 1 else set()
        for one in publishers:
            paths[one].update(some)
    return [
        _link(repository, one, depth=depth, files=len(some), is_sure=one in sure)
        for one, some in sorted(paths.items())
    ]


def _users(
    repository: RepositoryName,
    query: RepositoryQuery,
    published: _Published,
    backends: Backends,
    *,
    depth: int,
) -> list[Link]:
    """Return links from the repositories that import what the repository publishes."""
    own = [key for key, some in published.items() if any(one == repository for one, _ in some)]
    links = []
    for user in query.visible if own else ():
        deadline.check()
        meaning = {key: [one for one, _ in elsewhere(key, published[key], user)] for key in own}
        meant = [key for key, some in meaning.items() if repository in some]
        if user == repository or not meant:
            continue
        found = _importing(user, meant, query, backends)
        paths = {path for some in found.values() for path in some}
        is_sure = any(len(set(meaning[key])) == 1 for key in found)
        if paths:
            links.append(_link(user, repository, depth=depth, files=len(paths), is_sure=is_sure))
    return links


def _importing(
    repository: RepositoryName, keys: Iterable[str], query: RepositoryQuery, backends: Backends
) -> Mapping[str, Sequence[str]]:
    """Return the files of the repository that import each of the packages, without the others."""
    assert backends.references is not None
    names = {references.of_package(key): key for key in keys}
    deadline.check()
    found = backends.references.files(repository, _ref(repository, query), list(names))
    return {names[name]: paths for name, paths in found.items() if paths}


def _ref(repository: RepositoryName, query: RepositoryQuery) -> RefName:
    return query.ref if repository == query.repository else DEFAULT_REF


def _link(
    user: RepositoryName, provider: RepositoryName, *, depth: int, files: int, is_sure: bool
) -> Link:
    """Return the link; it is by name alone if several repositories publish what is imported."""
    confidence = Confidence.IMPORTED if is_sure else Confidence.NAME
    return Link(_RELATION, GraphNode(user), GraphNode(provider), depth, confidence, files)
