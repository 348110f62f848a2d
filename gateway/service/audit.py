"""Collect facts about the current call: fields of its log line and of its audit record."""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import dataclass, field

import structlog

#: Maximum number of repositories in a record, and of characters of a name; callers choose both.
MAX_REPOSITORIES = 50
MAX_NAME_CHARS = 200
#: Maximum number of characters of a query in a record, because many records may wait to be written.
#: The service functions refuse longer queries.
MAX_QUERY_CHARS = 8_192
#: Fields of the log line that the audit record also has: the object of a change, and its details.
DETAILS = frozenset({"key", "key_id", "key_role", "label", "ref", "run", "connection", "mode"})
#: Maximum number of characters of a text in the log line, which may quote a request of 512 kB.
MAX_FIELD_CHARS = 1_000


@dataclass(slots=True)
class CallFacts:
    """Collects the facts about a call that service functions report for the audit log only."""

    repositories: dict[str, None] = field(default_factory=dict)  # named by the caller, or read
    query: str = ""
    details: dict[str, str] = field(default_factory=dict)  # by the names of DETAILS


_facts: ContextVar[CallFacts] = ContextVar("call_facts")


def begin() -> CallFacts:
    """Start collecting facts about a call, before it reaches a service function."""
    facts = CallFacts()
    _facts.set(facts)
    return facts


def note(**facts: object) -> None:
    """Add fields to the log line of the current call: identifiers and counts, never source text.

    Empty texts are left out, because they stand for absent values.
    """
    facts = {name: fact for name, fact in facts.items() if fact != ""}
    structlog.contextvars.bind_contextvars(**{name: _cut(fact) for name, fact in facts.items()})
    if name := facts.get("repository"):
        involve([str(name)])
    if call := _facts.get(None):
        call.details |= {
            name: str(fact)[:MAX_NAME_CHARS] for name, fact in facts.items() if name in DETAILS
        }


def involve(repositories: Iterable[str] = (), *, query: str = "") -> None:
    """Add repositories that the caller names or reads, and its query, to the audit record.

    The repositories that a request names are added before a service function may refuse it.
    """
    facts = _facts.get(None)
    if facts is None:
        return
    facts.query = query[:MAX_QUERY_CHARS] or facts.query
    for name in repositories:
        if len(facts.repositories) >= MAX_REPOSITORIES:
            return
        facts.repositories[name[:MAX_NAME_CHARS]] = None


def _cut(fact: object) -> object:
    return fact[:MAX_FIELD_CHARS] if isinstance(fact, str) else fact
