"""The argument of the commands that search: a query or a pattern, which may begin with `-`."""

from __future__ import annotations

import re

import click

#: Beginnings of exclusions in a query, such as `-lang:go` and `-"deprecated"`. No useful option
#: begins like that: `-lang:go` read as `-l ang:go` would name a language that does not exist.
_EXCLUDES = re.compile(r'-(?:(?:repo(?:sitory)?|lang(?:uage)?|path|file):|["/(])')


class QueryCommand(click.Command):
    """A command whose query may begin with an exclusion, such as `-lang:go`.

    For other arguments that begin with `-`, the error says to put `--` before them.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, _in_order(args))
        except click.NoSuchOption as exc:
            if exc.possibilities and " " not in exc.option_name:
                raise
            hint = f"put -- before a {self.params[0].human_readable_name} that begins with -"
            raise click.UsageError(f"{exc.message} To search for it, {hint}.", ctx) from exc


def _in_order(args: list[str]) -> list[str]:
    """Move exclusions to the end, after `--`, so that they are not read as options."""
    if "--" in args:
        return args
    queries = [one for one in args if _EXCLUDES.match(one)]
    return [*(one for one in args if one not in queries), "--", *queries] if queries else args
