"""Health reports what a grammar could not read; no file is ever dropped."""

import subprocess
import sys
from pathlib import Path

import pytest

from codelode.languages import LANGUAGES
from codelode.model import HealthStatus, Kind
from workers import parse as stage
from workers.parse import grammars, parse


def health(data, path):
    return parse(data, path=path).health


def test_a_clean_file_is_ok():
    assert health(b"def f():\n    pass\n", "a.py").status is HealthStatus.OK


def test_errors_are_counted_and_the_chunks_complete():
    data = b"def f(:\n    pass\n\ndef g():\n    return )\n"
    parsed = parse(data, path="a.py")
    assert parsed.health.status is HealthStatus.PARTIAL
    assert parsed.health.errors >= 2
    assert "".join(piece.content for piece in parsed.pieces).encode() == data
    assert "g" in {symbol.name for symbol in parsed.symbols}


def test_a_missing_token_is_an_error():
    assert health(b"int f() { return 1 }\n", "a.c").errors == 1


@pytest.mark.parametrize("path", ["notes.md", "a.rst", "b.mdx"])
def test_prose_needs_no_grammar_to_be_ok(path):
    parsed = parse(b"# Title\n\nWords.\n", path=path)
    assert parsed.health.status is HealthStatus.OK
    assert [piece.kind for piece in parsed.pieces] == [Kind.TEXT]


@pytest.mark.parametrize("path", ["a.xyz", "a.bat", "LICENSE", ""])
def test_a_file_without_a_grammar_is_text(path):
    parsed = parse(b"some words\n", path=path)
    assert parsed.health.status is HealthStatus.UNSUPPORTED
    assert [piece.content for piece in parsed.pieces] == ["some words\n"]


def test_a_file_too_large_for_a_tree_is_text(monkeypatch):
    monkeypatch.setattr(stage, "MAX_TREE_BYTES", 10)
    parsed = parse(b"def f():\n    pass\n", path="a.py")
    assert parsed.health.status is HealthStatus.ERROR
    assert parsed.health.detail == "18 bytes are too many to parse, the limit is 10: cut as text"
    assert parsed.language == "python"
    assert "".join(piece.content for piece in parsed.pieces) == "def f():\n    pass\n"
    assert health(b"some words, which have no grammar\n", "a.xyz").status is (
        HealthStatus.UNSUPPORTED
    )


#: Parses deeply nested YAML of each kind, alone and in a section.
DEEP = """
from workers.parse import parse
from workers.parse.nesting import MAX_COLUMNS
deep = [
    "- " * 3_000 + "a\\n",
    "? " * 3_000 + "a\\n",
    "".join(" " * n + "-\\n" for n in range(500)),
    "".join(" " * n + "k:\\r" for n in range(500)),
    "".join("  " * (n - 1) + "- " * (n > 0) + "k:\\n" for n in range(500)),
]
for text in deep:
    parsed = parse(text.encode(), path="a.yaml")
    assert parsed.health.status == "error", text[:20]
    assert "nested too deeply to parse: cut as text" in parsed.health.detail
    assert "".join(piece.content for piece in parsed.pieces) == text
    parse(f'<script lang="yaml">\\n{text}</script>\\n'.encode(), path="a.vue")
allowed = deep[-1][: deep[-1].index("  " * (MAX_COLUMNS - 1))]
for text in ("- " * (MAX_COLUMNS - 1) + "a", allowed, "- a: " * 3_000):
    assert parse(text.encode(), path="a.yaml").health.status != "error", text[-9:]
print("done")
"""


def test_a_nesting_that_crashes_the_grammar_is_text():
    command = [sys.executable, "-c", DEEP]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr[-2000:]


def test_an_empty_file_has_no_pieces():
    assert parse(b"", path="a.py").pieces == ()


def test_the_pack_has_every_grammar_of_the_table():
    missing = [row.name for row in LANGUAGES if row.grammar and not grammars.grammar(row.grammar)]
    assert missing == []


def test_a_missing_grammar_is_not_an_error():
    assert grammars.tree("no-such-grammar", b"x") is None


QUERIES = sorted(file.stem for file in Path(stage.__file__).parent.glob("queries/*.scm"))


@pytest.mark.parametrize("name", [name for name in QUERIES if name != "ecmascript"])
def test_every_query_compiles_for_its_grammar(name):
    row = next(row for row in LANGUAGES if row.name == name)
    assert grammars.query(name, row.grammar)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.timeout(180)
def test_every_grammar_survives_odd_bytes(seed):
    program = Path(__file__).with_name("fuzz.py")
    done = subprocess.run(
        [sys.executable, program, str(seed)], capture_output=True, text=True, timeout=150
    )
    assert done.stdout.endswith("done\n"), (done.stdout[-200:], done.stderr[-2000:])
