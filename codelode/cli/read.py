"""`codelode read`: print an indexed file."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from codelode.cli import printing, terminal
from codelode.cli.options import json_option, ref_option, repository_option, server_option
from codelode.display import plain, quoted

if TYPE_CHECKING:
    from codelode.client import Client, FileLines

_PLACE = re.compile(r"(?P<path>.+?)(?::(?P<start>[0-9]{1,9})(?:-(?P<end>[0-9]{1,9}))?)?", re.DOTALL)


@click.command()
@click.argument("place", metavar="PATH[:FIRST[-LAST]]")
@repository_option("Read the file of this repository. Default: the only one that is indexed.")
@ref_option
@json_option
@server_option
def read(*, client: Client, place: str, repository: str, ref: str, as_json: bool) -> None:
    """Print an indexed file, or lines of it, such as PATH:10-20.

    \b
    Examples:
      codelode read src/http/client.py --repo acme/http
      codelode read src/http/client.py:10-40 --ref v2
      codelode read src/http/client.py --json | jq -r .content
    """
    path, start, end = _place(place)
    found = client.read(path, repository=repository, ref=ref, start_line=start, end_line=end)
    if as_json:
        click.echo(printing.to_json(asdict(found)))
        return
    terminal.show("\n".join(map(plain, found.content.split("\n"))))
    printing.note(_summary(found))


def _place(text: str) -> tuple[str, int, int]:
    """Return the path, the first line, and the last line; 0: not given."""
    found = _PLACE.fullmatch(text)
    if found is None:
        raise click.BadParameter(f"{text!r} is not a path, for example src/a.py or src/a.py:10-20")
    path, start, end = found["path"], found["start"], found["end"]
    if start is not None and not int(start):
        raise click.BadParameter(f"{text!r} begins at line 0, but lines are counted from 1")
    return path, int(start or 0), int(end or start or 0)


def _summary(found: FileLines) -> str:
    """Return `acme/http src/a.py at 1f2e3d4: lines 1-20 of 80`."""
    at = f" at {found.revision[:7]}" if found.revision else ""
    lines = f"lines {found.start_line}-{found.end_line} of {found.line_count}"
    more = f"; the rest: {quoted(found.path)}:{found.end_line + 1}-{found.line_count}"
    return f"{found.repository} {quoted(found.path)}{at}: {lines}{more if found.truncated else ''}"
