"""Detect when the files of a checkout may have changed.

It does not tell what has changed, because notifications may be lost: when a folder is created and
filled at once, when the kernel's queue overflows, or on a network file system, which sends none.
The caller examines the whole checkout each time, and also after a while without a notification.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from watchfiles import Change, watch

#: Time without a change after which a batch of changes is complete, milliseconds. Programs that
#: write many files pause less than this between two of them.
STEP_MS = 100
#: Longest time that a batch may take, milliseconds.
BATCH_MS = 2_000
#: Interval at which the checkout is examined without a notification, seconds: where the system
#: sends notifications, which may be lost, and where it sends none. Examining 30,000 unchanged files
#: takes about 0.2 s.
IDLE_S = 30.0
UNWATCHED_S = 5.0

_TICK_MS = 500


def changes(
    root: Path,
    *,
    idle_s: float = IDLE_S,
    unwatched_s: float = UNWATCHED_S,
    on_unwatched: Callable[[str], None] = lambda _: None,
) -> Iterator[None]:
    """Yield once at the start, then after each batch of changes and after `idle_s` without one.

    Changes that happen while the caller is busy are the next batch. Where the system refuses to
    watch the files, `on_unwatched` gets the reason, and `unwatched_s` is the interval. Raises
    KeyboardInterrupt at Ctrl-C.
    """
    try:
        yield from _notified(root, idle_s)
    except (OSError, RuntimeError) as exc:  # of the Rust library
        on_unwatched(str(exc))
    while True:
        yield
        time.sleep(unwatched_s)


def _notified(root: Path, idle_s: float) -> Iterator[None]:
    next_at = 0.0
    for batch in _batches(root):
        if any(_is_content(root, path) for _, path in batch) or time.monotonic() >= next_at:
            yield
            next_at = time.monotonic() + idle_s


def _batches(root: Path) -> Iterator[set[tuple[Change, str]]]:
    """Yield sets of changes, and an empty set after each _TICK_MS without a change.

    A permission that is missing below the root is an error, because `ignore_permission_denied`
    would ignore every error, such as a limit that is reached, and leave folders unwatched.
    """
    yield from watch(
        root,
        watch_filter=None,
        debounce=BATCH_MS,
        step=STEP_MS,
        rust_timeout=_TICK_MS,
        yield_on_timeout=True,
        ignore_permission_denied=False,
    )


def _is_content(root: Path, path: str) -> bool:
    """Return whether the path is not in a git directory, where our own commands write too."""
    return ".git" not in Path(path).relative_to(root).parts
