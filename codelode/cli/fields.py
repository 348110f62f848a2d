"""Name the invalid field of a request as the option or argument of the command that sent it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click

from codelode.errors import CodelodeError, InvalidQuery

#: The parameters that a field may come from, if none has the name of the field itself.
_PARAMETERS = {
    "budget_tokens": ("tokens",),
    "end_line": ("place",),
    "line": ("place",),
    "path": ("place",),
    "repository": ("name",),
    "start_line": ("place",),
    "url": ("urls", "targets", "path"),
}

#: The name in a metavar such as `[URL_OR_PATH]...` or `PATH[:FIRST[-LAST]]`.
_NAME = re.compile(r"[A-Z_|]+")


def in_own_terms(exc: CodelodeError, command: click.Command) -> CodelodeError:
    """Return the error, with the invalid field that it may have named as on the command line.

    `filters.paths` becomes `--path`, and `options.rank.window`, which has no option of its own,
    `--set rank.window`. Where there is one, both are named, because either may have been given.
    A field that the command does not send stays.
    """
    if not isinstance(exc, InvalidQuery):
        return exc
    field = exc.field.rpartition(".")[2]
    is_option = exc.field.startswith("options.")
    option = exc.field.removeprefix("options.") if is_option else ""
    parameters = {one.name: one for one in _parameters(command)}
    for name in (field, *_PARAMETERS.get(field, ())):
        if name in parameters:
            shown = _shown(parameters[name])
            return InvalidQuery(f"{shown} ({option})" if option else shown, exc.message)
    return InvalidQuery(f"--set {option}", exc.message) if option else exc


def _parameters(command: click.Command) -> Iterator[click.Parameter]:
    """Yield the parameters of a command, and of those in it if it is a group."""
    yield from command.params
    if isinstance(command, click.Group):
        for one in command.commands.values():
            yield from one.params


def _shown(parameter: click.Parameter) -> str:
    if isinstance(parameter, click.Option):
        return parameter.opts[0]
    name = _NAME.search(parameter.human_readable_name)
    return name[0] if name else parameter.human_readable_name
