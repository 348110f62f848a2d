"""Any file of a repository becomes chunks, or is left out with a reason, in bounded time."""

import queue
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from codelode.languages import LANGUAGES
from codelode.model import HealthStatus
from tests.processor_time import processor_time_below
from workers.parse import guard, parse

HERE = Path(__file__).parent


def assert_whole(data, path):
    parsed = parse(data, path=path)
    ends = [piece.end_byte for piece in parsed.pieces]
    assert [0, *ends][:-1] == [piece.start_byte for piece in parsed.pieces]
    assert [0, *ends][-1] == len(data)
    return parsed


TRUNCATED = {
    "a.py": b'class A:\n    """Doc."""\n    def f(self, x):\n        return [x, "y"]\n',
    "a.vue": b'<template><p>{{ a }}</p></template>\n<script lang="ts">\nlet a = 1\n</script>\n',
    "a.ipynb": b'{"cells": [{"cell_type": "code", "source": ["x = 1\\n", "def f(): pass"]}]}\n',
    "a.tf": b'resource "a" "b" {\n  c = "${d}"\n}\nlocals {\n  e = 1\n}\n',
    ".github/workflows/a.yml": b"jobs:\n  b:\n    steps:\n      - run: |\n          make\n",
    "c/templates/a.yaml": b'{{ define "a" }}\nkind: {{ .x }}\napiVersion: v1\n{{ end }}\n',
    "Dockerfile": b"FROM a AS b\nRUN c && \\\n  d\nFROM e\n",
    "a.sql": b"CREATE TABLE a.b (c INT); CREATE VIEW d AS SELECT 1;\n",
    "a.dart": b"class A { int f() => 1; A.b(); }\nvoid main() {}\n",
}


@pytest.mark.parametrize("path", TRUNCATED)
def test_a_truncated_file_is_read_up_to_its_end(path):
    data = TRUNCATED[path]
    for size in range(1, len(data)):
        assert_whole(data[:size], path)


@pytest.mark.slow
def test_fifty_megabytes_on_one_line_are_cut_as_text():
    with processor_time_below(60):
        parsed = assert_whole(b"x = 1; " * 7_200_000, "a.py")
    assert parsed.health.status is HealthStatus.ERROR
    assert guard(b"x" * 1_000_001, path="a.py", max_bytes=1_000_000) is not None


MANY = {
    "a.py": b"def f%d(): pass\n",
    "a.tf": b'variable "f%d" {}\n',
    "values.yaml": b"f%d: 1\n",
    "a.vue": b"<script>function f%d() {}</script>\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("path", MANY)
def test_a_hundred_thousand_symbols_are_bounded(path):
    count = 100_000 if path == "a.py" else 20_000
    data = b"".join(MANY[path] % at for at in range(count))
    with processor_time_below(60):
        parsed = assert_whole(data, path)
    assert len(parsed.symbols) <= 10_000


@pytest.mark.parametrize(
    ("data", "path", "reason"),
    [
        (b"\x7fELF\x02\x01\x01\0" + bytes(range(256)) * 10, "a.py", "binary"),
        (b"\xca\xfe\xba\xbe\0\0\x004", "Main.java", "binary"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "a.c", "git lfs pointer"),
    ],
)
def test_a_file_that_is_not_source_code_has_a_reason(data, path, reason):
    assert guard(data, path=path, max_bytes=1_000_000) == reason


#: Loops for ever on one byte; a worker kills and replaces its parser process.
KNOWN = {"cobol"}

#: Longest time without output of a program that starts, and of one that parses, seconds.
START_S, SILENCE_S = 60, 5


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_every_grammar_ends_on_one_byte_or_is_known_to_loop():
    """One process parses with all grammars in turn; after a loop, another one continues."""
    names = [row.name for row in LANGUAGES if row.grammar]
    culprits = set()
    while names and (at := _last_named(names)) != "done":
        culprits.add(at)
        names = names[names.index(at) + 1 :]
    assert culprits == KNOWN


def _last_named(names):
    """Return the last line that the program wrote before it ended or stopped writing."""
    lines = queue.Queue()
    command = [sys.executable, str(HERE / "one_byte.py"), *names]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        reader = threading.Thread(target=lambda: [lines.put(line) for line in process.stdout])
        reader.start()
        last, patience = names[0], START_S
        try:
            while last != "done":
                last, patience = lines.get(timeout=patience).strip(), SILENCE_S
        except queue.Empty:
            process.kill()
        reader.join()
    return last
