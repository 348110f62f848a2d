"""Read a YAML file of an operator again when it changes; keep its last good version in force."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import structlog

from codelode import declarations
from codelode.errors import CodelodeError, InvalidSettings

#: Interval at which a gateway looks for changes even if it gets no calls, seconds.
FOLLOW_INTERVAL_S = 1.0

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

log = structlog.get_logger("gateway")


class Parse(Protocol[T_co]):
    """Parses a text. Raises InvalidSettings with the line of the error."""

    def __call__(self, content: str, /, *, file: str) -> T_co: ...


class FollowedFile(Generic[T]):
    """A file that is read whenever its value is requested, and parsed if its text has changed.

    A version that cannot be used is logged once, and the last good one stays in force, or `empty`
    if there was none. An empty path means that there is no file.
    """

    def __init__(self, path: str, *, what: str, parse: Parse[T], empty: T) -> None:
        self.path = Path(path).expanduser() if path else None
        self._what = what
        self._parse = parse
        self._lock = threading.Lock()
        self._good = empty
        self._text: str | None = None  # the text that was parsed last
        self._wrong = ""  # why that text cannot be used
        self._problem = ""  # why the file cannot be used now

    def current(self) -> T:
        """Return the value in force. Blocks."""
        with self._lock:
            self._follow()
            return self._good

    def problem(self) -> str:
        """Return why the file cannot be used now; empty if it can. Blocks."""
        with self._lock:
            self._follow()
            return self._problem

    def problems(self) -> tuple[str, ...]:
        """Return why the file cannot be used now, for admins; nothing if it can. Blocks."""
        problem = self.problem()
        return (f"{problem}; its last good version stays in force",) if problem else ()

    async def follow(self, tell: Callable[[T], None] = lambda _: None) -> None:
        """Read the file at intervals, so that errors in it are logged soon.

        Calls `tell` with the value in force, at the beginning and after each change. If `tell`
        raises a CodelodeError, logs it unless it equals the last one, and calls `tell` again.
        """
        told: T | None = None
        refused = ""
        while self.path or told is None:
            value = await asyncio.to_thread(self.current)
            if value is not told:
                try:
                    await asyncio.to_thread(tell, value)
                    told, refused = value, ""
                except CodelodeError as exc:
                    if str(exc) != refused:
                        refused = str(exc)
                        log.warning(
                            self._event("not_applied"), file=str(self.path or ""), reason=refused
                        )
            await asyncio.sleep(FOLLOW_INTERVAL_S)

    def require(self) -> None:
        """Raise InvalidSettings if the file cannot be used now."""
        if problem := self.problem():
            raise InvalidSettings(problem)

    def _follow(self) -> None:
        if self.path is None:
            return
        try:
            text = declarations.read_text(self.path, what=self._what)
        except InvalidSettings as exc:
            problem = str(exc)
        else:
            problem = self._wrong if text == self._text else self._parsed(text, str(self.path))
        if problem and problem != self._problem:
            log.error(self._event("rejected"), file=str(self.path), error=problem)
        self._problem = problem

    def _parsed(self, text: str, file: str) -> str:
        """Parse a new text and put it in force; return why it cannot be used, empty if it can."""
        is_first, self._text = self._text is None, text
        try:
            self._good, self._wrong = self._parse(text, file=file), ""
        except InvalidSettings as exc:
            self._wrong = str(exc)
        except Exception as exc:  # a bug in the parser must not end `follow`
            log.exception(self._event("unreadable"), file=file)
            self._wrong = f"{file}: cannot be read: {exc!r}"
        if not self._wrong and not is_first:
            log.info(self._event("followed"), file=file)
        return self._wrong

    def _event(self, outcome: str) -> str:
        return f"{self._what.replace(' ', '_')}_{outcome}"
