"""Read the connections that the sources file declares, for a worker that follows its changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import structlog

from codelode import declarations, sources
from codelode.errors import InvalidSettings
from codelode.sources import Connection, HostKind

log = structlog.get_logger("workers")


class SourcesFile:
    """The sources file, or its last good version; an empty path means no file."""

    def __init__(self, path: str) -> None:
        self.path = Path(path).expanduser() if path else None
        self.problem = ""  # why the file cannot be used now
        self._text: str | None = None  # of the last good version
        self._good: tuple[Connection, ...] | None = None

    def current(self) -> tuple[Connection, ...] | None:
        """Return the connections in force; None if there never was a good version."""
        if self.path is None:
            return None
        problem = ""
        try:
            self._follow(self.path)
        except InvalidSettings as exc:
            problem = f"{exc}; its last good version stays in force"
            if problem != self.problem:  # do not log the same problem at each reading
                log.error("sources_file_rejected", error=str(exc))
        self.problem = problem
        return self._good

    def chosen(self, is_chosen: Callable[[Connection], object]) -> Mapping[str, Connection]:
        """Return the connections in force that are chosen, by name."""
        return {one.name: one for one in self.current() or () if is_chosen(one)}

    def _follow(self, path: Path) -> None:
        """Parse the file if its text has changed: parsing takes about a second for each MB."""
        text = declarations.read_text(path, what="sources file")
        if text != self._text:
            self._good = sources.parse(text, file=str(path))
            self._text = text


def owner_of(url: str, connections: Iterable[Connection]) -> Connection | None:
    """Return the connection that a repository belongs to: the match with the longest address."""
    found = [one for one in connections if _holds(one, url)]
    return max(found, key=lambda one: len(_address(one)), default=None)


def _holds(connection: Connection, url: str) -> bool:
    if connection.kind is HostKind.URLS:
        return url in connection.urls
    return url.lower().startswith(_address(connection))


def _address(connection: Connection) -> str:
    return f"{connection.root}/{connection.organisation}".lower().rstrip("/") + "/"
