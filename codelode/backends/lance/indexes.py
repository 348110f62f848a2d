"""The indexes of the table: which there are, when they are built, how.

The library merges new rows into a full-text index by writing all of it anew: 17 s of processor
time and 1.2 GB for 400 rows beside 60,000. Building costs 15 s and less than half of that, so
that is what happens, when enough has gathered; until then searches scan the rest (13 ms per
1,000 rows). Stable row ids let compaction leave the indexes alone.
"""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from lancedb.index import FTS, Bitmap, BTree, IvfSq, LabelList

#: Once writing has paused for QUIET_S, the indexes are built for QUIET_ROWS (3 ms per search)
#: or a twentieth of the table, whichever is less.
QUIET_S = 3.0
QUIET_ROWS = 256
QUIET_SHARE = 1 / 20

#: While writing goes on, they are built when the table has doubled, and not for less than
#: BUSY_ROWS: all builds of a bulk load together cost about twice the last one.
BUSY_ROWS = 8_000
BUSY_SHARE = 1.0

#: Versions younger than this stay on disk for readers in the middle of a query.
KEEP_VERSIONS = timedelta(minutes=5)

#: Below this many vectors a scan is as fast as an index.
MIN_VECTORS = 5_000

#: Searches look into every partition of all but huge vector indexes: the index is a scan over
#: 8-bit vectors, whose recall does not depend on how the vectors cluster.
PARTITION_ROWS = 4_096

_FULL_TEXT = ("name_terms", "terms")

#: Terms are indexed as `tokens.terms` made them.
_AS_THEY_ARE: dict[str, Any] = {
    "base_tokenizer": "whitespace",
    "max_token_length": None,
    "lower_case": False,
    "stem": False,
    "remove_stop_words": False,
    "ascii_folding": False,
    "memory_limit": 128,
}


def build_full_text(table: Any) -> None:
    """Also on an empty table: the index is what tells a scan how to split terms."""
    for column in _FULL_TEXT:
        table.create_index(column, config=FTS(**_AS_THEY_ARE), replace=True)


def maintain(table: Any, folder: Path) -> None:
    """Build the indexes if it is time, compact, and drop old versions."""
    if is_due(_outside(table), table.count_rows(), quiet_s=_seconds_since_commit(folder)):
        _build(table)
    if _outside(table) == 0:  # else the library would merge
        table.optimize(cleanup_older_than=KEEP_VERSIONS)


def is_due(outside: int, rows: int, *, quiet_s: float) -> bool:
    """Whether the rows outside the indexes cost searches more than a build costs now."""
    if quiet_s >= QUIET_S and outside >= max(1, min(QUIET_ROWS, rows * QUIET_SHARE)):
        return True
    return outside >= max(BUSY_ROWS, (rows - outside) * BUSY_SHARE)


def _build(table: Any) -> None:
    build_full_text(table)
    table.create_index("repository", config=Bitmap(), replace=True)
    table.create_index("path", config=BTree(), replace=True)
    table.create_index("refs", config=LabelList(), replace=True)
    vectors = table.count_rows("vector IS NOT NULL")
    if vectors >= MIN_VECTORS:
        partitions = max(1, vectors // PARTITION_ROWS)
        config = IvfSq(distance_type="cosine", num_partitions=partitions, max_iterations=20)
        table.create_index("vector", config=config, replace=True)


def _outside(table: Any) -> int:
    """Rows that are not in the index that takes longest to build."""
    return int(table.index_stats("terms_idx").num_unindexed_rows)


def _seconds_since_commit(folder: Path) -> float:
    return time.time() - (folder / "_versions").stat().st_mtime
