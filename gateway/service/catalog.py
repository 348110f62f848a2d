"""Read the ledger within a visibility, and reject names that are unknown there.

A repository that is not visible is reported exactly as one that does not exist: it is neither
found, nor listed, nor suggested.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice

from codelode import deadline
from codelode.access import Visibility
from codelode.errors import InvalidQuery, NotFound
from codelode.ledger import Ledger
from codelode.model import (
    DEFAULT_REF,
    Filters,
    RefName,
    RefStatus,
    Repository,
    RepositoryName,
    Run,
    RunId,
    RunState,
)

#: Maximum number of known names that an error lists.
MAX_LISTED = 10
#: Longest name that is compared with known names, characters. The comparison takes quadratic time.
MAX_NAME_CHARS = 200
#: Number of the first known names with which a name is compared. This takes about 0.3 s if they are
#: short, and several seconds if they have 190 characters each.
MAX_COMPARED = 10_000
#: Number of recent runs that a status shows, and among which a failed first run is found.
RECENT_RUNS = 20
#: Number of names that are compared between two checks of the call's deadline.
_AT_ONCE = 100
#: Matches a ref that is a commit; and the minimum length of its abbreviations, as in git.
COMMIT = re.compile(r"[0-9a-f]{40}")
MIN_ABBREVIATION = 4
#: Commands that list all names of a kind.
_LISTED_BY = {
    "repository": "codelode status",
    "ref": "codelode status",
    "scope": "codelode scopes",
}


@dataclass(frozen=True, slots=True)
class VisibleCatalog:
    """Repositories, refs, and runs inside a visibility. Its methods block."""

    ledger: Ledger
    visible: Visibility

    def repositories(self) -> tuple[Repository, ...]:
        """Return the visible repositories, by name."""
        found = self.ledger.repositories()
        if self.visible.is_everything:
            return found
        return tuple(one for one in found if one.name in self.visible)

    def names(self) -> list[RepositoryName]:
        """Return the names of the visible repositories, in order."""
        return [name for name in self.ledger.names() if name in self.visible]

    def refs_of(self, names: Sequence[RepositoryName]) -> tuple[tuple[RefStatus, ...], ...]:
        """Return the refs of each repository; none for a repository that is not visible."""
        if self.visible.is_everything:
            return self.ledger.refs_of(names)
        seen = [name for name in names if name in self.visible]
        refs = dict(zip(seen, self.ledger.refs_of(seen), strict=True))
        return tuple(refs.get(name, ()) for name in names)

    def recent(self, limit: int) -> tuple[Run, ...]:
        return self.ledger.recent(self.visible, limit=limit)

    def find(self, name: RepositoryName) -> Repository | None:
        return self.ledger.get(name) if name in self.visible else None

    def repository(self, name: str) -> Repository:
        """Return the repository with that name. Raises NotFound with similar names."""
        found = self.find(RepositoryName(name))
        if found is None:
            raise NotFound(self._withdrawn(name) or unknown("repository", name, self.names()))
        return found

    def _withdrawn(self, name: str) -> str:
        """Return a message for a repository that was dropped because its run failed; else empty."""
        runs = (run for run in self.recent(RECENT_RUNS) if run.repository == name)
        last = next(runs, None)
        if last is None or last.state is not RunState.FAILED:
            return ""
        return (
            f"there is no repository {name!r}: it is not kept, because its run failed: {last.error}"
        )

    def run(self, id: str, *, within: Container[RepositoryName] = ()) -> Run:
        """Return the run with that id. Raises NotFound.

        `within`: names whose runs are found even if there is no such repository any more.
        """
        run = self.ledger.run(RunId(id))
        if run is None or not (run.repository in self.visible or run.repository in within):
            raise NotFound(f"there is no run {id[:100]!r}; `status` lists the recent ones")
        return run

    def named_or_all(self, name: str) -> list[RepositoryName]:
        """Return the named repository, or for an empty name all visible ones. Raises NotFound."""
        return [self.repository(name).name] if name else self.names()

    def known(
        self, names: Iterable[str], *, field: str = "filters.repositories"
    ) -> tuple[RepositoryName, ...]:
        """Return the distinct names. Raises InvalidQuery for an unknown one, with similar names."""
        distinct = tuple(RepositoryName(name) for name in dict.fromkeys(names))
        known = self.existing(distinct)
        for name in distinct:
            if name not in known:
                raise InvalidQuery(field, unknown("repository", name, self.names()))
        return distinct

    def existing(self, names: Iterable[RepositoryName]) -> frozenset[RepositoryName]:
        """Return those of the names that are visible repositories, in at most one round trip."""
        seen = [name for name in names if name in self.visible]
        found = self.ledger.get_all(seen) if seen else ()
        return frozenset(one.name for one in found if one)

    def known_or_all(self, name: str, *, field: str = "repository") -> tuple[RepositoryName, ...]:
        """Return the named repository, or all visible ones if empty. Raises InvalidQuery."""
        return self.known([name], field=field) if name else tuple(self.names())

    def known_or_only(self, name: str, *, field: str = "repository") -> RepositoryName:
        """Return the named repository, or for an empty name the only visible one."""
        if name:
            return self.known([name], field=field)[0]
        names = self.names()
        if len(names) != 1:
            raise InvalidQuery(
                field, "is empty; give the name of a repository (`codelode repos` lists them)"
            )
        return names[0]

    def searched(self, filters: Filters, holding: Sequence[RepositoryName]) -> list[RepositoryName]:
        """Return the repositories of the filters, else `holding`, else all; without excluded ones.

        `holding`: the repositories in the answer.
        """
        named = filters.repositories or holding or self.names()
        left_out = frozenset(filters.not_repositories)
        return [name for name in named if name not in left_out]

    def ref(
        self, name: str, repositories: Sequence[RepositoryName] = (), *, field: str = "ref"
    ) -> RefName:
        """Return the ref if one of the repositories has it. Raises InvalidQuery.

        A commit may be given by the beginning of its id. Without repositories, the ref is looked up
        in all visible ones.
        """
        if name in ("", DEFAULT_REF):
            return DEFAULT_REF
        known = self.ref_names(repositories)
        if name in known:
            return RefName(name)
        commits = _commits(known, name)
        if len(commits) != 1 or len(name) < MIN_ABBREVIATION:
            raise InvalidQuery(field, unknown("ref", name, known))
        return commits[0]

    def is_unlike_refs(self, name: str, repositories: Sequence[RepositoryName] = ()) -> bool:
        """Return whether the name is neither a visible ref nor spelt like one."""
        known = sorted({*self.ref_names(repositories), DEFAULT_REF})
        return name not in known and not _commits(known, name) and not nearest(name, known)

    def ref_to_read(self, name: str, repositories: Sequence[RepositoryName]) -> RefName:
        """Return the ref; in a single repository, it may be an indexed commit. Raises InvalidQuery.

        Permalinks name commits; they work as long as a ref of the repository is at this commit.
        """
        if COMMIT.fullmatch(name) and len(repositories) == 1:
            refs = self.refs_of(repositories)[0]
            if name not in {one.ref for one in refs} and (at := _at(refs, name)):
                return at
        return self.ref(name, repositories)

    def ref_names(self, repositories: Sequence[RepositoryName]) -> list[RefName]:
        """Return the refs of the given repositories, or of all, that are visible; in order."""
        return sorted(self.ref_counts(repositories or self.ledger.names()))

    def ref_counts(self, repositories: Sequence[RepositoryName]) -> Mapping[RefName, int]:
        """Return for each ref the number of visible repositories among these that have it."""
        return self.ledger.ref_counts([one for one in repositories if one in self.visible])


def _commits(refs: Iterable[RefName], start: str) -> list[RefName]:
    """Return the refs that are commits whose ids start with `start`."""
    return [ref for ref in refs if COMMIT.fullmatch(ref) and ref.startswith(start)]


def _at(refs: Iterable[RefStatus], commit: str) -> RefName | None:
    """Return the first ref whose indexed commit is `commit`."""
    return next((one.ref for one in refs if one.indexed == commit), None)


def unknown(what: str, name: str, known: Sequence[str]) -> str:
    """Return a message such as `there is no ref 'mian'; did you mean 'main'?`."""
    close = nearest(name, known)
    text = f"there is no {what} {name[:100]!r}"
    if not known:
        return f"{text}; none is indexed yet: run `codelode index URL_OR_PATH`"
    if not close and len(known) <= MAX_LISTED:
        return f"{text}; there are: {', '.join(known)}"
    where = f" (`{_LISTED_BY[what]}` lists all)" if what in _LISTED_BY else ""
    if close:
        return f"{text}; did you mean {' or '.join(map(repr, close))}?{where}"
    return f"{text}; there are: {', '.join(known[:MAX_LISTED])}, …{where}"


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names that are most similar, at most three.

    Raises TimedOut after the call's deadline.
    """
    if len(name) > MAX_NAME_CHARS:
        return []
    lower = {candidate.lower(): candidate for candidate in islice(known, MAX_COMPARED)}
    candidates, close = list(lower), list[str]()
    for start in range(0, len(candidates), _AT_ONCE):
        deadline.check()
        some = candidates[start : start + _AT_ONCE]
        close = get_close_matches(name.lower(), [*close, *some], n=3)
    return [lower[match] for match in close]
