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
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from codelode.model import RepositoryName

#: Maximum number of prefixes of a name, which bounds the size of a chunk.
MAX_PREFIXES = 8

#: A cover is used only if it has at most this fraction of the terms of a plain list of names. With
#: 4,637 terms instead of 5,000 names, a search in Weaviate was no faster.
WORTH_SHARE = 0.5

#: With more terms than this, a filter may make searches in Weaviate slower than those of a caller
#: who sees everything.
MANY_TERMS = 1_000

#: Maximum number of covers that a `Known` caches, up to 2 MB each: one per cached visibility.
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
    #: Called with each set of names whose filter has more than MANY_TERMS terms, once each.
    report_long: Callable[[frozenset[RepositoryName]], None] = field(
        default=lambda _: None, repr=False
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "cover", lru_cache(maxsize=MAX_COVERS)(self._cover))

    def _cover(self, names: frozenset[RepositoryName]) -> Cover | None:
        made = cover(names, self)
        if _is_long(names, made):
            self.report_long(names)
        return made


class Cover(NamedTuple):
    """A filter that admits `names`, and names that have one of `tokens` and are not in `but`."""

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

    None if it would have too many terms. Takes 4 to 10 ms for 10,000 names, and 30 to 170 ms when
    names or groups have changed.
    """
    found = _numbered(known)
    seen = bitmap((found.numbers[name] for name in names & known.names), len(found.ordered))
    tokens, left, but = described(seen, found.tokens)
    others = names - known.names
    made = Cover(
        tuple(sorted(tokens)), tuple(sorted((*found.names(left), *others))), (*found.names(but),)
    )
    return made if sum(map(len, made)) <= WORTH_SHARE * len(names) else None


def is_long(names: frozenset[RepositoryName], known: Known) -> bool:
    """Return whether a filter that admits these of the known names has more than MANY_TERMS."""
    return _is_long(names, cover(names, known))


def _is_long(names: frozenset[RepositoryName], made: Cover | None) -> bool:
    return (sum(map(len, made)) if made else len(names)) > MANY_TERMS


class Token(NamedTuple):
    """Bitmaps of the repositories whose chunks all have a token, and of those whose chunks may.

    Bit n stands for the n-th repository.
    """

    certain: int
    possible: int


def described(seen: int, tokens: Mapping[str, Token]) -> tuple[list[str], int, int]:
    """Return tokens that stand for most of a set of repositories, the rest, and the exceptions.

    Greedy weighted set cover (Chvátal 1979): a token costs one term and one for each exception.
    Tokens are tried by ascending cost per repository, and taken if they cost less than the
    repositories that they add. Sets are bitmaps, as in `Token`.
    """
    rated = []
    for token, (certain, possible) in tokens.items():
        inside = (certain & seen).bit_count()
        terms = 1 + (possible & ~seen).bit_count()
        if terms < inside:
            rated.append((terms / inside, token, terms))
    taken, left, admitted = list[str](), seen, 0
    for _, token, terms in sorted(rated):
        certain, possible = tokens[token]
        if terms < (certain & left).bit_count():
            taken.append(token)
            left &= ~certain
            admitted |= possible
    return taken, left, admitted & ~seen


def bitmap(numbers: Iterable[int], size: int) -> int:
    """Return the bitmap of numbers below the size."""
    raw = bytearray((size + 7) // 8)
    for number in numbers:
        raw[number // 8] |= 1 << number % 8
    return int.from_bytes(raw, "little")


class _Numbered(NamedTuple):
    """The known names in order, their positions, and the tokens that several of them have."""

    ordered: tuple[RepositoryName, ...]
    numbers: Mapping[RepositoryName, int]
    tokens: Mapping[str, Token]

    def names(self, bits: int) -> Iterator[RepositoryName]:
        """Yield the names in a bitmap, in order."""
        return (self.ordered[found.start()] for found in re.finditer("1", f"{bits:b}"[::-1]))


@lru_cache(maxsize=2)
def _numbered(known: Known) -> _Numbered:
    ordered = tuple(sorted(known.names))
    certain: defaultdict[str, list[int]] = defaultdict(list)
    more: defaultdict[str, list[int]] = defaultdict(list)
    for number, name in enumerate(ordered):
        grouped = known.groups.get(name, UNGROUPED)
        for token in (*prefixes(name), *grouped.certain):
            certain[token].append(number)
        for token in grouped.possible if grouped.is_suspended else ():
            more[token].append(number)
    tokens = {}
    for token, some in certain.items():
        if len(some) > 1:
            bits = bitmap(some, len(ordered))
            tokens[token] = Token(bits, bits | bitmap(more.get(token, ()), len(ordered)))
    return _Numbered(ordered, {name: number for number, name in enumerate(ordered)}, tokens)
