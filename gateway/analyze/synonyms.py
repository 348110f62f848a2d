"""Words that mean the same to who searches code. Pure; the table is the whole of it.

Each row is a set: a query with one of its words is searched for the others too. A word may stand in
one row only, and rows are short, because every word that is added finds more of what was not meant.
"""

from __future__ import annotations

from collections.abc import Iterable

_ROWS = """
auth authentication authenticate authorization login signin credential
config configuration settings options preferences
db database storage persistence
delete remove erase drop
create make build construct instantiate
error exception failure fault
retry backoff reattempt
cache memoize memo
parse decode deserialize unmarshal
serialize encode marshal dump
request http call fetch
thread worker concurrency parallel
log logging logger trace
test spec fixture
queue broker topic channel
user account member principal
send emit publish dispatch
validate check verify sanitize
directory folder dir
start launch boot run
"""

SETS: tuple[tuple[str, ...], ...] = tuple(tuple(row.split()) for row in _ROWS.strip().splitlines())
_ROW_OF = {word: row for row in SETS for word in row}

#: Words added to one query; more would be a query of their own.
MAX_SYNONYMS = 12


def synonyms(words: Iterable[str]) -> tuple[str, ...]:
    """`("retry", "login")` → the other words of both rows, one of each row in turn."""
    given = tuple(words)
    rows = dict.fromkeys(_ROW_OF[word] for word in given if word in _ROW_OF)
    others = [[word for word in row if word not in given] for row in rows]
    longest = max(map(len, others), default=0)
    in_turn = (row[place] for place in range(longest) for row in others if place < len(row))
    return tuple(in_turn)[:MAX_SYNONYMS]
