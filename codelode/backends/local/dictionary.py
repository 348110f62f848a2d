"""Dictionary encoding: distinct texts as numbers, and which of them match a pattern.

A pattern is matched against each distinct text once: results are cached, and later only texts that
were added since are matched. Where a pattern is equivalent to a text between line breaks, that is
searched in all texts at once.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from codelode import deadline

#: Patterns whose results are cached, at one byte per text each.
MAX_PATTERNS = 64

#: Texts that are matched between two checks of the deadline, which take a few milliseconds.
TEXTS_PER_CHECK = 1_000

Codes = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]

#: From a pattern to a test whether a text matches it.
Matcher = Callable[[str], Callable[[str], bool]]


class Dictionary:
    """A growing list of distinct texts. One thread adds at a time, any number read.

    `needle` returns for a pattern what exactly the texts that it matches contain, with a line break
    before and after each text; None: there is no such text.
    """

    def __init__(
        self,
        matcher: Matcher = lambda pattern: pattern.__eq__,
        needle: Callable[[str], str | None] = lambda _: None,
    ) -> None:
        self._matcher = matcher
        self._needle = needle
        self._codes: dict[str, int] = {}
        self._texts: list[str] = []
        self._joined = _Joined("", [])
        self._masks: OrderedDict[str, Mask] = OrderedDict()
        self._lock = threading.Lock()

    def encode(self, texts: Sequence[str]) -> Codes:
        """Return the code of each text; new texts are added."""
        return np.fromiter(map(self._code, texts), np.int32, len(texts))

    def texts(self, codes: Codes) -> list[str]:
        return list(map(self._texts.__getitem__, codes.tolist()))

    def among(self, texts: Iterable[str]) -> Mask:
        """Return for each code whether its text is one of these."""
        codes = self.codes(texts)  # first: another thread may add texts
        mask = np.zeros(len(self._texts), np.bool_)
        mask[codes] = True
        return mask

    def codes(self, texts: Iterable[str]) -> list[int]:
        """Return the codes of the texts that are known."""
        return [self._codes[text] for text in texts if text in self._codes]

    def matching(self, patterns: Iterable[str]) -> Mask:
        """Return for each code whether its text matches one of the patterns."""
        known = len(self._texts)
        masks = [self._results(pattern)[:known] for pattern in patterns]
        mask: Mask = np.logical_or.reduce(masks)
        return mask

    def _results(self, pattern: str) -> Mask:
        with self._lock:
            mask = self._masks.pop(pattern, np.zeros(0, np.bool_))
        # Matched without the lock, so that a search with slow patterns delays no other search.
        if texts := self._texts[len(mask) :]:
            needle = self._needle(pattern)
            if needle is None:
                matched = np.fromiter(self._matches(pattern, texts), np.bool_, len(texts))
            else:
                matched = self._holding(needle, len(mask), len(texts))
            mask = np.concatenate([mask, matched])
        with self._lock:
            self._masks[pattern] = mask
            if len(self._masks) > MAX_PATTERNS:
                self._masks.popitem(last=False)
        return mask

    def _matches(self, pattern: str, texts: Sequence[str]) -> Iterator[bool]:
        """Yield for each text whether it matches. Raises TimedOut after the call's deadline."""
        deadline.check()
        matches = self._matcher(pattern)
        for start in range(0, len(texts), TEXTS_PER_CHECK):
            deadline.check()
            yield from map(matches, texts[start : start + TEXTS_PER_CHECK])

    def _holding(self, needle: str, first: int, count: int) -> Mask:
        """Return for so many texts, from the first on, whether they contain the needle."""
        deadline.check()
        joined = self._joined
        if len(joined.starts) < first + count:
            joined = self._joined = _join(self._texts[: first + count])
        mask = np.zeros(len(joined.starts), np.bool_)
        mask[list(joined.holding(needle, first))] = True
        return mask[first : first + count]

    def _code(self, text: str) -> int:
        code = self._codes.get(text)
        if code is None:
            code = len(self._texts)
            self._texts.append(text)
            self._codes[text] = code
        return code


class _Joined(NamedTuple):
    """Texts in one, with a line break before and after each."""

    whole: str
    starts: list[int]  # of each text in the whole, those of the line breaks before them

    def holding(self, needle: str, first: int) -> Iterator[int]:
        """Yield the numbers of the texts with the needle, from the first text on."""
        whole, starts = self
        find, last = whole.find, len(starts) - 1
        at = find(needle, starts[first])
        while at >= 0:
            number = bisect_right(starts, at) - 1
            yield number
            at = find(needle, starts[number + 1]) if number < last else -1


def _join(texts: Sequence[str]) -> _Joined:
    starts = list(accumulate((len(text) + 1 for text in texts[:-1]), initial=0))
    return _Joined("\n".join(("", *texts, "")), starts)
