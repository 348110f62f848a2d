"""Keyword search's view of chunks and queries: the same words in every chunk store.

A chunk has two searched fields, what it is called and what it says, and its keyword score is the
weighted sum of the BM25 scores of both. Two fields rather than one text with the names repeated:
on 26 repositories with 513 annotated queries, keywords alone over windows of 40 lines, the sum
reached NDCG@10 .670, .681, .685, .677, .664 with weights 0.5, 0.75, 1, 1.5, 2; one text .610, with
the names put in three times .637. The weight was picked on these same queries, none held out:
trust that two fields are better, not the third digit between 0.75 and 1.5.

What stands before a chunk that begins inside something is searched with its content, and embedded
with it. On 31 repositories that made no difference that can be told from chance: NDCG@10 of 614
annotated queries on source folders and on whole repositories, and of 692 commit subjects (sought:
the chunks with the lines they added), moved by -.0007, +.0001 and -.0016. Of the subjects with such
a chunk among those sought, recall@20 rose from .259 to .271.
"""

from __future__ import annotations

from codelode import tokens
from codelode.model import Chunk

#: Weight of the names' score; the content's is 1.
NAME_WEIGHT = 1.0

#: Weight of the summary's score, from published code search over summaries; nothing measured here.
SUMMARY_WEIGHT = 2.0

#: Distinct terms of a query that are searched, the first ones: more cost time and say little new.
MAX_QUERY_TERMS = 64


def name_terms(chunk: Chunk) -> str:
    """The terms of where a chunk stands and what it defines, with a space between them."""
    return tokens.joined_terms("\n".join((chunk.path, chunk.symbol, *chunk.symbols, chunk.header)))


def content_terms(chunk: Chunk) -> str:
    """The terms of the code itself, and of what it goes on from."""
    return tokens.joined_terms(chunk.overlap + chunk.content)


def summary_terms(chunk: Chunk) -> str:
    """The terms of what a language model says of it; none when it was not asked."""
    return tokens.joined_terms(chunk.summary)


def query_terms(text: str) -> list[str]:
    """The distinct terms of a query in order, at most MAX_QUERY_TERMS; none for punctuation."""
    return list(dict.fromkeys(tokens.terms(text)))[:MAX_QUERY_TERMS]
