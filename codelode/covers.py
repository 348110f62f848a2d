"""Describe a set of repositories by prefixes of their names, and by groups.

Rights usually follow names: a team sees `payments/*`, or everything below a group of the code host.
A few dozen prefixes and some exceptions then describe half of 10,000 repositories. Labels, and
rights that a code host or an access file gives to teams, may not follow names. Repositories that
had the same readers when they were first indexed therefore form groups (see `grouping`). A store
that keeps the prefixes and the groups of each chunk's repository filters by these instead of by
thousands of names.

A group never decides what is visible. If the rights of its members have diverged since, the cover
only has more terms.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from codelode.model import RepositoryName

#: Most prefixes of a name, so that a chunk stays small whatever its repository is called.
MAX_PREFIXES = 8

#: A cover has at most this fraction of the terms of a plain list of names. With 4,637 terms instead
#: of 5,000 names, a search in Weaviate was no faster.
WORTH_SHARE = 0.5

#: Most covers that a `Known` caches, up to 2 MB each: as many as a gateway holds visibilities.
MAX_COVERS = 256

_SEPARATOR = re.compile(r"[/._-]")

#: The groups of a repository.
Groups: TypeAlias = tuple[str, ...]


class Grouped(NamedTuple):
    """The groups that the chunks of a repository are written with.

    `former`: None if every chunk has these groups. Otherwise they are suspended: a chunk may lack
    some, and may have some of the former ones.
    """

    written: Groups = ()
    former: Groups | None = None

    @property
    def is_suspended(self) -> bool:
        return self.former is not None

    @property
    def certain(self) -> Groups:
        """Return the groups that every chunk of the repository has."""
        return () if self.is_suspended else self.written

    @property
    def possible(self) -> Groups:
        """Return all groups that a chunk of the repository may have."""
        return (*self.written, *(self.former or ()))


UNGROUPED = Grouped()


@dataclass(frozen=True, eq=False, slots=True)
class Known:
    """The repositories that were registered at one moment, and the groups of those that have one.

    Instances are compared by identity: comparing 10,000 names takes longer than the cache saves.
    """

    names: frozenset[RepositoryName] = frozenset()
    groups: Mapping[RepositoryName, Grouped] = field(default_factory=dict)
    #: Returns the cover of some names, or None; each is computed once.
    cover: Callable[[frozenset[RepositoryName]], Cover | None] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        kept = lru_cache(maxsize=MAX_COVERS)(partial(cover, known=self))
        object.__setattr__(self, "cover", kept)


class Cover(NamedTuple):
    """A description that admits the `names`, and names with one of the tokens but not in `but`."""

    tokens: tuple[str, ...]
    names: tuple[RepositoryName, ...]
    but: tuple[RepositoryName, ...]


def prefixes(name: str) -> list[str]:
    """Return the parts of a name up to each separator: `a/b-c` → `a/`, `a/b-`."""
    return [name[: found.end()] for found in _SEPARATOR.finditer(name)][:MAX_PREFIXES]


def group_of(facts: Iterable[str]) -> str:
    """Return the group of repositories with exactly these facts.

    No prefix of a name equals it, because a prefix ends with a separator.
    """
    listed = "\0".join(sorted(facts)).encode("utf-8", "surrogatepass")
    return f"={blake2b(listed, digest_size=6).hexdigest()}"


def cover(names: frozenset[RepositoryName], known: Known) -> Cover | None:
    """Return a cover that admits, of the known names, exactly the given ones.

    None if it would have too many terms. Tokens are taken in the order of the terms that they need
    for each name, if they need fewer than the names that are left: the greedy method for weighted
    set cover (Chvátal 1979). Takes 20 to 75 ms for 10,000 names on a busy machine.
    """
    tokens, hidden = _tokens(known), known.names - names
    inside: defaultdict[str, set[RepositoryName]] = defaultdict(set)
    for name in names & tokens.keys():
        for token in tokens[name].certain:
            inside[token].add(name)
    excepted = Counter(token for name in hidden for token in tokens[name].possible)
    left, whole = set(names), set[str]()
    for token in sorted(inside, key=lambda one: ((1 + excepted[one]) / len(inside[one]), one)):
        if 1 + excepted[token] < len(inside[token] & left):
            whole.add(token)
            left -= inside[token]
    but = [name for name in hidden if not whole.isdisjoint(tokens[name].possible)]
    found = Cover(tuple(sorted(whole)), tuple(sorted(left)), tuple(sorted(but)))
    return found if sum(map(len, found)) <= WORTH_SHARE * len(names) else None


@lru_cache(maxsize=2)
def _tokens(known: Known) -> Mapping[RepositoryName, _Tokens]:
    """Return the tokens of each known name."""
    return {name: _Tokens.of(name, known.groups.get(name, UNGROUPED)) for name in known.names}


class _Tokens(NamedTuple):
    """The prefixes and groups that every chunk of a repository has, and that one may have."""

    certain: tuple[str, ...]
    possible: tuple[str, ...]

    @classmethod
    def of(cls, name: RepositoryName, grouped: Grouped) -> _Tokens:
        parts = prefixes(name)
        certain = (*parts, *grouped.certain)
        return cls(certain, (*parts, *grouped.possible) if grouped.is_suspended else certain)
