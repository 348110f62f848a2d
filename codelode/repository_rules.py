"""Select the repositories of a code host, by the rules of a connection in the sources file."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import yaml

from codelode.access import Label
from codelode.declarations import Wrong, count, flag, items, line, size_bytes, text, texts, time_s
from codelode.repository_globs import matcher, problem

#: Maximum number of branches, and of tags, of a repository that are indexed because of the rules.
MAX_REFS = 100

FIELDS = (
    *("include", "exclude", "topics", "visibility", "forks", "archived", "max_size"),
    *("branches", "tags", "newest_tags", "label", "every", "at_least_every"),
    *("grace", "paused", "priority", "weights"),
)

#: The longest interval of listings while the host has no news, as a multiple of the usual one,
#: unless the rules give it.
GROWTH = 4

#: Maximum weight of a repository.
MAX_WEIGHT = 100


class RunPriority(StrEnum):
    """The rule by which the runs of a connection give way to other runs."""

    HIGH = "high"  # never, however many files they have
    NORMAL = "normal"  # if they have many files
    LOW = "low"  # always


class HostVisibility(StrEnum):
    """Visibility of a repository at its code host."""

    PUBLIC = "public"
    INTERNAL = "internal"
    PRIVATE = "private"


@dataclass(frozen=True, slots=True)
class ListedRepository:
    """A repository as its code host lists it."""

    id: str  # of the host; stays the same when the repository is renamed or moved
    name: str  # with its owner: "acme/app"
    url: str  # for git, without credentials
    is_fork: bool = False
    is_archived: bool = False
    is_empty: bool = False  # has no commits
    size_bytes: int = 0  # 0: the host does not say
    topics: tuple[str, ...] = ()
    visibility: HostVisibility = HostVisibility.PRIVATE
    pushed: str = ""  # differs after each push; empty: the host does not say
    default_branch: str = ""  # empty: the host does not say
    owner: str = ""  # id of the owner, for hosts whose API needs it
    is_mirror: bool = False  # of another one; set only if `pushed` then predates its last update


@dataclass(frozen=True, slots=True)
class RepositoryRules:
    """The rules that say which repositories of a connection are followed, and how.

    A rule that is not given excludes nothing. Names and topics are compared without case, as code
    hosts do.
    """

    include: tuple[str, ...] = ()  # globs over names at the host, one of which must match
    exclude: tuple[str, ...] = ()  # none of these may match
    topics: tuple[str, ...] = ()  # one of these is required
    visibility: tuple[HostVisibility, ...] = ()  # one of these is required
    forks: bool = True
    archived: bool = True
    max_size_bytes: int = 0  # 0: no limit
    branches: tuple[str, ...] = ()  # globs; those that match are indexed besides the default one
    tags: tuple[str, ...] = ()  # globs; the newest that match are indexed
    newest_tags: int = 10
    label: Label | None = None  # given to repositories when they are registered
    every_s: int = 3_600  # interval of listings
    at_least_every_s: int = GROWTH * 3_600  # longest interval while the host has no news
    grace_s: int = 7 * 86_400  # how long a repository is kept after the host stops listing it
    paused: tuple[str, ...] = ()  # globs over names at the host; these are left as they are
    priority: RunPriority = RunPriority.NORMAL
    weights: tuple[tuple[str, int], ...] = ()  # globs over names; the first that matches counts

    def is_paused(self, name: str) -> bool:
        """Return whether a repository stays as it is, whatever happens at its host."""
        return bool(self.paused) and matcher(_lower(self.paused))(name.lower())

    def weight(self, name: str) -> int:
        """Return the weight of the runs of a repository of this name; 1 without a rule."""
        found = (weight for glob, weight in self.weights if matcher((glob.lower(),))(name.lower()))
        return next(found, 1)

    def names_ref(self, ref: str, *, is_tag: bool) -> bool:
        """Return whether the rules have the branch or tag indexed."""
        return matcher(self.tags if is_tag else self.branches)(ref)

    def name_left_out_because(self, name: str) -> str:
        """Return why no repository of this name is followed; empty: its name does not decide."""
        if self.include and not matcher(_lower(self.include))(name.lower()):
            return "no glob of include matches"
        if self.exclude and matcher(_lower(self.exclude))(name.lower()):
            return "a glob of exclude matches"
        return ""

    def left_out_because(self, one: ListedRepository) -> str:
        """Return why a repository is not followed; empty: it is."""
        if reason := self.name_left_out_because(one.name):
            return reason
        if self.topics and not {*_lower(self.topics)} & {*_lower(one.topics)}:
            return "it has none of the topics"
        return self._kind_left_out(one)

    def _kind_left_out(self, one: ListedRepository) -> str:
        if self.visibility and one.visibility not in self.visibility:
            return f"it is {one.visibility}"
        if one.is_fork and not self.forks:
            return "it is a fork"
        if one.is_archived and not self.archived:
            return "it is archived"
        if self.max_size_bytes and one.size_bytes > self.max_size_bytes:
            return f"it has {one.size_bytes / 10**6:,.0f} MB, more than max_size"
        return "it has no commits yet" if one.is_empty else ""


def parsed(node: yaml.Node) -> RepositoryRules:
    """Return the rules that a node of the sources file declares. Raises Wrong."""
    fields = dict(items(node, "repositories", known=FIELDS))
    usual = RepositoryRules()
    every_s = time_s(fields["every"], "every") if "every" in fields else usual.every_s
    return RepositoryRules(
        include=_globs(fields.get("include"), "include"),
        exclude=_globs(fields.get("exclude"), "exclude"),
        topics=_topics(fields.get("topics")),
        visibility=_visibility(fields.get("visibility")),
        forks=flag(fields["forks"], "forks") if "forks" in fields else usual.forks,
        archived=flag(fields["archived"], "archived") if "archived" in fields else usual.archived,
        max_size_bytes=size_bytes(fields["max_size"], "max_size") if "max_size" in fields else 0,
        branches=_globs(fields.get("branches"), "branches", of="branches"),
        tags=_globs(fields.get("tags"), "tags", of="tags"),
        newest_tags=_newest(fields.get("newest_tags")) or usual.newest_tags,
        label=_label(fields.get("label")),
        every_s=every_s,
        at_least_every_s=_longest_s(fields.get("at_least_every"), every_s),
        grace_s=time_s(fields["grace"], "grace") if "grace" in fields else usual.grace_s,
        paused=_globs(fields.get("paused"), "paused"),
        priority=_priority(fields.get("priority")),
        weights=_weights(fields.get("weights")),
    )


def _lower(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(str.lower, words))


def _longest_s(node: yaml.Node | None, every_s: int) -> int:
    if node is None:
        return GROWTH * every_s
    if (found := time_s(node, "at_least_every")) < every_s:
        raise Wrong(line(node), "at_least_every must not be shorter than every")
    return found


def _newest(node: yaml.Node | None) -> int:
    return 0 if node is None else count(node, "newest_tags", most=MAX_REFS)


def _globs(node: yaml.Node | None, field: str, *, of: str = "repositories") -> tuple[str, ...]:
    if node is None:
        return ()
    found = texts(node, field, form=' of globs: ["acme/*"]')
    if wrong := problem(found, of=of):
        raise Wrong(line(node), f"{field} {wrong}")
    return found


def _priority(node: yaml.Node | None) -> RunPriority:
    if node is None:
        return RunPriority.NORMAL
    if (found := text(node, "priority")) not in tuple(RunPriority):
        known = ", ".join(RunPriority)
        raise Wrong(line(node), f"there is no priority {found!r}; there are: {known}")
    return RunPriority(found)


def _weights(node: yaml.Node | None) -> tuple[tuple[str, int], ...]:
    if node is None:
        return ()
    found = tuple(
        (glob, count(one, f"the weight of {glob!r}", most=MAX_WEIGHT))
        for glob, one in items(node, "weights")
    )
    if wrong := problem([glob for glob, _ in found], of="repositories"):
        raise Wrong(line(node), f"weights {wrong}")
    return found


def _topics(node: yaml.Node | None) -> tuple[str, ...]:
    return () if node is None else texts(node, "topics", form=": [production]")


def _visibility(node: yaml.Node | None) -> tuple[HostVisibility, ...]:
    form = f" of {', '.join(HostVisibility)}"
    found = () if node is None else texts(node, "visibility", form=form)
    if node is not None and not {*found} <= {*HostVisibility}:
        raise Wrong(line(node), f"visibility must be a list{form}")
    return tuple(map(HostVisibility, found))


def _label(node: yaml.Node | None) -> Label | None:
    if node is None:
        return None
    if (found := text(node, "label")) not in tuple(Label):
        raise Wrong(line(node), f"there is no label {found!r}; there are: {', '.join(Label)}")
    return Label(found)
