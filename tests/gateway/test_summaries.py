"""Files are summarised in a few sentences, from their chunks."""

from __future__ import annotations

import pytest

from codelode.model import Category, Chunk, Kind, RepositoryName, chunk_id
from gateway import summaries


def chunk(content, *, symbol="", line=1, language="python", kind=Kind.BLOCK, **said):
    return Chunk(
        id=chunk_id("r", "src/retry.py", line, content),
        repository=RepositoryName("r"),
        path="src/retry.py",
        refs=(),
        language=language,
        category=Category.SOURCE,
        kind=kind,
        symbol=symbol,
        symbols=(),
        header="",
        start_line=line,
        end_line=line,
        content=content,
        **said,
    )


def test_a_file_summary_lists_path_docstring_sentences_names_and_imports():
    made = summaries.of_file(
        "src/retry.py",
        (
            chunk('"""Call again.\n\nMore."""\nimport time\n', file_summary="Tries twice."),
            chunk("def retry(): ...", symbol="Retry.call", line=9, summary="Waits and calls."),
            chunk("class Retry: ...", symbol="Retry", line=20),
            chunk("def _wait(): ...", symbol="_wait", line=30),
        ),
        ["time", "src/clock.py"],
    )

    assert made.splitlines() == [
        "src/retry.py",
        "Tries twice.",
        "Call again.",
        "Waits and calls.",
        "Defines Retry, Retry.call.",
        "Imports time, src/clock.py.",
    ]


def test_a_file_without_chunks_is_its_path():
    assert summaries.of_file("a.py", ()) == "a.py"


@pytest.mark.parametrize(
    ("text", "language", "kind", "head"),
    [
        ("# Copyright 2020\n\n# Waits.\n# Twice.\nx = 1", "python", Kind.BLOCK, "Waits. Twice."),
        ("/*\n * Sends mail.\n */\nint x;", "c", Kind.BLOCK, "Sends mail."),
        ("// Package http serves.\npackage http", "go", Kind.BLOCK, "Package http serves."),
        ("# Title\n\nText", "markdown", Kind.TEXT, "Title"),
        ("x = 1", "python", Kind.BLOCK, ""),
    ],
)
def test_the_head_is_the_first_informative_paragraph(text, language, kind, head):
    assert summaries.head(text, language, kind) == head


def test_a_file_without_explicit_exports_shows_all_its_names():
    assert summaries.exported([chunk("x", symbol="_a"), chunk("y", symbol="_b")]) == ("_a", "_b")


def test_a_summary_is_bounded():
    many = [chunk("x", symbol=f"name{n}", line=n) for n in range(500)]

    made = summaries.of_file("p" * 5_000, many)

    assert len(made) == summaries.MAX_CHARS
    assert "and 480 more." in summaries.of_file("a.py", many)
