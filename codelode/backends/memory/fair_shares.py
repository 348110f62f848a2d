"""The shares of the stages' time that runs get, in one process: a part of the in-memory ledger.

`codelode.ledger` explains the rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from codelode.ledger import AHEAD_MS, BULK_DEBT_MS, BULK_SHARE, SAVED_MS
from codelode.model import RunId

#: The runs that have files at a stage, by whether they are bulk.
Kinds: TypeAlias = Mapping[bool, Sequence[RunId]]


class FairShares:
    """Counts the time that runs have used at each stage, and decides whose turn it is."""

    def __init__(self) -> None:
        self._spent: dict[tuple[RunId, str], float] = {}  # ms by active run and stage
        self._turns: dict[tuple[str, bool], float] = {}  # ms by stage and is_bulk
        self._owed: dict[str, float] = {}  # ms that a stage owes bulk runs

    def come(self, run: RunId, stage: str, *, is_bulk: bool) -> float:
        """Return the time counted for a run at a stage where it has files, milliseconds.

        A run that is new at the stage starts at the time of the run that last began files there.
        """
        return self._spent.setdefault((run, stage), self._turns.get((stage, is_bulk), 0.0))

    def takes_turn(
        self, run: RunId, stage: str, kinds: Kinds, *, is_bulk: bool, yields: bool
    ) -> bool:
        """Return whether the run may begin files at the stage now, and note that it does."""
        mine = self.come(run, stage, is_bulk=is_bulk)
        earliest = self._turns.get((stage, is_bulk), 0.0) - SAVED_MS
        if yields and is_bulk and False in kinds and not self.owes(stage):
            return False
        alike = [self.come(one, stage, is_bulk=is_bulk) for one in kinds.get(is_bulk, ())]
        if yields and alike and mine - max(min(alike), earliest) > AHEAD_MS:
            return False
        if is_bulk and False not in kinds:
            self._owed[stage] = -AHEAD_MS
        self._turns[stage, is_bulk] = self._spent[run, stage] = max(mine, earliest)
        return True

    def owes(self, stage: str) -> bool:
        """Return whether the stage owes time to bulk runs."""
        return self._owed_ms(stage) > 0

    def charge(
        self, run: RunId, stage: str, took_ms: float, *, weight: int, is_bulk: bool, is_shared: bool
    ) -> None:
        """Count the time that a run used at a stage. `is_shared`: both kinds have files there."""
        spent = self.come(run, stage, is_bulk=is_bulk)
        self._spent[run, stage] = spent + took_ms / weight
        if is_shared:
            owed = self._owed_ms(stage) + (-took_ms if is_bulk else took_ms / BULK_SHARE)
            self._owed[stage] = max(-BULK_DEBT_MS, min(AHEAD_MS, owed))

    def forget(self, run: RunId) -> None:
        self._spent = {key: ms for key, ms in self._spent.items() if key[0] != run}

    def _owed_ms(self, stage: str) -> float:
        return self._owed.get(stage, -AHEAD_MS)
