"""The access file: which repositories groups and people may see, and their roles.

    groups:
      payments:
        repositories: [payments/*, shared/**]
        role: indexer
    people:
      user:ann@example.org:
        repositories: [legal/contracts]

The file is read again by everyone who asks for the rules, and parsed when its text has changed. A
version that cannot be used is reported, and the last good one stays in force.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import structlog
import yaml

from codelode import repository_globs
from codelode.access import Role
from codelode.errors import InvalidSettings
from gateway.access.identity import Identity

#: Largest file, bytes: parsing takes about a second for each MB.
MAX_BYTES = 1_000_000

#: Interval at which a gateway looks for changes when nobody calls it, seconds.
FOLLOW_INTERVAL_S = 1.0

#: Prefix of the identities of API keys, which carry their rights themselves.
_KEY_IDENTITY = "key:"

_SECTIONS = ("groups", "people")
_FIELDS = ("repositories", "role")

log = structlog.get_logger("gateway")


@dataclass(frozen=True, slots=True)
class Grant:
    """The rights of a group or a person."""

    repositories: tuple[str, ...] = ()  # globs
    role: Role = Role.READER


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


NO_RULES = Rules()


class AccessFile:
    """The rules in a file, as they are now; an empty path means that there are none.

    Raises InvalidSettings if the file cannot be used when the gateway starts.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path).expanduser() if path else None
        self._lock = threading.Lock()
        self._rules, self._text, self._problem = NO_RULES, "", ""
        if self._path:
            self._text = _read(self._path)
            self._rules = parse(self._text, file=str(self._path))

    def current(self) -> Rules:
        """Return the rules of the file, or while it cannot be used, those of its last version."""
        with self._lock:
            if self._path:
                self._follow(self._path)
            return self._rules

    async def follow(self) -> None:
        """Read the file at intervals, so that the log soon says what is wrong with it."""
        while self._path:
            await asyncio.sleep(FOLLOW_INTERVAL_S)
            await asyncio.to_thread(self.current)

    def problems(self) -> tuple[str, ...]:
        """Return why the file cannot be used now, for admins; nothing if it can."""
        self.current()
        with self._lock:
            problem = self._problem
        return (f"{problem}; its last good version stays in force",) if problem else ()

    def _follow(self, path: Path) -> None:
        problem = ""
        try:
            text = _read(path)
            if text != self._text:
                self._rules = parse(text, file=str(path))
                self._text = text
                log.info("access_file_followed", file=str(path))
        except InvalidSettings as exc:
            problem = str(exc)
        if problem and problem != self._problem:
            log.error("access_file_rejected", file=str(path), error=problem)
        self._problem = problem


def parse(text: str, *, file: str) -> Rules:
    """Return the rules. Raises InvalidSettings with the line of what is wrong."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        if root is None:
            raise _Wrong(1, "is empty; write `groups:` or `people:`")
        sections = dict(_items(root, "the file", known=_SECTIONS))
        return Rules(**{name: _grants(name, node) for name, node in sections.items()})
    except _Wrong as exc:
        raise InvalidSettings(f"{file}:{exc.line}: {exc}") from None
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        raise InvalidSettings(f"{file}:{mark.line + 1 if mark else 1}: {exc.problem}") from None
    except (yaml.YAMLError, RecursionError) as exc:
        raise InvalidSettings(f"{file}: is not YAML: {exc}") from None


class _Wrong(Exception):
    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


def _read(path: Path) -> str:
    try:
        with path.open("rb") as opened:
            raw = opened.read(MAX_BYTES + 1)
        text = raw.decode()
    except (OSError, UnicodeDecodeError) as exc:
        raise InvalidSettings(f"cannot read the access file {path}: {exc}") from exc
    if len(raw) > MAX_BYTES:
        raise InvalidSettings(f"the access file {path} is larger than {MAX_BYTES:,} bytes")
    return text


def _items(
    node: yaml.Node, what: str, *, known: tuple[str, ...] = ()
) -> Iterator[tuple[str, yaml.Node]]:
    """Yield the entries of a mapping. Raises _Wrong for unknown and repeated names."""
    if not isinstance(node, yaml.MappingNode):
        raise _Wrong(_line(node), f"{what} must be a mapping: lines of the form `name: …`")
    seen: set[str] = set()
    for key, value in node.value:
        name = _text(key)
        if known and name not in known:
            raise _Wrong(_line(key), f"{what} has {name!r}; it may have {' and '.join(known)}")
        if name in seen:
            raise _Wrong(_line(key), f"{what} has {name!r} twice; write one entry")
        seen.add(name)
        yield name, value


def _grants(section: str, node: yaml.Node) -> dict[str, Grant]:
    found = {}
    for name, value in _items(node, section):
        if section == "people" and name.startswith(_KEY_IDENTITY):
            raise _Wrong(_line(value), f"{name!r} is an API key, which has the rights it was given")
        found[name] = _grant(name, value)
    return found


def _grant(name: str, node: yaml.Node) -> Grant:
    fields = dict(_items(node, repr(name), known=_FIELDS))
    globs = _globs(fields["repositories"]) if "repositories" in fields else ()
    return Grant(globs, _role(fields["role"]) if "role" in fields else Role.READER)


def _globs(node: yaml.Node) -> tuple[str, ...]:
    if not isinstance(node, yaml.SequenceNode):
        raise _Wrong(_line(node), "repositories must be a list of globs: [payments/*]")
    globs = [_text(one) for one in node.value]
    if problem := repository_globs.problem(globs):
        raise _Wrong(_line(node), f"repositories {problem}")
    return tuple(globs)


def _role(node: yaml.Node) -> Role:
    role = _text(node)
    if role not in tuple(Role):
        raise _Wrong(_line(node), f"there is no role {role!r}; there are: {', '.join(Role)}")
    return Role(role)


def _text(node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode) or node.tag != "tag:yaml.org,2002:str":
        raise _Wrong(_line(node), "expected a text; write it in quotes")
    return str(node.value)


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
