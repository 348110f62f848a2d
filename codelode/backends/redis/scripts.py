"""Load Lua scripts from the `.lua` files in this folder.

A file is split into scripts at lines `--- name`. The files listed in `after` and the section
`prelude` are prepended to every other section, so that functions are written only once.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from typing import Any

import redis
from redis.exceptions import NoScriptError


def load(file: str, *, after: tuple[str, ...] = ()) -> dict[str, str]:
    """Return the source of each script in a file, by name."""
    sections = dict(part.split("\n", 1) for part in _text(file).split("\n--- ")[1:])
    prelude = "".join((*map(_text, after), sections.pop("prelude", "")))
    return {name: prelude + body for name, body in sections.items()}


class Bulk:
    """An idempotent script that runs many times in one round trip.

    The scripts of the client library need a second round trip, in which they ask the server
    whether it has the script.
    """

    def __init__(self, client: redis.Redis, source: str) -> None:
        self._client = client
        self._source = source
        self._sha = client.register_script(source).sha

    def __call__(self, calls: Sequence[tuple[str, Sequence[bytes]]]) -> list[Any]:
        """Run the script with each key and arguments; return the replies in order."""

        try:
            return self._send(calls)
        except NoScriptError:
            self._client.script_load(self._source)
            return self._send(calls)

    def _send(self, calls: Sequence[tuple[str, Sequence[bytes]]]) -> list[Any]:
        pipe = self._client.pipeline(transaction=False)
        for key, args in calls:
            pipe.evalsha(self._sha, 1, key, *args)
        return pipe.execute()


class Snapshot:
    """Reads several keys atomically, in one round trip.

    This is a script, because a server at its memory limit refuses even transactions that only read.
    """

    def __init__(self, client: redis.Redis) -> None:
        self._script = client.register_script(_SNAPSHOT)

    def __call__(self, *commands: Sequence[str]) -> list[Any]:
        """Return the reply of each command, as the server sends it, such as flat lists of pairs.

        Each may have a few thousand arguments at most.
        """
        args: list[str | int] = []
        for command in commands:
            args += [len(command), *command]
        found: list[Any] = self._script(args=args)
        return found


#: ARGV: each command after the number of its parts -> replies
_SNAPSHOT = """
local found, i = {}, 1
while i <= #ARGV do
  local last = i + tonumber(ARGV[i])
  found[#found + 1] = redis.call(unpack(ARGV, i + 1, last))
  i = last + 1
end
return found
"""


def pairs(flat: Sequence[bytes]) -> dict[bytes, bytes]:
    """Return the fields and values of a flat list as a dictionary."""
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _text(file: str) -> str:
    return resources.files(__package__).joinpath(file).read_text("utf-8")
