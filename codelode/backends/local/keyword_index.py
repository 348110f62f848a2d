"""The keyword index: words and trigrams of chunks and files, in tantivy. Derived from the database.

Words are scored by BM25, summed over three fields with the weights of `words`; a chunk is
identified by its row number. The trigrams of a file are a field of its first chunk, which is not
scored: for 115 MB of source they take 15 MB, and the files of a literal are found in half a
millisecond. (The trigrams of SQLite's FTS5 took 19 MB and ten times as long.) The trigrams of each
chunk are another field, which takes more than twice as much space. With it, a search reads only the
chunks that have the trigrams of a pattern, except in files where a line may be in several chunks.

The index commits before the database does, so it may have rows that the database never got (after a
crash in between) and deleted rows; readers drop both. The database records the stamp of each
commit, which shows whether the two may differ.

The writer is opened and closed by every call: that takes half a millisecond and lets processes
alternate, which the engine's own lock would prevent.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import structlog
from tantivy import (
    Document,
    Index,
    IndexWriter,
    Occur,
    Query,
    Schema,
    SchemaBuilder,
    Searcher,
    TextAnalyzerBuilder,
    Tokenizer,
)

from codelode import deadline, grams
from codelode.backends import words
from codelode.backends.local import tables
from codelode.backends.local.errors import Damaged, damage_reported
from codelode.file_text import file_text, shares_lines
from codelode.files import make_private
from codelode.grams import AllOf, Grams
from codelode.model import Chunk

#: Memory that buffers documents before they are written, bytes; the engine requires 15 MB.
HEAP_BYTES = 20_000_000

#: Number of rows in one deletion.
_ROWS_PER_DELETION = 1_000

#: Number of rows read and indexed between two log events.
_ROWS_PER_STEP = 5_000

_log = structlog.get_logger(__name__)

_FIELDS = {"name": words.NAME_WEIGHT, "body": 1.0, "summary": words.SUMMARY_WEIGHT}

#: The field with the trigrams of a file, and the tokenizer of all trigrams.
GRAMS = "grams"

#: The field with the trigrams of a chunk.
CHUNK_GRAMS = "chunk_grams"

#: The field that marks the first chunk of a file in which a line may be in several chunks.
SHARES_LINES = "shares_lines"

#: Accepted values by field: a chunk must have one of them in each field.
Clauses = Mapping[str, Sequence[str]]

#: Fields for filters, with the names of the reader's columns.
CLAUSE_FIELDS = ("repositories", "languages", "categories", "kinds")

Rows = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float64]


def schema() -> Schema:
    builder = SchemaBuilder()
    for name in _FIELDS:  # `words` splits the text, so that index and query agree exactly
        builder.add_text_field(name, tokenizer_name="whitespace", index_option="freq")
    for name in CLAUSE_FIELDS:
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
    for name in (GRAMS, CHUNK_GRAMS):
        builder.add_text_field(name, tokenizer_name=GRAMS, index_option="basic")
    builder.add_boolean_field(SHARES_LINES, indexed=True)
    builder.add_unsigned_field("row", indexed=True, fast=True)
    return builder.build()


_SCHEMA = schema()


def create(folder: Path) -> None:
    """Create an empty index, replacing what an unfinished attempt left."""
    shutil.rmtree(folder, ignore_errors=True)
    with damage_reported():
        make_private(folder)
        Index(_SCHEMA, path=str(folder))


def _open(folder: Path) -> Index:
    """Open the index. Raises Damaged if another version of the schema made it."""
    index = Index.open(str(folder))
    if index.schema != _SCHEMA:
        raise Damaged("another version of codelode made it")
    trigrams = Tokenizer.ngram(grams.SIZE, grams.SIZE, False)
    index.register_tokenizer(GRAMS, TextAnalyzerBuilder(trigrams).build())
    return index


def folder_of(index: Path, number: int) -> Path:
    """Return the folder of the keyword index with this number; each rebuild uses the next one."""
    return index / f"keywords-{number}"


def remove_others(index: Path, number: int) -> None:
    """Delete the keyword indexes that this one replaced."""
    for other in index.glob("keywords-*"):
        if other != folder_of(index, number):
            shutil.rmtree(other, ignore_errors=True)


def open_index(folder: Path) -> Index:
    """Open the index for reading; it shows new commits only after `reload`."""
    index = _open(folder)
    index.config_reader(reload_policy="manual")
    return index


def check(folder: Path) -> None:
    """Raise Damaged unless every file of the index exists, with this schema. Does not read them."""
    with damage_reported():
        _open(folder).searcher()


class Writer:
    """Changes the index in one commit, or not at all. Every method may raise Damaged."""

    def __init__(self, folder: Path) -> None:
        with damage_reported():
            self._index = _open(folder)
            self._writer: IndexWriter = self._index.writer(heap_size=HEAP_BYTES, num_threads=1)
            self.stamp = self._writer.commit_opstamp

    def add(
        self, chunks: Iterable[tuple[int, Chunk]], files: Mapping[int, Sequence[Chunk]]
    ) -> None:
        """Add rows that are not in the index.

        `files`: the chunks of files in file order, by the row of the first one.
        """
        for row, chunk in chunks:
            document = _document(row, chunk)
            if row in files:
                document.add_text(GRAMS, grams.folded(file_text(files[row])))
                document.add_boolean(SHARES_LINES, shares_lines(files[row]))
            with damage_reported():
                self._writer.add_document(document)

    def delete(self, rows: Iterable[int]) -> None:
        """Delete rows added before this call; unknown rows are not an error."""
        ordered = sorted(rows)
        for start in range(0, len(ordered), _ROWS_PER_DELETION):
            some = ordered[start : start + _ROWS_PER_DELETION]
            with damage_reported():
                # Deletion by term treats the number as signed and finds nothing, so use a query.
                self._writer.delete_documents_by_query(Query.term_set_query(_SCHEMA, "row", some))

    def rows(self) -> set[int]:
        """Return all rows of the last commit."""
        with damage_reported():
            searcher = self._index.searcher()
            everything = searcher.search(Query.all_query(), max(1, searcher.num_docs), count=False)
            values = searcher.fast_field_values("row", [at for _, at in everything.hits])
        return {int(value) for value in values if value is not None}

    def match(self, connection: sqlite3.Connection) -> None:
        """Delete rows that the database does not have, and add those that are missing."""
        indexed = self.rows()
        stored = {row for (row,) in connection.execute("SELECT row FROM chunks")}
        orphans, missing = indexed - stored, sorted(stored - indexed)
        _log.info("keyword_index_compared", orphans=len(orphans), missing=len(missing))
        self.delete(orphans)
        for start in range(0, len(missing), _ROWS_PER_STEP):
            some = missing[start : start + _ROWS_PER_STEP]
            self.add(tables.chunks(connection, some), tables.by_first(connection, some))
            done = min(start + _ROWS_PER_STEP, len(missing))
            _log.info("keyword_index_filled", rows=done, of=len(missing))

    def commit(self) -> int:
        """Commit the changes and return the stamp, which identifies the commit."""
        with damage_reported():
            return self._writer.commit()

    def close(self) -> None:
        """Wait for the merges that the commit started, which the engine would discard otherwise."""
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
    document.add_text(CHUNK_GRAMS, grams.folded(chunk.content.replace("\r\n", "\n")))
    document.add_unsigned("row", row)
    return document


def clause_values(chunk: Chunk) -> tuple[str, str, str, str]:
    return chunk.repository, chunk.language, chunk.category.value, chunk.kind.value


def matching(terms: Sequence[str]) -> Query:
    """Return a query for any of the terms, scored by the weighted sum of the fields' BM25."""
    queries = [_weighted(field, term) for term in terms for field in _FIELDS]
    return Query.boolean_query([(Occur.Should, query) for query in queries])


