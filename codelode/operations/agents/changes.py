"""Plan a change of a configuration file, apply it, and record how to undo it exactly."""

from __future__ import annotations

import json
from dataclasses import dataclass
from difflib import unified_diff
from hashlib import sha256
from pathlib import Path
from typing import Any

from codelode.errors import InvalidSettings, NotFound
from codelode.files import make_private, replace_text
from codelode.operations.agents.table import Agent

#: The name of our entry in the files of agents.
NAME = "codelode"


@dataclass(frozen=True, slots=True)
class Change:
    """The text of a file before and after a change; None: there is no file."""

    path: Path
    before: str | None
    after: str | None
    original: str | None  # the text before the first change, which undoing restores

    def diff(self) -> str:
        """Return the change as a unified diff; empty if nothing changes."""
        old, new = ((text or "").splitlines(keepends=True) for text in (self.before, self.after))
        return "".join(
            line if line.endswith("\n") else f"{line}\n"
            for line in unified_diff(old, new, str(self.path), str(self.path))
        )


def installation(agent: Agent, path: Path, entry: dict[str, Any], *, records: Path) -> Change:
    """Return the change that adds the entry to the file, or replaces an older one."""
    path, before = path.resolve(), _text(path)
    record = _record(path, records)
    is_ours = record is not None and before is not None and record["after"] == _digest(before)
    original = record["original"] if record is not None and is_ours else before
    values = _read(agent, path, before or "")
    section = values.get(agent.section, {})
    if not isinstance(section, dict):
        raise _unfit(path, f"`{agent.section}` in it is not a {agent.form.LANGUAGE} object", agent)
    after = agent.form.with_entry(before or "", agent.section, NAME, entry)
    _check(agent, path, after, {**values, agent.section: {**section, NAME: entry}})
    return Change(path, before, after, original)


def removal(agent: Agent, path: Path, *, records: Path) -> Change:
    """Return the change that undoes the installation. Raises NotFound if there is none.

    A file that was not changed since the installation gets its original text; from any other file,
    only the entry is removed.
    """
    path, before = path.resolve(), _text(path)
    values = _read(agent, path, before or "")
    section = values.get(agent.section)
    if before is None or not isinstance(section, dict) or NAME not in section:
        raise NotFound(f"{agent.title} does not use codelode: {path} has no entry for it")
    record = _record(path, records)
    if record is not None and record["after"] == _digest(before):
        return Change(path, before, record["original"], record["original"])
    after = agent.form.without_entry(before, agent.section, NAME)
    left = {name: one for name, one in section.items() if name != NAME}
    _check(agent, path, after, {**values, agent.section: left})
    return Change(path, before, after, after)


def applied(change: Change, *, records: Path) -> None:
    """Make the change, and record how to undo it. Raises InvalidSettings if a file cannot be
    written.
    """
    record = _record_file(change.path, records)
    try:
        if change.after == change.original:
            _write(change.path, change.after)
            record.unlink(missing_ok=True)
            return
        make_private(records)
        assert change.after is not None
        kept = {"path": str(change.path), "original": change.original}
        replace_text(record, json.dumps({**kept, "after": _digest(change.after)}))
        _write(change.path, change.after)
    except OSError as exc:
        raise InvalidSettings(f"cannot write {change.path}: {exc}") from exc


def _write(path: Path, text: str | None) -> None:
    if text is None:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
    replace_text(path, text)
    path.chmod(mode)


def _text(path: Path) -> str | None:
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as exc:
        raise InvalidSettings(f"cannot read {path}: {exc}") from exc


def _read(agent: Agent, path: Path, text: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = agent.form.read(text)
    except InvalidSettings as exc:
        raise InvalidSettings(f"{path} {exc}; correct it and try again") from exc
    return found


def _check(agent: Agent, path: Path, text: str, expected: dict[str, Any]) -> None:
    """Raise InvalidSettings unless the text has exactly the values that are expected."""
    try:
        found = agent.form.read(text)
    except InvalidSettings:
        found = {}
    if {agent.section: {}, **found} != expected:
        raise _unfit(path, "codelode cannot change its form without a loss", agent)


def _unfit(path: Path, why: str, agent: Agent) -> InvalidSettings:
    return InvalidSettings(
        f"{path} was not changed, because {why}; edit `{agent.section}` in it yourself"
    )


def _record(path: Path, records: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(_record_file(path, records).read_text())
    except (OSError, ValueError):
        return None
    return found


def _record_file(path: Path, records: Path) -> Path:
    return records / f"{_digest(str(path))[:16]}.json"


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()
