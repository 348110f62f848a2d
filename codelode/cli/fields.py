"""Name the fields of a request as the options and arguments of the command that sent it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

import click

from codelode.errors import CodelodeError, InvalidQuery
from codelode.text.fields import reworded

#: The parameters from which a field may come, if none has the name of the field.
_PARAMETERS = {
    "budget_tokens": ("tokens",),
    "end_line": ("place",),
    "line": ("place",),
    "page_token": ("page",),
    "path": ("place",),
    "repository": ("name",),
    "start_line": ("place",),
    "url": ("urls", "targets", "repositories", "path"),
}

#: The names in a metavar such as `[URL_OR_PATH]...` or `PATH[:FIRST[-LAST]]`.
_NAME = re.compile(r"[A-Z_|]+")

#: The names of fields in the metavar of an argument that several fields come from.
_PARTS = {"end_line": "LAST", "line": "LINE", "start_line": "FIRST"}


def in_own_terms(exc: CodelodeError, command: click.Command) -> CodelodeError:
    """Return the error, with the fields that it names written as on the command line."""
    if not isinstance(exc, InvalidQuery):
        return exc
    return InvalidQuery(_named(exc.field, command) or exc.field, worded(exc.message, command))


def worded(text: str, command: click.Command) -> str:
    """Return the text of an error or a notice, with fields written as options or arguments."""
    return reworded(text, partial(_named, command=command))


def _named(field: str, command: click.Command) -> str:
    """Return the option or the argument of a field; empty if the command does not send it.

    `filters.paths` is `--path`, and `options.rank.window`, for which there is no option, is
    `--set rank.window`. If there is also an option for it, both are named.
    """
    last = field.rpartition(".")[2]
    option = field.removeprefix("options.") if field.startswith("options.") else ""
    parameters = {one.name: one for one in _parameters(command)}
    for name in (last, *_PARAMETERS.get(last, ())):
        if name in parameters:
            shown = _shown(parameters[name], last)
            return f"{shown} ({option})" if option else shown
    return f"--set {option}" if option else ""


def _parameters(command: click.Command) -> Iterator[click.Parameter]:
    """Yield the parameters of a command, and if it is a group, of its subcommands."""
    yield from command.params
    if isinstance(command, click.Group):
        for one in command.commands.values():
            yield from one.params


def _shown(parameter: click.Parameter, field: str) -> str:
    if isinstance(parameter, click.Option):
        return parameter.opts[0]
    names = _NAME.findall(parameter.human_readable_name) or [parameter.human_readable_name]
    part = _PARTS.get(field, "")
    return part if part in names else str(names[0])
