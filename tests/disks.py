"""Make disks read-only or full under a running server, by means of the kernel, and undo it.

Most of it needs root. Tests are skipped on a machine that does not allow it.
"""

from __future__ import annotations

import errno
import os
import subprocess
from contextlib import contextmanager
from tempfile import TemporaryDirectory

import pytest

#: Size of a small disk: many times the size of an index of the tests, but quickly filled.
SMALL_BYTES = 256 * 2**20

BLOCK_BYTES = 2**20


@contextmanager
def read_only(folder):
    """Make everything below the folder read-only, also for root and for files that are open.

    Without root, files that are open stay writable.
    """
    program, lock, unlock = ("chattr", "+i", "-i") if is_root() else ("chmod", "a-w", "u+w")

    def change(flag):
        files = ("(", "-type", "f", "-o", "-type", "d", ")")  # links have no such flag
        subprocess.run(["find", folder, *files, "-exec", program, flag, "{}", "+"], check=True)

    with TemporaryDirectory(dir=folder.parent) as probe:
        run_or_skip("cannot make a folder read-only", program, lock, probe)
        subprocess.run([program, unlock, probe], check=True)
    try:
        change(lock)
        yield
    finally:
        change(unlock)


@contextmanager
def small_disk(folder):
    """Mount a file system of SMALL_BYTES at the folder."""
    size = f"size={SMALL_BYTES}"
    run_or_skip("cannot mount a disk", "mount", "-t", "tmpfs", "-o", size, "tmpfs", folder)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@contextmanager
def full(folder):
    """Fill the small disk at the folder to the last byte."""
    ballast = folder / "ballast"
    try:
        with ballast.open("wb", buffering=0) as file:
            fill(file)
        yield
    finally:
        ballast.unlink()


def fill(file):
    size = BLOCK_BYTES
    while size:
        try:
            file.write(bytes(size))
        except OSError as exc:
            assert exc.errno == errno.ENOSPC  # noqa: PT017 - any other error is a failure
            size //= 2


def is_root():
    return os.getuid() == 0


def run_or_skip(refusal, *command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"this machine {refusal}: {done.stderr.strip()}")
