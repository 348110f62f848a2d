"""Choose the branches and tags of a repository that are indexed by the rules of its connection."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from codelode.model import RefName
from codelode.repository_rules import MAX_REFS, RepositoryRules
from workers.sources.declared import SourcesFile, owner_of

_HEADS, _TAGS = "refs/heads/", "refs/tags/"


@dataclass(frozen=True, slots=True)
class Chosen:
    """The refs that are indexed by rules, and the tags that newer ones have superseded."""

    wanted: tuple[RefName, ...]
    superseded: tuple[RefName, ...]


class RefRules:
    """The rules of the connections, for their repositories."""

    def __init__(self, path: str) -> None:
        self._file = SourcesFile(path)

    def __call__(self, url: str) -> RepositoryRules | None:
        """Return the rules for a repository; None if they name no branches and no tags."""
        rules = self.of(url)
        return rules if rules and (rules.branches or rules.tags) else None

    def of(self, url: str) -> RepositoryRules | None:
        """Return the rules of the connection that a repository belongs to."""
        following = self._file.chosen(lambda one: one.repositories)
        owner = owner_of(url, following.values())
        return owner.repositories if owner else None


def chosen(refs: Sequence[str], rules: RepositoryRules) -> Chosen:
    """Return what the rules choose. `refs`: full names of branches and tags, newest first.

    A tag that has the name of a branch is never chosen or superseded: the name means the branch.
    """
    branches = [*_named(refs, _HEADS, rules)][:MAX_REFS]
    heads = {ref.removeprefix(_HEADS) for ref in refs if ref.startswith(_HEADS)}
    tags = [ref for ref in _named(refs, _TAGS, rules) if ref not in heads]
    wanted = (*branches, *tags[: rules.newest_tags])
    return Chosen(wanted, tuple(tags[rules.newest_tags :]))


def _named(refs: Sequence[str], prefix: str, rules: RepositoryRules) -> Iterator[RefName]:
    short = (ref.removeprefix(prefix) for ref in refs if ref.startswith(prefix))
    is_tag = prefix == _TAGS
    yield from (RefName(ref) for ref in short if rules.names_ref(ref, is_tag=is_tag))
