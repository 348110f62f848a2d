"""Lua scripts from the `.lua` files beside this module.

A file is split at lines `--- name`. The section `prelude`, and before it the files named as
`after`, are put before every other section, so functions are written once.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from typing import Any

import redis
from redis.exceptions import NoScriptError


def load(file: str, *, after: tuple[str, ...] = ()) -> dict[str, str]:
    """Script name → source, for every section of the file."""
    sections = dict(part.split("\n", 1) for part in _text(file).split("\n--- ")[1:])
    prelude = "".join((*map(_text, after), sections.pop("prelude", "")))
    return {name: prelude + body for name, body in sections.items()}


class Bulk:
    """A script that may run again with the same arguments, run many times in one round trip.

    The client library's own scripts ask the server first whether it has them, which would be a
    second one.
    """

    def __init__(self, client: redis.Redis, source: str) -> None:
        self._client = client
        self._source = source
        self._sha = client.register_script(source).sha

    def __call__(self, calls: Sequence[tuple[str, Sequence[bytes]]]) -> list[Any]:
        """The reply to each call, a key and arguments, in order."""
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


def _text(file: str) -> str:
    return resources.files(__package__).joinpath(file).read_text("utf-8")
