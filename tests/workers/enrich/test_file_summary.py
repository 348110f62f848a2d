"""A file's summary says what the file says of itself, defines and imports."""

from __future__ import annotations

import pytest

from codelode.model import Category, Import, Kind
from codelode.summaries import MAX_CHARS
from workers.enrich import file_summary

PYTHON = '''#!/usr/bin/env python
# Copyright 2020 The Authors. All rights reserved.

"""A cache of answers,
by query.

More about it.
"""
'''


def test_without_a_model_it_is_made_of_what_the_file_shows(piece, parsed):
    file = parsed(
        piece('"""A cache of answers.\n\nMore."""\nimport redis\n', Kind.BLOCK),
        exports=["Cache", "open_cache"],
        imports=[Import("redis", 1), Import("json", 2), Import("redis", 9)],
    )
    assert file_summary("src/cache.py", file) == (
        "src/cache.py\nA cache of answers.\nDefines Cache, open_cache.\nImports redis, json."
    )


def test_with_a_model_it_holds_the_sentences_exported_first_and_each_once(piece, parsed):
    file = parsed(
        piece("import redis", Kind.BLOCK),
        piece("def _inner(): pass", symbol="_inner", line=2),
        piece("def open(): pass", symbol="open", line=3),
        piece("x = 1", Kind.BLOCK, line=4),
        exports=["open"],
    )
    sentences = ["Imports a client.", "Counts entries.", "Opens the cache.", "Counts entries."]
    text = file_summary("a.py", file, sentences)
    assert text.split("\n")[1] == "Opens the cache. Counts entries. Imports a client."


@pytest.mark.parametrize(
    ("language", "content", "kept"),
    [
        ("python", '"""Says it.\n\nMore."""\n', "Says it."),
        ("python", PYTHON, "A cache of answers, by query."),
        ("python", "# Says it\n# in two lines.\n\n# Not this.\nx = 1", "Says it in two lines."),
        ("go", "// Package a says it.\npackage a", "Package a says it."),
        ("java", "/*\n * Copyright X\n */\n\n/**\n * Says it.\n */\nclass A", "Says it."),
        ("c", "/* Says it. */\n#include <a.h>", "Says it."),
        ("python", "#!/bin/x\n# -*- coding: utf-8 -*-\n\n# Says it.\n", "Says it."),
        ("python", "x = 1\n# Not at the top.", ""),
        ("python", "", ""),
        ("nonesuch", "# a", ""),
    ],
)
def test_the_head_is_the_first_comment_that_is_no_boilerplate(
    piece, parsed, language, content, kept
):
    file = parsed(piece(content, Kind.BLOCK), language=language)
    assert file_summary("a", file) == f"a\n{kept}".strip()


def test_prose_begins_with_its_first_paragraph(piece, parsed):
    file = parsed(
        piece("# Guide\n\nHow to install it.\n", Kind.TEXT),
        language="markdown",
        category=Category.DOCS,
    )
    assert file_summary("guide.md", file) == "guide.md\nGuide"


def test_a_file_without_anything_is_its_path(parsed):
    assert file_summary("a/b.bin", parsed()) == "a/b.bin"


def test_the_summary_is_bounded(piece, parsed):
    file = parsed(
        piece("# " + "long " * 1_000, Kind.BLOCK),
        exports=[f"name_{n}" * 10 for n in range(500)],
        imports=[Import("m" * 100 + str(n), n) for n in range(100)],
    )
    text = file_summary("a.py", file, ["A sentence about it. " * 50])
    assert len(text) <= MAX_CHARS
