"""Read the objects of a mirror with a long-lived `git cat-file --batch`.

Reading a blob takes 0.1 ms, compared with 2 ms if a process is started for each. Git ends when the
process that started it ends in any way, because that closes git's input, which no other process
inherits.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from typing import Self

from codelode.errors import Unavailable
from workers.pull import git

#: Size of the blocks in which the rest of a large file is read and discarded, bytes.
_BLOCK_BYTES = 1 << 20


class Objects:
    """A reader of one mirror's objects. Safe to share between threads, not between processes."""

    def __init__(self, mirror: Path) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            git.bounded("--git-dir", str(mirror), "cat-file", "--batch"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=git.environment(),
            start_new_session=True,
        )
        _open.add(self)

    def read(self, name: str, *, max_bytes: int = sys.maxsize) -> bytes | None:
        """Return the content of a file, by blob id or as `revision:path`; None if there is none.

        Returns the first `max_bytes` of a larger file. Raises Unavailable if git has ended; the
        reader cannot be used any more.
        """
        kind, content = self._ask(name, max_bytes)
        return content if kind == b"blob" else None

    def has_commit(self, revision: str) -> bool:
        """Return whether the mirror still has the commit. Raises as `read` does."""
        return self._ask(revision)[0] == b"commit"

    def close(self) -> None:
        """End git after the current read."""
        with self._lock:
            self._process.kill()
            self._process.wait()
            self._close_pipes()

    def abandon(self) -> None:
        """Release a process that belongs to the parent of this forked process.

        Takes no lock: the thread that held it does not exist here.
        """
        self._close_pipes()
        self._process.returncode = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _close_pipes(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _ask(self, name: str, max_bytes: int = sys.maxsize) -> tuple[bytes, bytes]:
        """Return the kind and content of an object; the kind is empty if there is none."""
        if "\n" in name:
            return b"", b""
        try:
            with self._lock:
                return self._exchange(name.encode(), max_bytes)
        except (OSError, ValueError) as exc:
            raise Unavailable(f"git stopped reading objects: {exc}") from exc

    def _exchange(self, name: bytes, max_bytes: int) -> tuple[bytes, bytes]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        # Unbuffered, because a process forked now would write the buffer a second time.
        os.write(stdin.fileno(), name + b"\n")
        header = stdout.readline()
        if not header:
            raise OSError("it ended")
        *_, kind, size = header.split()
        if not size.isdigit():  # `NAME missing`, or `NAME ambiguous`
            return b"", b""
        content = stdout.read(min(int(size), max_bytes))
        left = int(size) + 1 - len(content)  # with the newline after it
        while left and (block := stdout.read(min(left, _BLOCK_BYTES))):
            left -= len(block)
        if left:
            raise OSError(f"{int(size) + 1 - left} of {int(size)} bytes came")
        return kind, content


_open: weakref.WeakSet[Objects] = weakref.WeakSet()


def _abandon_all() -> None:
    for objects in tuple(_open):
        objects.abandon()
    _open.clear()


def _close_all() -> None:
    for objects in tuple(_open):
        objects.close()


os.register_at_fork(after_in_child=_abandon_all)
atexit.register(_close_all)
