"""Reword messages for the pages: labels instead of fields, and pages instead of commands."""

from __future__ import annotations

import re
from dataclasses import replace

from codelode.text.fields import reworded
from gateway.api.rest.problems import Problem

#: The two settings that the lab compares.
SIDES = ("a", "b")

#: Fields of the requests that pages make, and the labels under which users see them.
LABELS = {
    "query": "Search",
    "filters.repositories": "Repository",
    "filters.languages": "Language",
    "filters.kinds": "Kind",
    "filters.paths": "Folder",
    "filters.not_repositories": "Not repository",
    "filters.not_languages": "Not language",
    "filters.not_paths": "Not folder",
    "filters.ref": "Ref",
    "filters.scope": "Scope",
    "top_k": "Hits",
    "page_token": "More results",
    "repository": "Repository",
    "ref": "Ref",
    "path": "File",
    "start_line": "First line",
    "end_line": "Last line",
    "lines": "Lines",
    "subject": "File or symbol",
    "depth": "Steps",
    "limit": "Limit",
    "url": "URL",
    "name": "Name",
    "secret": "API key or token",
}


#: Commands that remedies name, and what replaces them on the pages.
_COMMANDS = {
    "repos": "“Repositories” above",
    "status": "“Repositories” above",
    "scopes": "the start page",
    "index": "“Index a repository” under “Repositories”",
    "search": "a search",
    "failures": "“Failed files and reasons” under “Repositories”",
}
_COMMAND = re.compile(r"(run )?`codelode (\w+)(?: [^`\n]*)?`")
#: Fields that remedies name, and what replaces them on the pages.
_FIELDS = {"limit": "the limit"}


def worded(message: str) -> str:
    """Return the message with the remedies of the pages: `codelode repos` → “Repositories” above.

    Commands without a replacement stay.
    """
    return reworded(_COMMAND.sub(_worded, message), lambda field: _FIELDS.get(field, ""))


def _worded(command: re.Match[str]) -> str:
    known = _COMMANDS.get(command[2])
    if known is None:
        return command[0]
    return f"use {known}" if command[1] else known


def labelled(told: Problem) -> Problem:
    """Return the problem in the words of the pages, with the label of its field, not its name."""
    told = replace(told, detail=worded(told.detail))
    label = LABELS.get(told.field) or _option(told.field)
    if not label:
        return told
    return replace(told, detail=label + told.detail.removeprefix(told.field))


def option_label(name: str) -> str:
    """Return the label of an option of a search: `"a.retrieve.max_chunks"` → `"A: Max chunks"`."""
    side, _, rest = name.partition(".")
    if side in SIDES:
        return f"{side.upper()}: {option_label(rest)}"
    return name.rpartition(".")[2].replace("_", " ").capitalize()


def _option(field: str) -> str:
    """Return the label of an option of one side; empty for another field."""
    return option_label(field) if field.startswith(tuple(f"{side}." for side in SIDES)) else ""
