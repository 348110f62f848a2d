"""Describe a set of repositories by prefixes of their names, and by groups.

Rights usually follow names: a team sees `payments/*`, or everything below a group of the code host.
A few dozen prefixes and some exceptions then describe half of 10,000 repositories. Labels, and
rights that a code host gives to teams, may not follow names. Repositories that had the same label
and the same readers at the host when they were first indexed therefore form a group. A store that
keeps the prefixes and the group of each chunk's repository filters by these instead of by thousands
of names.

A group never decides what is visible. If the rights of its members have diverged since, the cover
only has more terms.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from hashlib import blake2b
from itertools import permutations
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

#: The tokens of one kind that each known name shares with others, least specific first.
_Shared: TypeAlias = "Mapping[RepositoryName, tuple[str, ...]]"


@dataclass(frozen=True, eq=False, slots=True)
class Known:
    """The repositories that were registered at one moment, and the groups of those that have one.

    Instances are compared by identity: comparing 10,000 names takes longer than the cache saves.
    """

    names: frozenset[RepositoryName] = frozenset()
    groups: Mapping[RepositoryName, str] = field(default_factory=dict)
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
    """Return the group of repositories with exactly these readers and label.

    No prefix of a name equals it, because a prefix ends with a separator.
    """
    listed = "\0".join(sorted(facts)).encode("utf-8", "surrogatepass")
    return f"={blake2b(listed, digest_size=6).hexdigest()}"


def cover(names: frozenset[RepositoryName], known: Known) -> Cover | None:
    """Return a cover that admits, of the known names, exactly the given ones.

    None if it would have too many terms. Takes 20 to 40 ms for 10,000 names on a busy machine, or
    45 to 100 ms with groups.
    """
    hidden = known.names - names
    useful = [shared for shared in _shared(known) if _cheapest(shared, names, hidden)]
    found = [_cover(names, hidden, kinds) for kinds in permutations(useful)]
    best = min(found, key=_terms)
    return best if _terms(best) <= WORTH_SHARE * len(names) else None


def _terms(cover: Cover) -> int:
    return sum(map(len, cover))


def _cover(
    names: Collection[RepositoryName], hidden: Collection[RepositoryName], kinds: Sequence[_Shared]
) -> Cover:
    """Cover as many names as possible by tokens of the first kind, the rest by the next kind."""
    whole = set[str]()
    for shared in kinds:
        chosen = _cheapest(shared, names, hidden)
        left: list[RepositoryName] = []
        for name in names:
            if token := _first(shared.get(name, ()), chosen):
                whole.add(token)
            else:
                left.append(name)
        names = left
    but = [name for name in hidden if any(_first(shared[name], whole) for shared in kinds)]
    return Cover(tuple(sorted(whole)), tuple(sorted(names)), tuple(sorted(but)))


def _first(some: Iterable[str], chosen: Collection[str]) -> str | None:
    return next((token for token in some if token in chosen), None)


def _cheapest(
    shared: _Shared, names: Iterable[RepositoryName], hidden: Iterable[RepositoryName]
) -> set[str]:
    """Return the tokens that, with their exceptions, take fewer terms than what they cover."""
    excepted = Counter[str](token for name in hidden for token in shared[name])
    inside = Counter[str]()  # terms for the names of each token, without the token
    parents = dict[str, str]()
    for chain in (shared.get(name, ()) for name in names):
        parents.update(zip(chain[1:], chain, strict=False))
        inside.update(chain[-1:])
    chosen = set[str]()
    for token in sorted({*parents, *parents.values(), *inside}, key=len, reverse=True):
        if 1 + excepted[token] < inside[token]:
            chosen.add(token)
        if parent := parents.get(token):
            inside[parent] += min(1 + excepted[token], inside[token])
    return chosen


@lru_cache(maxsize=2)
def _shared(known: Known) -> tuple[_Shared, ...]:
    """Return the shared tokens of each kind: prefixes, and groups if there are any."""
    by_prefix = {name: tuple(prefixes(name)) for name in known.names}
    by_group = {name: tuple(filter(None, [known.groups.get(name)])) for name in known.names}
    return tuple(map(_by_several, (by_prefix, by_group) if known.groups else (by_prefix,)))


def _by_several(chains: _Shared) -> _Shared:
    members = Counter(token for chain in chains.values() for token in chain)
    return {
        name: tuple(token for token in chain if members[token] > 1)
        for name, chain in chains.items()
    }
