"""Extract the terms of chunks and queries for keyword search, equally for every chunk store.

A chunk has a field for its names and path, one for its content, and one for its summary. Its
keyword score is the weighted sum of the fields' BM25 scores. Names and content are two fields
because that ranks better than one text. On 26 repositories with 513 annotated queries, with
keyword search alone over windows of 40 lines, two fields reached NDCG@10 .670, .681, .685, .677,
and .664 with name weights 0.5, 0.75, 1, 1.5, and 2. One text reached .610, or .637 with the names
repeated three times. The weight was chosen on these same queries, so differences between weights
from 0.75 to 1.5 are not significant.

A chunk that begins inside a definition is indexed and embedded with the text right before it
(`Chunk.overlap`). On 31 repositories this made no significant difference: NDCG@10 changed by
-.0007 for 614 annotated queries on source folders, by +.0001 for the same queries on whole
repositories, and by -.0016 for 692 commit subjects as queries, which should find the lines that the
commit added. For the subjects with such a chunk among the relevant ones, recall@20 rose from .259
to .271.
"""

from __future__ import annotations

from codelode import tokens
from codelode.model import Chunk

#: Weight of the score of names, relative to that of content.
NAME_WEIGHT = 1.0

#: Weight of the score of summaries; taken from published work on code search, not measured here.
SUMMARY_WEIGHT = 2.0

#: Maximum number of distinct terms of a query that are searched; more take time and add little.
MAX_QUERY_TERMS = 64


def name_terms(chunk: Chunk) -> str:
    """Return the terms of a chunk's path, symbols, and header, separated by spaces."""
    return tokens.joined_terms("\n".join((chunk.path, chunk.symbol, *chunk.symbols, chunk.header)))


def content_terms(chunk: Chunk) -> str:
    """Return the terms of a chunk's content and of the text right before it."""
    return tokens.joined_terms(chunk.overlap + chunk.content)


def summary_terms(chunk: Chunk) -> str:
    """Return the terms of a chunk's summary; empty without a summary."""
    return tokens.joined_terms(chunk.summary)


def query_terms(text: str) -> list[str]:
    """Return the first MAX_QUERY_TERMS distinct terms of a query, in order."""
    return list(dict.fromkeys(tokens.terms(text)))[:MAX_QUERY_TERMS]
