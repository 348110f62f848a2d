"""Disks that fail under a running server, by what the kernel does, and get well again.

It takes an administrator to do that to a disk. Tests skip on a machine that lets nobody.
"""

from __future__ import annotations

import errno
import os
import subprocess
from contextlib import contextmanager
from tempfile import TemporaryDirectory

import pytest

#: Of a small disk: many times what an index of the tests takes, and soon full.
SMALL_BYTES = 256 * 2**20

BLOCK_BYTES = 2**20


@contextmanager
def read_only(folder):
    """Nothing below it can be written, by root neither, nor by who has a file open.

    Without root the latter can go on.
    """
    program, lock, unlock = ("chattr", "+i", "-i") if is_root() else ("chmod", "a-w", "u+w")

    def change(flag):
        files = ("(", "-type", "f", "-o", "-type", "d", ")")  # a link has no such flag
        subprocess.run(["find", folder, *files, "-exec", program, flag, "{}", "+"], check=True)

    with TemporaryDirectory(dir=folder.parent) as probe:
        run_or_skip("makes no folder read-only", program, lock, probe)
        subprocess.run([program, unlock, probe], check=True)
    try:
        change(lock)
        yield
    finally:
        change(unlock)


@contextmanager
def small_disk(folder):
    """A file system of its own, SMALL_BYTES large, stands at the folder."""
    size = f"size={SMALL_BYTES}"
    run_or_skip("mounts no disk", "mount", "-t", "tmpfs", "-o", size, "tmpfs", folder)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@contextmanager
def full(folder):
    """The small disk at the folder has no byte left."""
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
            assert exc.errno == errno.ENOSPC  # noqa: PT017 - what it fails of is the condition
            size //= 2


def is_root():
    return os.getuid() == 0


def run_or_skip(refusal, *command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"this machine {refusal} for a test: {done.stderr.strip()}")
