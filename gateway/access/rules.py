"""The access file: which repositories groups and people may see, and their roles.

    groups:
      payments:
        repositories: [payments/*, shared/**]
        role: indexer
    people:
      user:ann@example.org:
        repositories: [legal/contracts]
        accounts: {work: "17"}

An entry under `people` has the name of a principal, as the gateway logs it. Names that no principal
can have are refused, because such an entry would silently give its rights to nobody.

`accounts` names the account of a person, or of an API key, at the code host of a connection, by the
id that the host assigned. Hosts never assign the same id to another account.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import yaml

from codelode import api_keys, declarations, repository_globs
from codelode.access import Role
from codelode.declarations import Wrong, items, line, text, texts
from codelode.grouping import Globs, undescribed
from gateway.access.followed import FollowedFile
from gateway.access.identity import Identity

#: Prefix of the identities of API keys, which carry their rights themselves.
_KEY_IDENTITY = "key:"

#: Prefixes of the names of principals that are told apart by a name of their own.
_KINDS = ("user", "certificate", "key", "webhook")
#: Names of the principals that callers without names of their own have.
_SHARED = ("token", "loopback")

_SECTIONS = ("groups", "people")
_FIELDS = ("repositories", "role")
_FIELDS_OF_PEOPLE = (*_FIELDS, "accounts")
_FIELDS_OF_KEYS = ("accounts",)


@dataclass(frozen=True, slots=True)
class Grant:
    """The rights of a group or a person."""

    repositories: tuple[str, ...] = ()  # globs
    role: Role = Role.READER
    accounts: tuple[tuple[str, str], ...] = ()  # name of a connection, and id of the account there


@dataclass(frozen=True, slots=True)
class Rules:
    """The grants of the access file, by the names of groups and of identities."""

    groups: Mapping[str, Grant] = field(default_factory=dict)
    people: Mapping[str, Grant] = field(default_factory=dict)

    def of(self, identity: Identity) -> Iterator[Grant]:
        """Yield the grants of an identity: its own, and those of its groups."""
        if identity.name in self.people:
            yield self.people[identity.name]
        yield from (self.groups[name] for name in sorted(identity.groups) if name in self.groups)

    def groupings(self) -> tuple[Globs, ...]:
        """Return the lists of globs that form groups of repositories (see `codelode.grouping`)."""
        grants = (*self.groups.values(), *self.people.values())
        return undescribed(grant.repositories for grant in grants)


NO_RULES = Rules()


class AccessFile(FollowedFile[Rules]):
    """Follows the rules in a file; an empty path means that there are none.

    Raises InvalidSettings if the file cannot be used when the gateway starts.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path, what="access file", parse=parse, empty=NO_RULES)
        self.require()


def parse(text: str, *, file: str) -> Rules:
    """Return the rules. Raises InvalidSettings with the line of the error."""
    return declarations.parsed(text, _rules, file=file, empty="groups: {}")


def _rules(root: yaml.Node) -> Rules:
    sections = dict(items(root, "the file", known=_SECTIONS))
    rules = Rules(**{name: _grants(name, node) for name, node in sections.items()})
    if "people" in sections:
        _require_principals(sections["people"])
    return rules


def _require_principals(people: yaml.Node) -> None:
    """Raise Wrong for an entry that matches nobody."""
    for key, _ in people.value:
        if problem := _problem_of_principal(key.value):
            raise Wrong(line(key), f"the entry {key.value!r} matches nobody: {problem}")


def _problem_of_principal(given: str) -> str:
    """Return why no principal has this name; empty if one can have it."""
    if given in _SHARED:
        return ""
    kind, _, name = given.partition(":")
    if not name or kind not in _KINDS:
        is_upper = name and kind.lower() in _KINDS
        likely = f"{kind.lower()}:{name}" if is_upper else f"user:{given.rstrip(':') or 'NAME'}"
        return (
            "write user:NAME for a person, certificate:NAME for a client certificate, and key:NAME "
            f"for an API key, here probably {likely!r}"
        )
    if kind == "key" and not api_keys.is_name(name):
        return (
            "names of keys have 1 to 64 letters, digits, and . _ -; `codelode keys list` shows them"
        )
    return ""


def _grants(section: str, node: yaml.Node) -> dict[str, Grant]:
    return {
        name: _grant(name, value, known=_fields(section, name))
        for name, value in items(node, section)
    }


def _fields(section: str, name: str) -> tuple[str, ...]:
    if section != "people":
        return _FIELDS
    return _FIELDS_OF_KEYS if name.startswith(_KEY_IDENTITY) else _FIELDS_OF_PEOPLE


def _grant(name: str, node: yaml.Node, *, known: tuple[str, ...]) -> Grant:
    try:
        fields = dict(items(node, repr(name), known=known))
    except Wrong as exc:
        if known is not _FIELDS_OF_KEYS:
            raise
        raise Wrong(
            exc.line, f"{name!r} is an API key, which has the rights it was given: {exc}"
        ) from None
    globs = _globs(fields["repositories"]) if "repositories" in fields else ()
    role = _role(fields["role"]) if "role" in fields else Role.READER
    return Grant(globs, role, _accounts(fields["accounts"]) if "accounts" in fields else ())


def _accounts(node: yaml.Node) -> tuple[tuple[str, str], ...]:
    return tuple(
        (name, text(value, f"the account of {name!r}")) for name, value in items(node, "accounts")
    )


def _globs(node: yaml.Node) -> tuple[str, ...]:
    globs = texts(node, "repositories", form=" of globs: [payments/*]")
    if problem := repository_globs.problem(globs):
        raise Wrong(line(node), f"repositories {problem}")
    return globs


def _role(node: yaml.Node) -> Role:
    role = text(node, "role")
    if role not in tuple(Role):
        raise Wrong(line(node), f"there is no role {role!r}; there are: {', '.join(Role)}")
    return Role(role)
