"""The lock of a mirror."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from codelode.errors import Busy
from codelode.mirrors import locked

PATIENT_S = 30.0


@pytest.fixture
def mirror(tmp_path):
    made = tmp_path / "acme-app.git"
    made.mkdir()
    return made


def opened(path: Path) -> int:
    """Count the descriptors of this process for the file, even if it was unlinked."""
    held = (Path("/proc/self/fd") / name for name in os.listdir("/proc/self/fd"))
    return sum(os.path.islink(fd) and os.readlink(fd).startswith(str(path)) for fd in held)


def test_a_lock_stays_beside_its_mirror_and_goes_with_it(mirror):
    with locked(mirror, timeout_s=0.0):
        pass
    assert mirror.with_suffix(".lock").exists()

    with locked(mirror, timeout_s=0.0):
        mirror.rmdir()
    assert list(mirror.parent.iterdir()) == []


def test_a_lock_stays_after_an_error(mirror):
    mirror.rmdir()

    with pytest.raises(OSError, match="no git"), locked(mirror, timeout_s=0.0):
        raise OSError("no git")

    assert mirror.with_suffix(".lock").exists()


def test_a_waiter_whose_lock_was_removed_with_its_mirror_locks_the_new_one(
    mirror,
):
    lock = mirror.with_suffix(".lock")

    def made_again() -> None:
        with locked(mirror, timeout_s=PATIENT_S):
            mirror.mkdir()
            with pytest.raises(Busy), locked(mirror, timeout_s=0.0):
                pass

    with ThreadPoolExecutor(1) as pool:
        with locked(mirror, timeout_s=0.0):
            waiting = pool.submit(made_again)
            while opened(lock) < 2 and not waiting.done():
                time.sleep(0.01)
            mirror.rmdir()
        waiting.result(PATIENT_S)

    assert lock.exists()
