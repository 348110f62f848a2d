"""The principal of a call, and the repositories that it may see.

Every read carries a `Principal`. Its `Visibility` is the outer bound of what comes back: the stores
filter by it before they rank, and a repository outside of it is reported exactly as one that does
not exist. Neither type has defaults, so no code path can forget to say on whose behalf it reads.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from codelode.covers import Cover, Known

if TYPE_CHECKING:
    from codelode.model import RepositoryName

#: Longest time for which a gateway reuses rights that it has read, seconds. A change of rights thus
#: takes effect on every gateway within this time.
FRESH_S = 0.5

#: Lists of globs over repository names; a name is within bounds if it matches a glob of each list.
Bounds = tuple[tuple[str, ...], ...]

#: No known repositories, so that `Visibility.cover` returns None.
UNKNOWN = Known()


class Role(StrEnum):
    """The rights of a principal; each role includes the ones before it."""

    READER = "reader"  # search, and read status and coverage
    INDEXER = "indexer"  # start and cancel runs, and choose patterns and default refs
    ADMIN = "admin"  # register and remove repositories, and manage access

    @property
    def rank(self) -> int:
        """Return a number that is higher for a role with more rights."""
        return tuple(Role).index(self)

    def includes(self, other: Role) -> bool:
        """Return whether this role has all rights of the other one."""
        return self.rank >= other.rank


class Label(StrEnum):
    """The callers who see a repository, besides admins. Without a label, only admins see it."""

    PUBLIC = "public"  # every caller of the organisation
    INTERNAL = "internal"  # callers with a glob that matches its name
    PRIVATE = "private"  # callers with a glob that is its name

    def admits(self, *, is_matched: bool, is_named: bool) -> bool:
        """Return whether a caller may see the repository, given how its globs match the name."""
        return {Label.PUBLIC: True, Label.INTERNAL: is_matched, Label.PRIVATE: is_named}[self]


@dataclass(frozen=True, slots=True)
class Visibility:
    """The repositories that may be read: exactly the named ones, or all if `names` is None.

    An empty set means that nothing is visible. Construct one with `of`, or use `EVERYTHING`.
    `known` are the repositories that were registered when the names were collected.
    """

    names: frozenset[RepositoryName] | None
    known: Known = field(default=UNKNOWN, compare=False, repr=False)
    ordered: tuple[RepositoryName, ...] = field(init=False, compare=False, repr=False)
    digest: str = field(init=False, compare=False, repr=False)  # equal for equal visibilities

    def __post_init__(self) -> None:
        ordered = tuple(sorted(self.names or ()))
        listed = "*" if self.names is None else "\0".join(("", *ordered))
        digest = hashlib.sha256(listed.encode("utf-8", "surrogatepass")).hexdigest()
        object.__setattr__(self, "ordered", ordered)
        object.__setattr__(self, "digest", digest)

    @classmethod
    def of(
        cls,
        names: Iterable[RepositoryName],
        *,
        known: Known = UNKNOWN,
    ) -> Visibility:
        """Return the visibility of exactly these repositories."""
        return cls(frozenset(names), known)

    @property
    def is_everything(self) -> bool:
        return self.names is None

    def __contains__(self, name: object) -> bool:
        return self.names is None or name in self.names

    def includes(self, other: Visibility) -> bool:
        """Return whether everything that is visible in the other one is visible in this one."""
        if self.names is None or other.names is None:
            return self.names is None
        return other.names <= self.names

    def only(self, names: Iterable[RepositoryName]) -> Visibility:
        """Return the visibility of these repositories as far as they are visible in this one."""
        return Visibility.of((name for name in names if name in self), known=self.known)

    def among(self, named: Sequence[RepositoryName]) -> tuple[RepositoryName, ...] | None:
        """Return the named repositories that are visible; without names, all visible ones.

        None means that nothing limits the read: no names, and everything is visible.
        """
        if self.names is None:
            return tuple(named) or None
        return tuple(name for name in named if name in self.names) if named else self.ordered

    def cover(self) -> Cover | None:
        """Return a shorter description of the names, if there is one; it is computed once.

        It is exact among the known repositories. It may admit repositories that were registered
        later, so results must be checked against this visibility.
        """
        if self.names is None or not self.known.names:
            return None
        return self.known.cover(self.names)


#: The visibility of a principal that may see every repository, also those registered later.
EVERYTHING = Visibility(None)


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller on whose behalf something is read or done.

    `bounds` and `expires_at` limit the credentials that the caller may create; what the caller may
    see is in `visible` alone.
    """

    name: str
    role: Role
    visible: Visibility
    bounds: Bounds = ()
    expires_at: float = math.inf  # seconds since the epoch

    def includes(self, other: Principal) -> bool:
        """Return whether this principal has all rights of the other one."""
        return self.role.includes(other.role) and self.visible.includes(other.visible)
