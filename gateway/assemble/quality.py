"""Score how informative a chunk is, to decide whether it is worth its tokens. Pure.

Tables of numbers, minified code, rows of brackets and repetitive text score low.
"""

from __future__ import annotations

from codelode import tokens

#: A chunk with fewer words says no more than its location and signature. Chosen by hand.
MIN_WORDS = 20

#: Shares of letters and of distinct words that give the full score. By hand.
LETTERS, DISTINCT = 0.5, 0.4


def quality(content: str) -> float:
    """Return the quality of a text, 0 to 1; 0 for fewer than MIN_WORDS words.

    It is the mean of the share of letters and the share of distinct words, each relative to the
    share that gives the full score.
    """
    words = [word for run in tokens.identifiers(content) for word in tokens.words(run)]
    if len(words) < MIN_WORDS:
        return 0.0
    visible = "".join(content.split())
    letters = sum(map(str.isalpha, visible)) / len(visible)
    distinct = len(set(words)) / len(words)
    return (min(1.0, letters / LETTERS) + min(1.0, distinct / DISTINCT)) / 2
