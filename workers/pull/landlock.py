"""Run programs that can read only below some folders, wherever links lead while they run.

Linux checks each file at the moment when it is opened, after all links were followed, so a link
that is changed in between gains nothing: https://docs.kernel.org/userspace-api/landlock.html.
Python's standard library has no interface to it.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar, TypeVar

#: The numbers of the system calls are the same on all processors.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION, _PATH_BENEATH = 1, 1
_NO_NEW_PRIVILEGES = 38
#: The first version that can allow links and renames between folders, as git needs them.
_LEAST_VERSION = 2

_READ_FILE, _READ_FOLDER, _LINK_BETWEEN_FOLDERS = 1 << 2, 1 << 3, 1 << 13
_RIGHTS = _READ_FILE | _READ_FOLDER | _LINK_BETWEEN_FOLDERS

T = TypeVar("T")


class _Ruleset(ctypes.Structure):
    _fields_: ClassVar = [("handled", ctypes.c_uint64)]


class _Rule(ctypes.Structure):
    _pack_ = 1
    _fields_: ClassVar = [("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32)]


def is_available() -> bool:
    """Return whether the kernel can restrict reading in a way with which git works."""
    if sys.platform != "linux":
        return False
    try:
        return _call(_CREATE_RULESET, None, 0, _ASK_VERSION) >= _LEAST_VERSION
    except OSError:
        return False


def started(start: Callable[[], T], readable: Iterable[Path]) -> T:
    """Call `start` so that programs it starts can read only these files and folders.

    Returns its result. It is called in a separate thread, because the restriction of a thread
    cannot be removed. Paths that do not exist are ignored. Writing is not restricted. Raises
    OSError if the kernel refuses.
    """
    with ThreadPoolExecutor(max_workers=1) as thread:
        thread.submit(_restrict, readable).result()
        return thread.submit(start).result()


def _restrict(readable: Iterable[Path]) -> None:
    """Restrict the calling thread, and all threads and processes that it starts from now on."""
    rules = _Ruleset(_RIGHTS)
    ruleset = _call(_CREATE_RULESET, ctypes.byref(rules), ctypes.sizeof(rules), 0)
    try:
        for path in readable:
            _allow(ruleset, path)
        if _libc().prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl failed")
        _call(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: Path) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        rule = _Rule(_RIGHTS if path.is_dir() else _READ_FILE, opened)
        _call(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(opened)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _call(number: int, *arguments: object) -> int:
    """Make a system call. Raises OSError."""
    result: int = _libc().syscall(number, *arguments)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result
