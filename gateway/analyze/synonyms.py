"""Look up synonyms of the words of a query. Pure.

Each row of the table is a set of synonyms: a query with one of its words is searched for the others
too. A word is in one row only, and rows are short, because every added word finds more code that
was not meant.
"""

from __future__ import annotations

from collections.abc import Iterable

_ROWS = """
auth authentication authenticate authorization login signin credential session token
config configuration settings options preferences
db database storage persistence
delete remove erase drop
create make build construct instantiate
error exception failure fault throw catch
api endpoint route handler controller
retry backoff reattempt
cache memoize memo
parse decode deserialize unmarshal
serialize encode marshal dump
request http call fetch
thread worker concurrency parallel
log logging logger trace
test spec fixture expect assert
queue broker topic channel
user account member principal
send emit publish dispatch
validate check verify sanitize
directory folder dir
start launch boot run
"""

SETS: tuple[tuple[str, ...], ...] = tuple(tuple(row.split()) for row in _ROWS.strip().splitlines())
_ROW_OF = {word: row for row in SETS for word in row}

#: Maximum number of words added to one query. Chosen by hand.
MAX_SYNONYMS = 12


def synonyms(words: Iterable[str]) -> tuple[str, ...]:
    """Return synonyms of the words: the first of each row, then the second of each, and so on."""
    given = tuple(words)
    rows = dict.fromkeys(_ROW_OF[word] for word in given if word in _ROW_OF)
    others = [[word for word in row if word not in given] for row in rows]
    longest = max(map(len, others), default=0)
    in_turn = (row[place] for place in range(longest) for row in others if place < len(row))
    return tuple(in_turn)[:MAX_SYNONYMS]
