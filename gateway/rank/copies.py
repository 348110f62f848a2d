"""Fold copies: a chunk that several repositories have becomes one entry that lists the others.

Otherwise, forks and vendored code would fill the list with the same text. Two chunks of different
repositories are copies if their texts are equal, or if file name and symbol are equal and the texts
share most of their lines. Chunks of one repository are never folded together, so an entry counts
each repository once. Only candidates are compared, which are inside the visibility of the search.

The canonical chunk stands for the others: among those that score about as high as the best one,
that of the repository whose indexed commit is the newest. Thus an upstream stands for its
unmaintained forks, and the original repository for vendored code, which ranks lower.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

from codelode import deadline
from codelode.model import Chunk, ChunkId, RepositoryName
from gateway.state import CommitTimes, Copy, Ranked, SearchState

#: Minimum share of their lines that two copies have in common, ignoring white space. With 0.8, more
#: hits of forks stay apart (docs/ranking.md); below 0.6, little changes.
SHARED_LINES = 0.6

#: How far the score of the canonical chunk may be below that of the best one. In the linear ranker,
#: vendored code loses 1.0, and a query that names a repository adds up to 1.0. Without a margin,
#: more forks stand for their upstream; a margin of 2 gave the same as this one.
MARGIN = 0.5

#: Maximum number of groups of the same name with which a text is compared; few files have more
#: chunks without a symbol among the candidates.
MAX_COMPARED = 10

#: Maximum number of entries that are compared on the event loop, which takes 10 ms if all have the
#: same name and different texts, and usually less than 1 ms. There are at most 1,152 entries.
MAX_AT_ONCE = 100

_Name = tuple[str, str]  # the file's name without its folder, and the symbol


@dataclass(slots=True)
class _Group:
    """Entries of the ranking that are copies, best first."""

    entries: list[Ranked]
    repositories: set[RepositoryName]
    _lines: frozenset[str] | None = None  # of the best one; computed when needed

    @property
    def chunk(self) -> Chunk:
        """Return the chunk with which others are compared."""
        return self.entries[0].candidate.chunk

    @property
    def lines(self) -> frozenset[str]:
        if self._lines is None:
            self._lines = _lines(self.chunk)
        return self._lines


async def by_copies(state: SearchState, history: CommitTimes | None) -> SearchState:
    """Keep one entry of each group of copies, and record the others as its copies."""
    suspects = _suspects(state.ranking)
    if len(suspects) > MAX_AT_ONCE:
        groups = await asyncio.to_thread(_grouped, suspects)
    else:
        groups = _grouped(suspects)
    if not groups:
        return state
    times = await _times(groups, state, history)
    firsts = {one.chunk.id: _canonical(one, times) for one in groups}
    dropped = {entry.candidate.chunk.id for one in groups for entry in one.entries[1:]}
    ids = ((entry, entry.candidate.chunk.id) for entry in state.ranking)
    return replace(
        state,
        ranking=tuple(firsts.get(id, entry) for entry, id in ids if id not in dropped),
        copies=dict(map(_copies, groups, firsts.values())),
    )


def _suspects(ranking: Sequence[Ranked]) -> list[tuple[Ranked, _Name]]:
    """Return the entries that may be copies, because several repositories have the text or name.

    Usually there are few or none, and grouping takes five times as long as this test.
    """
    if len({entry.candidate.chunk.repository for entry in ranking}) < 2:
        return []
    owners: dict[str | _Name, RepositoryName] = {}
    several: set[str | _Name] = set()
    named = [(entry, _name(entry.candidate.chunk)) for entry in ranking]
    for entry, name in named:
        chunk = entry.candidate.chunk
        for key in (chunk.content, name):
            if owners.setdefault(key, chunk.repository) != chunk.repository:
                several.add(key)
    return [
        (entry, name)
        for entry, name in named
        if name in several or entry.candidate.chunk.content in several
    ]


def _name(chunk: Chunk) -> _Name:
    return chunk.path.rpartition("/")[2], chunk.symbol


def _grouped(suspects: Iterable[tuple[Ranked, _Name]]) -> list[_Group]:
    """Return the groups with at least two entries, in the order of their best entries."""
    groups: list[_Group] = []
    by_text: defaultdict[str, list[_Group]] = defaultdict(list)
    by_name: defaultdict[_Name, list[_Group]] = defaultdict(list)
    for entry, name in suspects:
        deadline.check()
        chunk = entry.candidate.chunk
        group = _equal(chunk, by_text[chunk.content]) or _similar(chunk, by_name[name])
        if group is None:
            group = _Group([entry], {chunk.repository})
            groups.append(group)
            by_text[chunk.content].append(group)
            by_name[name].append(group)
        else:
            group.entries.append(entry)
            group.repositories.add(chunk.repository)
    return [group for group in groups if len(group.entries) > 1]


def _equal(chunk: Chunk, groups: Sequence[_Group]) -> _Group | None:
    """Return a group of this text without the chunk's repository, preferably of the same path.

    There are several groups if a repository has the text at several paths.
    """
    return max(_without(chunk, groups), key=lambda one: one.chunk.path == chunk.path, default=None)


def _similar(chunk: Chunk, groups: Sequence[_Group]) -> _Group | None:
    """Return the most similar of the groups, if it is similar enough."""
    fitting = _without(chunk, groups)[:MAX_COMPARED]
    if not fitting:
        return None
    lines = _lines(chunk)
    share, group = max(((_shared(lines, one.lines), one) for one in fitting), key=itemgetter(0))
    return group if share >= SHARED_LINES else None


def _without(chunk: Chunk, groups: Iterable[_Group]) -> list[_Group]:
    return [one for one in groups if chunk.repository not in one.repositories]


def _lines(chunk: Chunk) -> frozenset[str]:
    return frozenset(filter(None, map(str.strip, chunk.content.split("\n"))))


def _shared(lines: frozenset[str], others: frozenset[str]) -> float:
    """Return the share of the lines that both have."""
    both = len(lines & others)
    return both / (len(lines) + len(others) - both or 1)


async def _times(
    groups: Iterable[_Group], state: SearchState, history: CommitTimes | None
) -> Mapping[RepositoryName, float]:
    """Return the time of the indexed commit of each repository with copies."""
    if history is None:
        return {}
    names = {name for group in groups for name in group.repositories}
    return await history.commit_times(sorted(names), state.query.filters.ref)


def _canonical(group: _Group, times: Mapping[RepositoryName, float]) -> Ranked:
    """Return the entry that stands for the group, with the score of the best one."""
    best = group.entries[0]
    near = [one for one in group.entries if one.score >= best.score - MARGIN]
    first = max(near, key=lambda one: times.get(one.candidate.chunk.repository, 0.0))
    if first is best:
        return best
    by = best.score - first.score
    names, parts = (*first.names, "rank.canonical"), (*first.parts, by)
    return first._replace(score=best.score, names=names, parts=parts)


def _copies(group: _Group, first: Ranked) -> tuple[ChunkId, tuple[Copy, ...]]:
    """Return the id of the entry that stands for the group, and its copies."""
    shown = first.candidate.chunk
    others = [one.candidate.chunk for one in group.entries if one.candidate.chunk.id != shown.id]
    return shown.id, tuple(Copy(one, _similarity(one, shown)) for one in others)


def _similarity(one: Chunk, other: Chunk) -> float:
    return 1.0 if one.content == other.content else _shared(_lines(one), _lines(other))
