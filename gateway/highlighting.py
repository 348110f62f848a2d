"""Highlight code in a separate process.

Lexers are large sets of regular expressions, some of which take exponential time for some texts,
and a thread that runs one blocks all other threads of its process. The process is killed when it
takes too long, and the code is then shown without colours. It ends when the gateway ends, which
closes its standard input.

    python -m gateway.highlighting
"""

from __future__ import annotations

import asyncio
import hashlib
import html
import json
import resource
import sys
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name, get_lexer_for_filename
from pygments.token import STANDARD_TYPES, Comment, Keyword, Name, Number, String
from pygments.util import ClassNotFound

from codelode.environment import without_settings

#: Longest time for one text, seconds. 1,400 lines of Python take 0.1 s (Pygments 2.21).
LIMIT_S = 2.0
#: Longest text that is highlighted, characters.
MAX_CHARS = 200_000
#: Maximum number of characters of highlighted text that are cached.
MAX_KEPT_CHARS = 8_000_000
#: Address space of the process, bytes.
MAX_MEMORY_BYTES = 1 << 30
#: Longest message between the processes, bytes: enough for a text with a span for each character.
MAX_MESSAGE_BYTES = 64 << 20

#: The kinds of tokens that get a span. Other names, which are most of the tokens, get none.
_SHOWN = (
    *(Comment, Keyword, String, Number, Name.Attribute, Name.Builtin, Name.Class),
    *(Name.Constant, Name.Decorator, Name.Entity, Name.Exception, Name.Function, Name.Tag),
)

Lines = tuple[str, ...]
_Kind = Any  # of a token; the library has no types


@dataclass(frozen=True, slots=True)
class Code:
    """A text in a language, which its path determines if the library does not know its name."""

    text: str
    language: str
    path: str

    @property
    def key(self) -> bytes:
        """Return a hash of everything that determines the lines."""
        name = self.path.rpartition("/")[2]
        parts = json.dumps((self.text, self.language, name))
        return hashlib.sha256(parts.encode()).digest()


class Highlighter:
    """Highlights code in a process that is started for the first text."""

    def __init__(self, *, limit_s: float = LIMIT_S) -> None:
        self._limit_s = limit_s
        self._kept: OrderedDict[bytes, Lines] = OrderedDict()
        self._kept_chars = 0
        self._turn = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None

    async def lines(self, code: Code) -> Lines | None:
        """Return each line as HTML, with spans of Pygments' classes.

        Returns None if the text is too long, takes too long, or is in an unknown language.
        """
        if len(code.text) > MAX_CHARS:
            return None
        key = code.key
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        made = None
        with suppress(TimeoutError):
            made = await self._made(code)
        if made is not None:
            self._keep(key, made)
        return made

    async def close(self) -> None:
        """End the process, if there is one."""
        if (process := self._process) is None:
            return
        self._process = None
        if process.returncode is None:
            process.kill()
        await process.wait()

    async def _made(self, code: Code) -> Lines | None:
        """Ask the process. Raises TimeoutError."""
        message = json.dumps([code.text, code.language, code.path]).encode()
        async with asyncio.timeout(self._limit_s):
            await self._turn.acquire()
        try:
            process = await self._running()
            async with asyncio.timeout(self._limit_s):
                return await _asked(process, message)
        except BaseException:  # an unread answer would be taken for the next one
            await self.close()
            raise
        finally:
            self._turn.release()

    async def _running(self) -> asyncio.subprocess.Process:
        if self._process is not None and self._process.returncode is None:
            return self._process
        self._process = process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", __name__),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=without_settings(),
            limit=MAX_MESSAGE_BYTES,
        )
        assert process.stdout is not None
        await process.stdout.readline()  # printed when the library is loaded
        return process

    def _keep(self, key: bytes, made: Lines) -> None:
        self._kept_chars += _chars(made) - _chars(self._kept.pop(key, ()))
        self._kept[key] = made
        while self._kept_chars > MAX_KEPT_CHARS:
            _, dropped = self._kept.popitem(last=False)
            self._kept_chars -= _chars(dropped)


def _chars(lines: Lines) -> int:
    return sum(map(len, lines))


async def _asked(process: asyncio.subprocess.Process, message: bytes) -> Lines | None:
    """Return the answer of the process, or None if it has died."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(message + b"\n")
        await process.stdin.drain()
    said = await process.stdout.readline()
    found = json.loads(said) if said else None
    return tuple(found) if found else None


def highlighted(code: Code) -> Lines | None:
    """Return each line as HTML, or None for a text in an unknown language."""
    lexer = _lexer(code)
    if lexer is None:
        return None
    found = ((kind, value) for _, kind, value in lexer.get_tokens_unprocessed(code.text))
    lines = "".join(_spans(_joined(found))).split("\n")
    return tuple(lines) if len(lines) == code.text.count("\n") + 1 else None


def _lexer(code: Code) -> Lexer | None:
    with suppress(ClassNotFound):
        return get_lexer_by_name(code.language)
    with suppress(ClassNotFound):
        return get_lexer_for_filename(code.path.rpartition("/")[2])
    return None


def _joined(tokens: Iterable[tuple[_Kind, str]]) -> Iterator[tuple[str, str]]:
    """Yield the class and the joined text of each run of tokens of one class."""
    classes: dict[_Kind, str] = {}
    for name, group in groupby(tokens, lambda one: _class(one[0], classes)):
        yield name, "".join(value for _, value in group)


def _class(kind: _Kind, known: dict[_Kind, str]) -> str:
    """Return the class of the span for a kind of token; empty if it gets none."""
    if kind not in known:
        shown = next((one for one in _SHOWN if kind in one), None)
        known[kind] = STANDARD_TYPES[shown] if shown else ""
    return known[kind]


def _spans(tokens: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield HTML in which no span contains a line break."""
    for name, text in tokens:
        escaped = html.escape(text, quote=False)
        if not name:
            yield escaped
            continue
        yield "\n".join(
            f'<span class="{name}">{line}</span>' if line else "" for line in escaped.split("\n")
        )


def main() -> None:
    """Answer each line of the standard input until it is closed."""
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    _say("ready")
    for line in sys.stdin.buffer:
        _say(highlighted(Code(*json.loads(line))))


def _say(value: object) -> None:
    sys.stdout.write(f"{json.dumps(value)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
