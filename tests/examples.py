"""Choose how many examples property tests try: all in `make test`, fewer in a short run.

`make test-unit` sets SHORT_TESTS.
"""

from __future__ import annotations

import os

_IS_SHORT = bool(os.environ.get("SHORT_TESTS"))


def examples(number: int, *, short: int) -> int:
    """Return `short` in a short run, else `number`."""
    return short if _IS_SHORT else number
