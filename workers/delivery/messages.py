"""Check the arguments of a message before they are used.

Whoever can reach the broker can put messages into its queues, and an older version may have left
some there. A message that no process of this version sends is logged and dropped, so it neither
fails a run nor stops a worker. What its names refer to is checked against the ledger afterwards:
`Delivery.claim` takes only files that are in flight, of the repository of their run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

import structlog

from codelode import addresses, sources
from codelode.chunk_map import MAX_REPOSITORIES
from codelode.errors import InvalidQuery, Rejected
from codelode.model import BlobId, RefName, RepositoryName, RunId
from workers.delivery.files import Job

#: Ids of runs, as the ledger generates them, and of file contents, as git does (SHA-1 or SHA-256).
_RUN = re.compile(r"[0-9a-f]{16}")
_BLOB = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")

#: Maximum number of characters of an invalid argument that are logged.
_SHOWN = 80

T = TypeVar("T")

log = structlog.get_logger("workers")


def accepted(task: str, read: Callable[[Any], T], given: object) -> T | None:
    """Return what `read` makes of an argument; None, with a log line, if it is not acceptable."""
    try:
        return read(given)
    except Rejected as exc:
        log.warning("message_dropped", task=task, reason=str(exc))
        return None


def job(arguments: Mapping[str, object]) -> Job:
    """Return the job of a message for a file stage. Raises Rejected."""
    names = {field.name for field in fields(Job)}
    if set(arguments) != names:
        raise Rejected(f"its arguments are {_shown(sorted(arguments))} instead of {sorted(names)}")
    return Job(
        run(arguments["run"]),
        repository(arguments["repository"]),
        _path(arguments["path"]),
        _blob(arguments["blob"]),
        _size(arguments["size"]),
    )


def run(given: object) -> RunId:
    """Return the id of a run. Raises Rejected."""
    if isinstance(given, str) and _RUN.fullmatch(given):
        return RunId(given)
    raise Rejected(f"{_shown(given)} is not the id of a run")


def repository(given: object) -> RepositoryName:
    """Return the name of a repository. Raises Rejected."""
    if not isinstance(given, str):
        raise Rejected(f"{_shown(given)} is not the name of a repository")
    try:
        return addresses.check_name(given)
    except InvalidQuery as exc:
        raise Rejected(f"{_shown(given)} is not the name of a repository") from exc


def repositories(given: object) -> tuple[RepositoryName, ...]:
    """Return the names of the repositories of a map. Raises Rejected."""
    if not isinstance(given, list) or not 0 < len(given) <= MAX_REPOSITORIES:
        raise Rejected(f"{_shown(given)} is not a list of repositories")
    return tuple(map(repository, given))


def ref(given: object) -> RefName:
    """Return a branch, tag, or commit id. Raises Rejected."""
    if not isinstance(given, str):
        raise Rejected(f"{_shown(given)} is not the name of a ref")
    try:
        return addresses.check_ref(given)
    except InvalidQuery as exc:
        raise Rejected(f"{_shown(given)} is not the name of a ref") from exc


def connection(given: object) -> str:
    """Return the name of a connection. Raises Rejected."""
    if isinstance(given, str) and sources.NAME.fullmatch(given):
        return given
    raise Rejected(f"{_shown(given)} is not the name of a connection")


def _path(given: object) -> str:
    # git allows every other path, even `..`; none is ever used as a path of this machine.
    if isinstance(given, str) and given and "\0" not in given:
        return given
    raise Rejected(f"{_shown(given)} is not the path of a file")


def _blob(given: object) -> BlobId:
    if isinstance(given, str) and (not given or _BLOB.fullmatch(given)):
        return BlobId(given)
    raise Rejected(f"{_shown(given)} is not the id of a file's content")


def _size(given: object) -> int:
    if type(given) is int and given >= 0:
        return given
    raise Rejected(f"{_shown(given)} is not the size of a file")


def _shown(given: object) -> str:
    return repr(given)[:_SHOWN]
