"""`codelode keys create`, `list`, `revoke`: manage API keys."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from codelode.access import Role
from codelode.cli import printing
from codelode.cli.options import json_option, server_option
from codelode.errors import Busy, TimedOut, Unauthenticated

if TYPE_CHECKING:
    from codelode.client import Client, Key

_COLUMNS = ("key", "role", "repositories", "expires", "last used", "created", "by")
_UNITS_S = {"m": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400}
_TIME = re.compile(r"(\d{1,6})([mhdw])")


class Duration(click.types.StringParamType):
    """The type of a duration such as 90d, converted to seconds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = _TIME.fullmatch(str(value))
        if found is None or not int(found[1]):
            self.fail(f"{value!r} is not a time such as 12h, 90d, or 52w", param, ctx)
        return int(found[1]) * _UNITS_S[found[2]]


@click.group()
def keys() -> None:
    """Create, list, and revoke the API keys of a gateway.

    A key lets a program or a person call the gateway: as CODELODE_TOKEN for this command line and
    the Python client, otherwise as the header `authorization: Bearer KEY`. All of these commands
    require the role admin, which the token of `codelode up` has.
    """


@keys.command()
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice([role.value for role in Role]),
    default=Role.READER.value,
    show_default=True,
    help="Let the key only read, also index, or also administer.",
)
@click.option(
    "--repos",
    "repositories",
    multiple=True,
    metavar="GLOB",
    help="Let the key see only repositories whose whole name matches, for example 'payments/*'; "
    "'**' also matches '/'; repeatable. Default: no bound.",
)
@click.option(
    "--expires",
    "expires_in_s",
    type=Duration(),
    metavar="TIME",
    help="Refuse the key after this time, for example 12h, 90d, or 52w. Default: never.",
)
@json_option
@server_option
def create(
    *,
    client: Client,
    name: str,
    role: str,
    repositories: tuple[str, ...],
    expires_in_s: int | None,
    as_json: bool,
) -> None:
    """Create the API key NAME and print it; it cannot be shown again.

    The gateway stores only a hash of the key. The key gets no more rights than the caller has.

    \b
    Examples:
      codelode keys create ci --role indexer --repos 'payments/*' --expires 90d
      codelode keys create ops --role admin
    """
    created = client.create_key(
        name, role=role, repositories=repositories, expires_in_s=expires_in_s or 0
    )
    if as_json:
        click.echo(printing.to_json({"text": created.text, **asdict(created.key)}))
        return
    click.echo(created.text)
    for notice in created.notices:
        printing.note(notice)
    printing.note("keep it now: only its hash is stored, and it cannot be shown again")


@keys.command("list")
@json_option
@server_option
def list_(*, client: Client, as_json: bool) -> None:
    """List the API keys by name, without their secrets."""
    found = client.keys()
    if as_json:
        click.echo(printing.to_json([asdict(key) for key in found]))
    elif found:
        click.echo(printing.table(_COLUMNS, _rows(found)))
    else:
        printing.note("no keys yet; create one with `codelode keys create NAME`")


@keys.command()
@click.argument("name")
@server_option
def revoke(*, client: Client, name: str) -> None:
    """Revoke the API key NAME.

    No gateway accepts it any more, and its open streams end. The keys that it has created stay
    valid; the command names them.
    """
    before = _listed(client)  # in case the caller revokes its own key, and cannot list afterwards
    client.revoke_key(name)
    printing.note(f"revoked {name}")
    # Again, because the key may have created others until it was revoked.
    after = _listed(client)
    keys = before if after is None else after
    if keys is None:
        printing.complain(
            f"the gateway is too busy to list the keys that {name} has created, which stay valid: "
            "see `codelode keys list`"
        )
        return
    for key in _made_by(name, keys):
        printing.note(
            f"key {key.name} is still valid, which {key.created_by} created; to revoke it too: "
            f"`codelode keys revoke {key.name}`"
        )


def _listed(client: Client) -> tuple[Key, ...] | None:
    """Return all keys, or None if the gateway does not list them now, or not to this caller."""
    with suppress(Busy, TimedOut, Unauthenticated):
        return client.keys()
    return None


def _made_by(name: str, keys: tuple[Key, ...]) -> tuple[Key, ...]:
    """Return the valid keys that the key has created, and those that these have created."""
    makers = [name]
    for maker in makers:  # grows meanwhile
        made = (one.name for one in keys if one.created_by == f"key:{maker}")
        makers += [one for one in made if one not in makers]
    now = time.time()
    by_name = {one.name: one for one in keys if not 0 < one.expires_at <= now}
    return tuple(by_name[maker] for maker in makers[1:] if maker in by_name)


def _rows(keys: tuple[Key, ...]) -> Iterator[tuple[object, ...]]:
    for key in keys:
        bounds = " and ".join(", ".join(globs) for globs in key.bounds)
        times = [printing.moment(at) if at else "never" for at in (key.expires_at, key.used_at)]
        created = printing.moment(key.created_at)
        yield key.name, key.role, bounds or "all", *times, created, key.created_by
