"""How often a long-lived process looks for cyclic garbage.

Python's collector walks everything a process holds again and again: hundreds of thousands of
objects of imported packages, loaded tables and kept chunks, none of which is ever garbage. In a
gateway with 120,000 chunks that took a tenth of the time of all searches, and one search in fifty
waited 80 ms for it. What is there when a process is ready is therefore left out of these walks,
and the walks are made rarer. Cycles are still found, only later.
"""

from __future__ import annotations

import gc

#: New objects until the youngest are looked at, times of that until the next, and once more.
THRESHOLDS = (20_000, 20, 50)


def settle() -> None:
    """To be called once, when all that stays has been loaded."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
