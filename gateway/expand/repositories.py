"""Follow dependencies between whole repositories: one imports a package that the other publishes.

The package index lists the packages that repositories publish, and the reference index lists the
files that import each package, so no file is read.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from codelode import deadline, references
from codelode.counts import counted
from codelode.model import DEFAULT_REF, RefName, RepositoryName
from codelode.name_resolution import Confidence
from gateway.expand.imported import Publisher, elsewhere
from gateway.expand.links import GraphNode, Link
from gateway.state import Backends

_RELATION = "cross_repository"

#: Maximum number of lookups, each of one package in one repository, at one distance. Twice as many
#: took 20 s on a busy machine.
MAX_LOOKUPS = 5_000_000


@dataclass(frozen=True, slots=True)
class RepositoryQuery:
    """A repository, and how far to follow its dependencies, or its users if `reverse` is set."""

    repository: RepositoryName
    ref: RefName  # of the repository; others are read at their default refs
    visible: Sequence[RepositoryName]  # where links may lead
    depth: int
    reverse: bool
    limit: int


async def around(query: RepositoryQuery, backends: Backends) -> tuple[list[Link], Sequence[str]]:
    """Return links between repositories, nearest first and then by number of files, and notices."""
    return await asyncio.to_thread(_around, query, backends)


def _around(query: RepositoryQuery, backends: Backends) -> tuple[list[Link], Sequence[str]]:
    if backends.references is None or backends.packages is None:
        return [], ()
    published = _published(query, backends)
    find = _users if query.reverse else _providers
    links: list[Link] = []
    notices: list[str] = []
    seen, level = {query.repository}, [query.repository]
    for depth in range(1, query.depth + 1):
        followed = _followed(level, query, published)
        if len(followed) < len(level):
            notices.append(
                f"only {len(followed):,} of {counted(len(level), 'repository')} at distance "
                f"{depth - 1} were followed, because more would take too long"
            )
        keys = _keys(followed, query, published)
        most = max(1, MAX_LOOKUPS // max(1, len(query.visible if query.reverse else followed)))
        if len(keys) > most:
            notices.append(
                f"only {most:,} of {counted(len(keys), 'package')} were looked up at distance "
                f"{depth - 1}, because more would take too long"
            )
        found = find(followed, keys[:most], query, published, backends, depth=depth)
        found = sorted(found, key=lambda link: -link.files)
        links += found
        ends = (link.source if query.reverse else link.target for link in found)
        level = [one for one in dict.fromkeys(end.repository for end in ends) if one not in seen]
        seen.update(level)
        if not level or len(links) >= query.limit:
            break
    return links[: query.limit], notices


def _followed(
    level: Sequence[RepositoryName], query: RepositoryQuery, published: _Published
) -> Sequence[RepositoryName]:
    """Return as many of the first repositories of a level as MAX_LOOKUPS allows, at least one.

    If the first one alone exceeds the bound, only some of its packages are looked up.
    """
    if query.reverse:
        keys = Counter(one for some in published.values() for one, _ in some)
        lookups = accumulate(keys[one] * len(query.visible) for one in level)
    else:
        lookups = accumulate(len(published) for _ in level)
    return level[: max(1, sum(so_far <= MAX_LOOKUPS for so_far in lookups))]


def _keys(
    level: Sequence[RepositoryName], query: RepositoryQuery, published: _Published
) -> Sequence[str]:
    """Return the packages to look up: those of the level for `reverse`, else all published ones."""
    if not query.reverse:
        return list(published)
    wanted = set(level)
    return [key for key, some in published.items() if any(one in wanted for one, _ in some)]


#: The visible publishers of each package.
_Published = Mapping[str, Sequence[Publisher]]


def _published(query: RepositoryQuery, backends: Backends) -> _Published:
    assert backends.packages is not None
    own = backends.packages.published_by(query.repository, query.ref)
    others = [one for one in query.visible if one != query.repository]
    said = {**backends.packages.published_by_all(others), query.repository: own}
    found: defaultdict[str, list[Publisher]] = defaultdict(list)
    for one in dict.fromkeys((*query.visible, query.repository)):
        for key, folder in said[one].keys.items() if one in said else ():
            found[key].append((one, folder))
    return found


def _providers(
    level: Sequence[RepositoryName],
    keys: Sequence[str],
    query: RepositoryQuery,
    published: _Published,
    backends: Backends,
    *,
    depth: int,
) -> list[Link]:
    """Return links to the repositories that publish what the repositories of the level import."""
    imported = _importing(level, keys, query, backends)
    links: list[Link] = []
    for repository in level:
        paths: defaultdict[RepositoryName, set[str]] = defaultdict(set)
        sure: set[RepositoryName] = set()
        for key, some in imported.get(repository, {}).items():
            publishers = {one for one, _ in elsewhere(key, published[key], repository)}
            sure |= publishers if len(publishers) == 1 else set()
            for one in publishers:
                paths[one].update(some)
        links += [
            _link(repository, one, depth=depth, files=len(some), is_sure=one in sure)
            for one, some in sorted(paths.items())
        ]
    return links


def _users(
    level: Sequence[RepositoryName],
    keys: Sequence[str],
    query: RepositoryQuery,
    published: _Published,
    backends: Backends,
    *,
    depth: int,
) -> list[Link]:
    """Return links from the repositories that import what the repositories of the level publish."""
    wanted = set(level)
    paths: defaultdict[tuple[RepositoryName, RepositoryName], set[str]] = defaultdict(set)
    sure: set[tuple[RepositoryName, RepositoryName]] = set()
    for user, imported in _importing(query.visible, keys, query, backends).items():
        for key, some in imported.items():
            publishers = {one for one, _ in elsewhere(key, published[key], user)}
            for one in publishers & wanted:
                paths[one, user].update(some)
                if len(publishers) == 1:
                    sure.add((one, user))
    order = {one: number for number, one in enumerate(level)}
    return [
        _link(user, one, depth=depth, files=len(paths[one, user]), is_sure=(one, user) in sure)
        for one, user in sorted(paths, key=lambda pair: order[pair[0]])
    ]


def _importing(
    repositories: Sequence[RepositoryName],
    keys: Iterable[str],
    query: RepositoryQuery,
    backends: Backends,
) -> Mapping[RepositoryName, Mapping[str, Sequence[str]]]:
    """Return the files that import each package, by repository, for repositories that have any.

    Most repositories import none, so files are looked up only for those that do.
    """
    assert backends.references is not None
    names = {references.of_package(key): key for key in keys}
    if not names:
        return {}
    found: dict[RepositoryName, Mapping[str, Sequence[str]]] = {}
    by_ref: defaultdict[RefName, list[RepositoryName]] = defaultdict(list)
    for one in repositories:
        by_ref[_ref(one, query)].append(one)
    for ref, some in by_ref.items():
        for one, held in backends.references.holding(some, ref, list(names)).items():
            deadline.check()
            files = backends.references.files(one, ref, held)
            found[one] = {names[name]: paths for name, paths in files.items() if paths}
    return found


def _ref(repository: RepositoryName, query: RepositoryQuery) -> RefName:
    return query.ref if repository == query.repository else DEFAULT_REF


def _link(
    user: RepositoryName, provider: RepositoryName, *, depth: int, files: int, is_sure: bool
) -> Link:
    """Return the link; its confidence is NAME if several repositories publish each package."""
    confidence = Confidence.IMPORTED if is_sure else Confidence.NAME
    return Link(_RELATION, GraphNode(user), GraphNode(provider), depth, confidence, files)
