"""Change one table in the text of a TOML file.

A table may be appended to almost every TOML file, so the rest of the text need not be parsed. The
caller compares the values before and after, which detects the files where that does not work.
"""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

from codelode.errors import InvalidSettings

LANGUAGE = "TOML"


def read(text: str) -> dict[str, Any]:
    """Return the values in the text. Raises InvalidSettings with the line that is wrong."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise InvalidSettings(f"is not valid TOML: {exc}") from exc


def with_entry(text: str, section: str, name: str, entry: dict[str, Any]) -> str:
    """Return the text with the entry as a separate table at the end."""
    if name in read(text).get(section, {}):
        text = without_entry(text, section, name)
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = [f"[{section}.{name}]", *(f"{key} = {_value(one)}" for key, one in entry.items()), ""]
    gap = "" if not text else newline if text.endswith("\n") else newline * 2
    return text + gap + newline.join(lines)


def without_entry(text: str, section: str, name: str) -> str:
    """Return the text without the table of the entry, its subtables, and the blank line before."""
    lines = text.splitlines(keepends=True)
    own = re.compile(rf"\[\s*{re.escape(section)}\s*\.\s*[\"']?{re.escape(name)}[\"']?\s*[.\]]")
    start = next((at for at, line in enumerate(lines) if own.match(line.lstrip())), len(lines))
    end = start
    for at, line in enumerate(lines[start:], start):
        if line.lstrip().startswith("[") and not own.match(line.lstrip()):
            break
        if line.strip() and not line.lstrip().startswith("#"):
            end = at + 1  # comments after the last value belong to what follows
    if start and not lines[start - 1].strip():
        start -= 1
    return "".join(lines[:start] + lines[end:])


def _value(value: Any) -> str:
    """Return a text, a list of texts, or a table of texts as TOML."""
    if isinstance(value, dict):
        pairs = ", ".join(f"{json.dumps(name)} = {_value(one)}" for name, one in value.items())
        return f"{{ {pairs} }}"
    return json.dumps(value, ensure_ascii=False)