def inside(query: Query, clauses: Clauses, rows: Sequence[int] | None = None) -> Query:
    """Limit the query to the clauses, and to the rows if given; scores do not change."""
    limits = [_one_of(field, values) for field, values in clauses.items()]
    if rows is not None:
        limits.append(Query.term_set_query(_SCHEMA, "row", rows))
    if not limits:
        return query
    unscored = [(Occur.Must, Query.const_score_query(limit, 0.0)) for limit in limits]
    return Query.boolean_query([(Occur.Must, query), *unscored])


def _one_of(field: str, values: Sequence[str]) -> Query:
    """Return a query for any of the values; a query for a single value is faster."""
    if len(values) == 1:
        return Query.term_query(_SCHEMA, field, values[0], index_option="basic")
    return Query.term_set_query(_SCHEMA, field, values)


def holding(searcher: Searcher, needed: Grams) -> Rows:
    """Return the rows of the first chunks of all files that have the trigrams, in any order."""
    return _all(searcher, _needs(GRAMS, needed))


def chunks_holding(searcher: Searcher, needed: Grams, repositories: Sequence[str]) -> Rows:
    """Return the rows of the chunks of the repositories that have the trigrams, in any order."""
    return _all(searcher, inside(_needs(CHUNK_GRAMS, needed), {"repositories": repositories}))


def sharing_lines(searcher: Searcher) -> Rows:
    """Return the rows of the first chunks of the files in which chunks share lines."""
    return _all(searcher, Query.term_query(_SCHEMA, SHARES_LINES, True))


def _all(searcher: Searcher, query: Query) -> Rows:
    deadline.check()
    hits = searcher.search(query, max(1, searcher.num_docs), count=False).hits
    return np.array(searcher.fast_field_values("row", [at for _, at in hits]), np.int64)


def _needs(field: str, needed: Grams) -> Query:
    if isinstance(needed, str):
        query = Query.term_query(_SCHEMA, field, needed, index_option="basic")
        return Query.const_score_query(query, 0.0)
    occur = Occur.Must if isinstance(needed, AllOf) else Occur.Should
    return Query.boolean_query([(occur, _needs(field, part)) for part in needed.parts])


def top(searcher: Searcher, query: Query, limit: int) -> tuple[Rows, Scores]:
    """Return the best `limit` rows and their scores, best first.

    Every match is scored, because the engine's Python binding collects hits in a way that cannot
    skip any. Counting them as well takes up to a tenth longer.
    """
    hits = searcher.search(query, limit, count=False).hits
    rows = searcher.fast_field_values("row", [address for _, address in hits])
    return np.array(rows, np.int64), np.array([score for score, _ in hits], np.float64)


def _weighted(field: str, term: str) -> Query:
    query = Query.term_query(_SCHEMA, field, term, index_option="freq")
    weight = _FIELDS[field]
    return query if weight == 1 else Query.boost_query(query, weight)
