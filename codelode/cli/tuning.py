"""`--set STAGE.NAME=VALUE`: every option of a search by the name that the API has for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TypeVar

import click

#: Options by stage and name, as the client takes them.
Chosen = dict[str, dict[str, object]]

Command = TypeVar("Command", bound=Callable[..., object])


def set_option(command: Command) -> Command:
    """Adds `--set`, which reaches the command as `tuned`."""
    return click.option(
        "--set",
        "tuned",
        multiple=True,
        metavar="STAGE.NAME=VALUE",
        callback=_read,
        help="Any option of the API: rank.reranker=judge, analyze.rewrite=true, "
        "expand.after_lines=5, rank.confidence=0.3. Wins over the preset and other options.",
    )(command)


def merged(chosen: Chosen, tuned: Chosen) -> Chosen:
    """Both together; what `tuned` has wins."""
    stages = dict.fromkeys((*chosen, *tuned))
    return {stage: {**chosen.get(stage, {}), **tuned.get(stage, {})} for stage in stages}


def _read(_context: click.Context, _option: click.Parameter, given: Sequence[str]) -> Chosen:
    tuned: Chosen = {}
    for one in given:
        name, equals, value = one.partition("=")
        stage, dot, option = name.strip().partition(".")
        if not (equals and dot and stage and option):
            raise click.BadParameter(f"{one!r} is no STAGE.NAME=VALUE, as rank.reranker=judge")
        tuned.setdefault(stage, {})[option] = _value(value.strip())
    return tuned


def _value(text: str) -> object:
    """`true` and `0.5` are what they look like, everything else is text."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, bool | int | float) else text
