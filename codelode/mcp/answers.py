"""The answer of a tool: a text that is safe to show and never longer than an agent accepts.

Names and code in an answer come from repositories and are not trusted: see `codelode.display`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from codelode.counts import counted
from codelode.display import plain

#: The longest answer that common agents accept.
MAX_TOKENS = 25_000
#: The shortest mean length of tokens. Tokens of code have three to four bytes; text without words,
#: such as base64, has the shortest tokens, of about two bytes.
BYTES_PER_TOKEN = 2
MAX_BYTES = MAX_TOKENS * BYTES_PER_TOKEN


@dataclass(frozen=True, slots=True)
class Answer:
    """The text of an answer, safe to show, and, if the agent asked for it, the same as JSON."""

    text: str
    structured: dict[str, Any] | None = None
    is_error: bool = False


def error_answer(text: str) -> Answer:
    """Return an answer that says what is wrong and the remedy."""
    return Answer(plain(text), is_error=True)


def text_answer(parts: Iterable[str], *, narrow: str) -> Answer:
    """Return the lines of the parts as text; if it is cut to MAX_BYTES, a note ends in `narrow`."""
    lines = [line for part in parts for line in part.split("\n")]
    kept = fitting(lines, MAX_BYTES - len(narrow) - 100)
    if len(kept) < len(lines):
        kept.append(f"note: cut off {counted(len(lines) - len(kept), 'line')}; {narrow}")
    return Answer("\n".join(map(plain, kept)))


def structured_answer(fields: dict[str, Any], *, narrow: str) -> Answer:
    """Return the fields as JSON, or if they are too long, an error that `narrow` ends.

    The text repeats the JSON for agents that do not support structured answers.
    """
    shown = _plain(json.loads(json.dumps(fields)))
    text = json.dumps(shown, separators=(",", ":"))
    if 2 * len(text) > MAX_BYTES:
        told = f"the structured answer has {len(text):,} bytes, more than {MAX_BYTES // 2:,}"
        return error_answer(f"{told}; {narrow}, or leave out `structured`")
    return Answer(text, shown)


def fitting(parts: Sequence[str], room: int) -> list[str]:
    """Return the first parts, as many as fit into `room` bytes when printed."""
    kept: list[str] = []
    for part in parts:
        room -= len(plain(part).encode()) + 1
        if room < 0:
            break
        kept.append(part)
    return kept


def _plain(value: Any) -> Any:
    """Return the JSON value with `plain` applied to each text in it."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {plain(name): _plain(one) for name, one in value.items()}
    return value
