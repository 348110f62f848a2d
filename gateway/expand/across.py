"""Follow imports from one repository into another, and back to the files that import.

`imported` resolves the imports. Repositories that are not visible are treated as not indexed.
"""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from codelode import deadline, languages, references
from codelode.model import DEFAULT_REF, Category, RepositoryName
from codelode.modules import Module, module
from codelode.name_resolution import Confidence
from gateway.expand.imported import Imports, Meaning, Meanings, elsewhere, imports_of, resolved
from gateway.expand.links import GraphNode, Link
from gateway.expand.subject import SubjectQuery
from gateway.state import Backends

#: Maximum number of files per repository whose imports of a package are read, and maximum number of
#: packages that are followed from a file. Chosen by hand.
MAX_CONSUMERS = 1_000
MAX_PACKAGES = 500

_RELATION = "cross_repository"


async def across(query: SubjectQuery, backends: Backends) -> list[Link]:
    """Return the links to other repositories, or from them if `reverse` is set."""
    if backends.references is None or backends.packages is None:
        return []
    find = _consumers if query.reverse else _providers
    return await asyncio.to_thread(find, query, backends)


async def indexed_elsewhere(
    links: Sequence[Link], query: SubjectQuery, backends: Backends
) -> list[Link]:
    """Replace links to external names by links to the visible files that these names mean."""
    paths = {link.source.path for link in links if not link.target.repository}
    if not paths or backends.references is None or backends.packages is None:
        return list(links)
    imports = await asyncio.to_thread(imports_of, query, sorted(paths), backends)
    meanings = await asyncio.to_thread(resolved, imports, query, query.visible, backends)
    return list(dict.fromkeys(new for link in links for new in _replaced(link, imports, meanings)))


def _replaced(link: Link, imports: Imports, meanings: Meanings) -> Iterable[Link]:
    if link.target.repository:
        return (link,)
    found = {
        one.node: replace(link, target=one.node, confidence=one.confidence)
        for imported in imports.get(link.source.path, ())
        if _is_written(imported, link.target.symbol)
        for one in meanings[imported]
        if not one.is_package
    }
    return found.values() or (link,)


def _is_written(imported: Module, written: str) -> bool:
    """Return whether the written import names the module, or a module that contains it."""
    parts = module(imported.ecosystem, written).parts
    return imported.parts[: len(parts)] == parts


def _providers(query: SubjectQuery, backends: Backends) -> list[Link]:
    """Return what the subject's files import from other repositories."""
    imports = imports_of(query, query.paths, backends)
    meanings = resolved(imports, query, query.visible, backends)
    links = {
        (path, one.node): Link(
            _RELATION, GraphNode(query.repository, path), one.node, 1, one.confidence
        )
        for path, imported in imports.items()
        for each in imported
        for one in meanings[each]
    }
    return [*links.values(), *_other_packages(query, links.values(), backends)][: query.limit]


def _other_packages(query: SubjectQuery, links: Iterable[Link], backends: Backends) -> list[Link]:
    """Return links to packages without known modules: images, charts, dependencies."""
    assert backends.references is not None
    assert backends.packages is not None
    known = {(link.source.path, link.target.repository) for link in links}
    held = backends.references.names(query.repository, query.ref, query.paths)
    used = {path: references.packages(names)[:MAX_PACKAGES] for path, names in held.items()}
    published = backends.packages.publishers(
        sorted({key for some in used.values() for key in some})
    )
    return [
        Link(
            _RELATION,
            GraphNode(query.repository, path),
            GraphNode(repository, folder, key),
            1,
            _of_package(path),
        )
        for path, keys in used.items()
        for key in keys
        for repository, folder in elsewhere(key, published.get(key, ()), query.repository)
        if repository in query.visible and (path, repository) not in known
    ]


def _of_package(path: str) -> Confidence:
    """Return the confidence of a link to a package; a manifest refers to the whole package."""
    return Confidence.IMPORTED if _is_manifest(path) else Confidence.NAME


def _is_manifest(path: str) -> bool:
    """Return whether a file may declare packages; such a file imports no definitions."""
    return languages.category(posixpath.basename(path)) is Category.CONFIGURATION


def _consumers(query: SubjectQuery, backends: Backends) -> list[Link]:
    """Return files of other repositories that import what the subject's files define or export."""
    assert backends.references is not None
    assert backends.packages is not None
    published = backends.packages.published_by(query.repository, query.ref).keys
    keys = {references.of_package(key): key for key in _keys_around(published, query.paths)}
    publishers = backends.packages.publishers(sorted(keys.values()))
    links: dict[tuple[GraphNode, GraphNode], Link] = {}
    is_code = not any(map(_is_manifest, query.paths))
    others = [one for one in query.visible if one != query.repository]
    importing = backends.references.holding(others, DEFAULT_REF, list(keys)) if keys else ()
    for repository in importing:
        deadline.check()
        if len(links) >= query.limit:
            break
        taken = [
            name
            for name, key in keys.items()
            if elsewhere(key, publishers.get(key, ()), repository)
        ]
        held = backends.references.files(repository, DEFAULT_REF, taken)
        users = {path: name for name, paths in held.items() for path in paths[:MAX_CONSUMERS]}
        there = replace(query, repository=repository, ref=DEFAULT_REF)
        imports = imports_of(there, sorted(users), backends)
        meanings = resolved(imports, there, (query.repository,), backends)
        using = _files_using(repository, query.name, backends) if query.name else ()
        for path, name in users.items():
            found = [one for each in imports[path] for one in meanings[each]]
            if not found and not (_is_manifest(path) and is_code):
                package = GraphNode(query.repository, published[keys[name]], keys[name])
                found = [Meaning(package, _of_package(path), is_package=True)]
            for one in found:
                if _is_of(one, query, is_using=not query.name or path in using):
                    ends = GraphNode(repository, path), one.node
                    links.setdefault(ends, Link(_RELATION, *ends, 1, one.confidence))
    order = list(Confidence)
    return sorted(links.values(), key=lambda link: order.index(link.confidence))[: query.limit]


def _is_of(one: Meaning, query: SubjectQuery, *, is_using: bool) -> bool:
    """Return whether the import means the subject, or may mean it."""
    if one.is_package:
        return is_using
    if one.node.path not in query.paths and (query.name or query.paths[0] not in one.modules):
        return False
    if not query.name:
        return True
    return one.node.symbol.rpartition(".")[2] == query.name if one.node.symbol else is_using


def _files_using(repository: RepositoryName, name: str, backends: Backends) -> Collection[str]:
    assert backends.references is not None
    found = backends.references.files(repository, DEFAULT_REF, references.uses_of(name))
    return {path for paths in found.values() for path in paths}


def _keys_around(folders: Mapping[str, str], paths: Sequence[str]) -> list[str]:
    """Return the keys published from the closest folder around a path, for each ecosystem.

    `folders`: the folder that each key is published from.
    """
    closest: dict[str, int] = {}
    around: dict[str, str] = {}
    for key, folder in folders.items():
        if folder and not any(path.startswith(f"{folder}/") for path in paths):
            continue
        ecosystem = key.partition(":")[0]
        around[key] = ecosystem
        closest[ecosystem] = max(closest.get(ecosystem, 0), len(folder))
    return [key for key, ecosystem in around.items() if len(folders[key]) == closest[ecosystem]]
