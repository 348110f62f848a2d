"""Whether a chunk says enough to spend tokens on. Pure.

Tables of numbers, minified code and rows of brackets score low; so does what repeats itself.
"""

from __future__ import annotations

from codelode import tokens

#: Fewer words say nothing that the place and the signature do not.
MIN_WORDS = 20

#: Shares of letters and of distinct words from which on text counts as whole.
LETTERS, DISTINCT = 0.5, 0.4


def quality(content: str) -> float:
    """0 to 1: the mean of how much of it is letters and how little repeats; 0 below MIN_WORDS."""
    words = [word for run in tokens.identifiers(content) for word in tokens.words(run)]
    if len(words) < MIN_WORDS:
        return 0.0
    visible = "".join(content.split())
    letters = sum(map(str.isalpha, visible)) / len(visible)
    distinct = len(set(words)) / len(words)
    return (min(1.0, letters / LETTERS) + min(1.0, distinct / DISTINCT)) / 2
