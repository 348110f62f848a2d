"""Encode distinct texts as numbers, and find which of them match a pattern.

A pattern is matched against each distinct text once: results are cached, and later only texts that
were added since are matched. The literal parts of a pattern are first searched for in all texts at
once, joined by line breaks. For a million paths, this takes an eighth of the time of matching each.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from codelode import deadline

#: Maximum number of patterns whose results are cached. A result takes one byte per text.
MAX_PATTERNS = 64

#: Number of texts matched between two checks of the deadline, which takes a few milliseconds.
TEXTS_PER_CHECK = 1_000

#: Texts that are not joined yet are matched one by one. All are joined again when those are more
#: than this number and more than this fraction of all texts.
MIN_JOINED = 2_000
JOINED_SHARE = 1 / 8

#: If more than this fraction of the texts have the needle, all are matched one by one.
MAX_SHARE = 1 / 4

Codes = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]

#: Returns, for a pattern, a predicate that tells whether a text matches it.
Matcher = Callable[[str], Callable[[str], bool]]


class Dictionary:
    """A growing list of distinct texts. One thread adds at a time, any number read.

    `needles` returns, for a pattern, texts that occur in every text that it matches, where each
    text has a line break before and after it.
    """

    def __init__(
        self,
        matcher: Matcher = lambda pattern: pattern.__eq__,
        needles: Callable[[str], Sequence[str]] = lambda _: (),
    ) -> None:
        self._matcher = matcher
        self._needles = needles
        self._codes: dict[str, int] = {}
        self._texts: list[str] = []
        self._joined = _Joined(b"", np.zeros(0, np.int64))
        self._masks: OrderedDict[str, Mask] = OrderedDict()
        self._lock = threading.Lock()

    def encode(self, texts: Sequence[str]) -> Codes:
        """Return the code of each text; new texts are added."""
        return np.fromiter(map(self._code, texts), np.int32, len(texts))

    def texts(self, codes: npt.NDArray[np.integer]) -> list[str]:
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

    def code(self, text: str) -> int | None:
        """Return the code of the text; None if it is not known."""
        return self._codes.get(text)

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
        known = len(self._texts)
        if len(mask) < known:
            mask = np.concatenate([mask, self._matched(pattern, len(mask), known)])
        with self._lock:
            self._masks[pattern] = mask
            if len(self._masks) > MAX_PATTERNS:
                self._masks.popitem(last=False)
        return mask

    def _matched(self, pattern: str, first: int, known: int) -> Mask:
        """Return for each text from the first one on whether it matches the pattern."""
        numbers: Sequence[int] = range(first, known)
        needles = self._needles(pattern)
        if needles and (joined := self._join(first, known)):
            tail = np.arange(max(first, len(joined.starts)), known)
            held = joined.holding(needles, first)
            if held is not None:  # another thread may have joined more
                numbers = np.concatenate([held[held < known], tail]).tolist()
        mask = np.zeros(known - first, np.bool_)
        mask[np.fromiter(self._matches(pattern, numbers), np.int64) - first] = True
        return mask

    def _matches(self, pattern: str, numbers: Sequence[int]) -> Iterator[int]:
        """Yield the numbers of the texts that match. Raises TimedOut after the call's deadline."""
        deadline.check()
        matches, texts = self._matcher(pattern), self._texts
        for start in range(0, len(numbers), TEXTS_PER_CHECK):
            deadline.check()
            for number in numbers[start : start + TEXTS_PER_CHECK]:
                if matches(texts[number]):
                    yield number

    def _join(self, first: int, known: int) -> _Joined | None:
        """Return most texts, joined; None: matching those from `first` on one by one is faster."""
        joined = self._joined
        if known - max(first, len(joined.starts)) > max(MIN_JOINED, JOINED_SHARE * known):
            joined = self._joined = _join(self._texts[:known])
        return joined if first < len(joined.starts) else None

    def _code(self, text: str) -> int:
        code = self._codes.get(text)
        if code is None:
            code = len(self._texts)
            self._texts.append(text)
            self._codes[text] = code
        return code


class _Joined(NamedTuple):
    """Joined texts, with a line break before and after each.

    In UTF-8, because a single character beyond Latin-1 would double the size of a `str`.
    """

    whole: bytes
    starts: npt.NDArray[np.int64]  # positions of the line breaks before the texts

    def holding(self, needles: Sequence[str], first: int) -> npt.NDArray[np.int64] | None:
        """Return the numbers of the texts from `first` on that have the rarest needle.

        None: so many have it that this saves nothing.
        """
        start = int(self.starts[first])
        needle, *others = map(_encoded, needles)
        if others:  # counting takes as long as finding
            needle = min((needle, *others), key=lambda one: self.whole.count(one, start))
        # Two texts share the line break between them.
        expression = re.escape(needle.removesuffix(b"\n")) + b"(?=\n)" * needle.endswith(b"\n")
        found = re.compile(expression).finditer(self.whole, start)
        at = np.fromiter((one.start() for one in found), np.int64)
        if len(at) > MAX_SHARE * (len(self.starts) - first):
            return None
        return np.unique(np.searchsorted(self.starts, at, side="right") - 1)


def _join(texts: Sequence[str]) -> _Joined:
    encoded = list(map(_encoded, texts))
    lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
    return _Joined(b"\n".join((b"", *encoded, b"")), np.cumsum(lengths + 1) - lengths - 1)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
