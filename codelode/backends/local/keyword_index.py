"""The keyword index: BM25 over the words of each chunk, in tantivy. Derived from the database.

Three fields, whose scores are summed with the weights of `words`; a chunk is its row number. The
index commits before the database does, so it may hold rows that the database never got (a crash
in between) and rows that left; readers drop both. Each commit has a stamp that the database
remembers, which tells when the two may differ.

The writer is opened for every call and closed after it: that takes half a millisecond and lets
processes take turns, which the engine's own lock would not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tantivy import Document, Index, IndexWriter, Occur, Query, Schema, SchemaBuilder, Searcher

from codelode.backends import words
from codelode.backends.local.errors import damage_reported
from codelode.model import Chunk

#: Memory in which documents gather before they are written out; the engine's least is 15 MB.
HEAP_BYTES = 20_000_000

#: Rows named in one deletion.
_ROWS_PER_DELETION = 1_000

_FIELDS = {"name": words.NAME_WEIGHT, "body": 1.0, "summary": words.SUMMARY_WEIGHT}

#: What a chunk must be equal to one of, by field.
Clauses = Mapping[str, Sequence[str]]

#: Named as the columns of a reader are.
CLAUSE_FIELDS = ("repositories", "languages", "categories", "kinds")

Rows = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float64]


def schema() -> Schema:
    builder = SchemaBuilder()
    for name in _FIELDS:  # split beforehand: index and query must agree to the letter
        builder.add_text_field(name, tokenizer_name="whitespace", index_option="freq")
    for name in CLAUSE_FIELDS:
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
    builder.add_unsigned_field("row", indexed=True, fast=True)
    return builder.build()


_SCHEMA = schema()


def create(folder: Path) -> None:
    """Make an empty index in a folder that is not there yet."""
    with damage_reported():
        folder.mkdir(parents=True)
        Index(_SCHEMA, path=str(folder))


def open_index(folder: Path) -> Index:
    """The index, which moves on only when told to by `reload`."""
    index = Index.open(str(folder))
    index.config_reader(reload_policy="manual")
    return index


def check(folder: Path) -> None:
    """Raise Damaged unless every file of the index is there. Does not read them."""
    with damage_reported():
        Index.open(str(folder)).searcher()


class Writer:
    """Changes to the index in one commit, or none. Every method may raise Damaged."""

    def __init__(self, folder: Path) -> None:
        with damage_reported():
            self._index = Index.open(str(folder))
            self._writer: IndexWriter = self._index.writer(heap_size=HEAP_BYTES, num_threads=1)
            self.stamp = self._writer.commit_opstamp

    def add(self, chunks: Iterable[tuple[int, Chunk]]) -> None:
        """Put rows in that are not there."""
        for row, chunk in chunks:
            document = _document(row, chunk)
            with damage_reported():
                self._writer.add_document(document)

    def delete(self, rows: Iterable[int]) -> None:
        """Take out rows added before this call; rows that are not there are no error."""
        ordered = sorted(rows)
        for start in range(0, len(ordered), _ROWS_PER_DELETION):
            some = ordered[start : start + _ROWS_PER_DELETION]
            with damage_reported():
                # By query: deletion by term takes a number for a signed one and finds nothing.
                self._writer.delete_documents_by_query(Query.term_set_query(_SCHEMA, "row", some))

    def rows(self) -> set[int]:
        """All rows of the last commit."""
        with damage_reported():
            searcher = self._index.searcher()
            everything = searcher.search(Query.all_query(), max(1, searcher.num_docs), count=False)
            values = searcher.fast_field_values("row", [at for _, at in everything.hits])
        return {int(value) for value in values if value is not None}

    def commit(self) -> int:
        """Its stamp, by which the next writer knows it."""
        with damage_reported():
            return self._writer.commit()

    def close(self) -> None:
        """Wait for the merges that the commit began: the engine would throw them away."""
        with damage_reported():
            self._writer.wait_merging_threads()


def _document(row: int, chunk: Chunk) -> Document:
    document = Document()
    document.add_text("name", words.name_terms(chunk))
    document.add_text("body", words.content_terms(chunk))
    if chunk.summary:
        document.add_text("summary", words.summary_terms(chunk))
    for field, value in zip(CLAUSE_FIELDS, clause_values(chunk), strict=True):
        document.add_text(field, value)
    document.add_unsigned("row", row)
    return document


def clause_values(chunk: Chunk) -> tuple[str, str, str, str]:
    return chunk.repository, chunk.language, chunk.category.value, chunk.kind.value


def matching(terms: Sequence[str]) -> Query:
    """Any of the terms in any field, scored by the weighted sum of the fields' BM25 scores."""
    queries = [_weighted(field, term) for term in terms for field in _FIELDS]
    return Query.boolean_query([(Occur.Should, query) for query in queries])


def inside(query: Query, clauses: Clauses, rows: Sequence[int] | None = None) -> Query:
    """The query limited to the clauses, and to the rows when given; scores stay."""
    limits = [Query.term_set_query(_SCHEMA, field, values) for field, values in clauses.items()]
    if rows is not None:
        limits.append(Query.term_set_query(_SCHEMA, "row", rows))
    if not limits:
        return query
    unscored = [(Occur.Must, Query.const_score_query(limit, 0.0)) for limit in limits]
    return Query.boolean_query([(Occur.Must, query), *unscored])


def top(searcher: Searcher, query: Query, limit: int) -> tuple[Rows, Scores]:
    """The best `limit` rows and their scores, best first.

    Not counting all matches lets the engine skip those that cannot be among the best.
    """
    hits = searcher.search(query, limit, count=False).hits
    rows = searcher.fast_field_values("row", [address for _, address in hits])
    return np.array(rows, np.int64), np.array([score for score, _ in hits], np.float64)


def _weighted(field: str, term: str) -> Query:
    query = Query.term_query(_SCHEMA, field, term, index_option="freq")
    weight = _FIELDS[field]
    return query if weight == 1 else Query.boost_query(query, weight)
