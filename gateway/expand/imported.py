"""Find what a file imports from other repositories: files and symbols, or else packages.

A file's entries in the reference index say which modules of packages it imports, and the package
index says which repository publishes a package. There, a module is found by its place
(`codelode.modules`), and a name in it by the symbol table. A module may also export names that
other files define, so a name that it does not define itself is looked up in the files below it. If
several of them define the name, the one that the module reaches by its imports is taken. An import
that cannot be resolved becomes a link to the package, with the lowest confidence.

Other repositories are read at their default refs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from codelode import references
from codelode.graph import levels
from codelode.model import DEFAULT_REF, LocatedSymbol, ReferenceKind, RepositoryName
from codelode.modules import Module, is_below, place
from codelode.name_resolution import Confidence, scope, separate_category
from gateway.expand.links import GraphNode, node_of
from gateway.expand.subject import SubjectQuery
from gateway.state import Backends

#: Maximum number of modules that are resolved for one answer. Chosen by hand, as the next two.
MAX_MODULES = 2_000
#: Maximum number of members used in a file that are looked up in the Go packages that it imports.
MAX_MEMBERS = 100
#: Maximum number of imports between a module and the file that defines a name that it exports.
MAX_STEPS = 3

#: Ecosystems in which a module may be defined inside the file of another module.
_INLINE = ("crate", "jvm")


@dataclass(frozen=True, slots=True)
class Meaning:
    """A node of another repository that an import means, and the files of the imported module."""

    node: GraphNode
    confidence: Confidence
    modules: tuple[str, ...] = ()
    is_package: bool = False


@dataclass(frozen=True, slots=True)
class _Asked:
    """A module to be found in a repository that publishes its package."""

    module: Module
    folder: str
    key: str
    inside: tuple[str, ...]  # parts of the module below the folder

    def places(self) -> list[str]:
        """Return the places of the module and of those that contain it, longest first."""
        counts = range(len(self.inside), -1, -1)
        return [place(self.folder, *self.inside[:count]) for count in counts]


Publisher = tuple[RepositoryName, str]  # with the folder of the package
Meanings = Mapping[Module, Sequence[Meaning]]
Imports = Mapping[str, Sequence[Module]]  # by the path of the importing file


def imports_of(query: SubjectQuery, paths: Sequence[str], backends: Backends) -> Imports:
    """Return the modules of packages that each file imports."""
    assert backends.references is not None
    held = backends.references.names(query.repository, query.ref, paths)
    return {path: _with_members(names) for path, names in held.items()}


def _with_members(names: Sequence[str]) -> list[Module]:
    """Return the imported modules; for Go, whose imports name no members, also each used member."""
    found = list(references.modules(names))
    if not any(one.ecosystem == "go" for one in found):
        return found
    uses = references.uses(names)
    members = [
        use.name for use in uses if use.kind is ReferenceKind.MEMBER and use.name[0].isupper()
    ]
    return found + [
        one._replace(parts=(*one.parts, name))
        for one in found
        if one.ecosystem == "go"
        for name in sorted(set(members))[:MAX_MEMBERS]
    ]


def resolved(
    imports: Imports,
    query: SubjectQuery,
    among: Sequence[RepositoryName],
    backends: Backends,
) -> Meanings:
    """Return what each module means in the repositories `among` that publish its package.

    Publishers that are invisible to the caller are ignored.
    """
    assert backends.packages is not None
    modules = list(dict.fromkeys(one for some in imports.values() for one in some))
    known, seen = set(modules[:MAX_MODULES]), {*query.visible, *among}
    keys = sorted({key for one in known for key, _ in one.packages()})
    published = backends.packages.publishers(keys)
    asked: dict[RepositoryName, list[_Asked]] = {}
    for one in known:
        for key, inside in one.packages():
            publishers = [at for at in published.get(key, ()) if at[0] in seen]
            for repository, folder in elsewhere(key, publishers, query.repository):
                if repository in among:
                    asked.setdefault(repository, []).append(_Asked(one, folder, key, inside))
            if publishers:
                break
    found: dict[Module, list[Meaning]] = {one: [] for one in modules}
    for repository, some in asked.items():
        for at, meanings in _found(repository, some, backends):
            found[at.module] += meanings
    return found


def elsewhere(
    key: str, publishers: Sequence[Publisher], repository: RepositoryName
) -> list[Publisher]:
    """Return the other publishers of a package whose files the repository may import.

    A repository that publishes the package itself imports its own files, except on the JVM, where
    several repositories may share a package.
    """
    others = [at for at in publishers if at[0] != repository]
    is_own = len(others) < len(publishers)
    return [] if is_own and not key.startswith("jvm:") else others


def _found(
    repository: RepositoryName, asked: Sequence[_Asked], backends: Backends
) -> list[tuple[_Asked, Sequence[Meaning]]]:
    """Find all modules of one repository together, in a few round trips."""
    assert backends.references is not None
    marks = sorted({references.of_place(at) for one in asked for at in one.places()})
    files = backends.references.files(repository, DEFAULT_REF, marks)
    names = sorted({name for one in asked for name in one.inside})
    defined: Mapping[str, tuple[LocatedSymbol, ...]] = {}
    if backends.symbols is not None:
        defined = backends.symbols.lookup_all(names, repository=repository, ref=DEFAULT_REF)
    return [(one, _meanings(repository, one, files, defined, backends)) for one in asked]


def _meanings(
    repository: RepositoryName,
    asked: _Asked,
    files: Mapping[str, Sequence[str]],
    defined: Mapping[str, tuple[LocatedSymbol, ...]],
    backends: Backends,
) -> Sequence[Meaning]:
    package = Meaning(
        GraphNode(repository, asked.folder, asked.key), Confidence.NAME, is_package=True
    )
    for rest, at in enumerate(asked.places()):
        modules = tuple(
            path for path in files[references.of_place(at)] if not separate_category(path)
        )
        if not modules:
            continue
        if rest > 1 and asked.module.ecosystem not in _INLINE:
            return (package,)
        name = asked.inside[len(asked.inside) - rest] if rest else ""
        found = _definitions(name, at, modules, defined, backends) if name else []
        if found:
            is_own = found[0].path in modules
            sure = Confidence.EXACT if is_own else Confidence.IMPORTED
            return [Meaning(node_of(one), sure, modules) for one in found]
        return _of_module(repository, asked, modules, is_whole=not name)
    return (package,)


def _of_module(
    repository: RepositoryName, asked: _Asked, modules: tuple[str, ...], *, is_whole: bool
) -> Sequence[Meaning]:
    """Return the file of a module; for Go, where a module is a folder, the folder."""
    sure = Confidence.EXACT if is_whole else Confidence.IMPORTED
    if asked.module.ecosystem == "go":
        folder = modules[0].rpartition("/")[0]
        node = GraphNode(repository, folder, asked.key)
        return (Meaning(node, sure, modules),) if is_whole else ()
    return (Meaning(GraphNode(repository, modules[0]), sure, modules),)


def _definitions(
    name: str,
    at: str,
    modules: Collection[str],
    defined: Mapping[str, tuple[LocatedSymbol, ...]],
    backends: Backends,
) -> list[LocatedSymbol]:
    """Return the definitions of a name that a module defines or exports."""
    named = [one for one in defined.get(name, ()) if not separate_category(one.path)]
    own = [one for one in named if one.path in modules]
    if own:
        return _outermost(own)
    if scope(next(iter(modules))).is_folder:
        return []  # a folder exports nothing from other folders
    below = _outermost([one for one in named if is_below(one.path, at)])
    if len({one.path for one in below}) < 2:
        return below
    reached = _exported_from(below[0].repository, modules, backends)
    near = [one for one in below if one.path in reached]
    return near if len({one.path for one in near}) == 1 else []


def _outermost(found: Sequence[LocatedSymbol]) -> list[LocatedSymbol]:
    """Return the definitions that are not inside others, or all if every one is."""
    outer = [one for one in found if one.symbol.qualified_name == one.symbol.name]
    return outer or list(found)


def _exported_from(
    repository: RepositoryName, modules: Collection[str], backends: Backends
) -> set[str]:
    """Return the files that the modules import, in up to MAX_STEPS steps."""
    if backends.graph is None:
        return set()
    reached: set[str] = set()
    for level in levels(modules, depth=MAX_STEPS):
        for edges in backends.graph.outgoing(repository, DEFAULT_REF, level.nodes).values():
            level.reach(edge.target for edge in edges if not edge.is_external)
        reached |= level.reached.keys()
    return reached
