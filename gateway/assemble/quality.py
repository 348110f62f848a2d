"""Score whether a chunk is worth the tokens of a context. Pure.

Tables of numbers, minified code, rows of brackets and repetitive text score low.
"""

from __future__ import annotations

from codelode import tokens

#: Fewer words tell no more than the location and the signature. By hand.
MIN_WORDS = 20

#: Shares of letters and of distinct words that give the full score. By hand.
LETTERS, DISTINCT = 0.5, 0.4


def quality(content: str) -> float:
    """Return the mean of both shares relative to the full ones, 0 to 1; 0 below MIN_WORDS."""
    words = [word for run in tokens.identifiers(content) for word in tokens.words(run)]
    if len(words) < MIN_WORDS:
        return 0.0
    visible = "".join(content.split())
    letters = sum(map(str.isalpha, visible)) / len(visible)
    distinct = len(set(words)) / len(words)
    return (min(1.0, letters / LETTERS) + min(1.0, distinct / DISTINCT)) / 2
