"""`codelode search` formats for a terminal: a pseudo-terminal, in a process of its own."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest

from codelode.text.columns import cells
from codelode.text.excerpts import wanted_terms
from codelode.v1 import search_pb2

pytestmark = pytest.mark.slow

COLUMNS, LINES = 60, 20
STYLE = re.compile(r"\x1b\[[\d;]*m")
MATCH = re.compile(r"\x1b\[31m\x1b\[1m(.*?)\x1b\[0m")


def hit(content, **fields):
    lines = content.count("\n")
    values = {"repository": "r", "path": "a.py", "start_line": 1, "end_line": 1 + lines}
    return search_pb2.Hit(content=content, **{**values, **fields})


@pytest.fixture
def on_terminal(gateway, tmp_path):
    """Runs `codelode ARGUMENTS…` with a terminal for everything; returns what it shows."""

    def run(*args, **environment):
        keeper, terminal_end = pty.openpty()
        fcntl.ioctl(terminal_end, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        hidden = {"COLUMNS", "LINES", "NO_COLOR", "PAGER", "LESS"}
        inherited = {name: value for name, value in os.environ.items() if name not in hidden}
        own = {"CODELODE_SERVER": gateway.address, "CODELODE_DATA": str(tmp_path), "TERM": "xterm"}
        with subprocess.Popen(
            [sys.executable, "-m", "codelode", *args],
            stdin=terminal_end,
            stdout=terminal_end,
            stderr=subprocess.DEVNULL,
            env={**inherited, **own, **environment},
            start_new_session=True,
        ):
            os.close(terminal_end)
            shown = b"".join(iter(lambda: _read(keeper), b""))
        os.close(keeper)
        return shown.decode().replace("\r\n", "\n")

    return run


def _read(keeper):
    try:
        return os.read(keeper, 65_536)
    except OSError:  # Linux reports the end of a terminal as an error
        return b""


def test_matches_are_highlighted_on_a_terminal_and_words_like_the_are_not(on_terminal, gateway):
    gateway.hits = [hit("def parseConfig(the, config):\n    return the.other_config_file")]

    shown = on_terminal("search", "parse the config")

    assert MATCH.findall(shown) == ["parse", "Config", "config", "config"]


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_there_are_no_colours_where_none_are_wanted(on_terminal, gateway, environment):
    gateway.hits = [hit("def parse(): ...")]

    assert "\x1b" not in on_terminal("search", "parse", **environment)
    assert "\x1b" in on_terminal("search", "parse", NO_COLOR="")


def test_a_pipe_gets_no_colours_and_no_pager(served, gateway, monkeypatch):
    monkeypatch.setenv("PAGER", "false")
    gateway.hits = [hit("def parse(): ...", path=f"{n}.py") for n in range(100)]

    answer = served("search", "parse")

    assert answer.out.count("1  def parse(): ...") == 100
    assert "\x1b" not in answer.out


def test_lines_fit_the_terminal_and_show_their_match(on_terminal, gateway):
    code = [
        "\tx = " + "文" * 100,
        "a" * 300 + " needle " + "b" * 300,
        "needle " + "c" * 300,
        "short",
    ]
    gateway.hits = [hit("\n".join(code))]

    lines = STYLE.sub("", on_terminal("search", "needle")).splitlines()[1:5]

    assert all(cells(line) <= COLUMNS for line in lines)
    assert lines[0].startswith("1      x = 文文")
    assert [("needle" in line, line.endswith("…")) for line in lines] == [
        (False, True),
        (True, True),
        (True, True),
        (False, False),
    ]
    assert lines[1].startswith("2  …a")


def test_long_output_is_paged_and_short_output_is_not(on_terminal, gateway, tmp_path):
    pager = tmp_path / "pager"
    pager.write_text(f"#!{sys.executable}\nimport sys\nprint('PAGED', len(sys.stdin.read()))\n")
    pager.chmod(0o755)
    gateway.hits = [hit("def parse(): ...")]
    short = on_terminal("search", "parse", PAGER=str(pager))
    gateway.hits = [hit("def parse(): ...", path=f"{n}.py") for n in range(LINES)]
    long = on_terminal("search", "parse", PAGER=str(pager))

    assert "PAGED" not in short
    assert "a.py:1-1" in short
    assert long.startswith("PAGED")
    assert "0.py:1-1" not in long


def test_a_pager_gets_no_colours_where_none_are_wanted(on_terminal, gateway):
    gateway.hits = [hit("def parse(): ...", path=f"{n}.py") for n in range(LINES)]

    assert "\x1b" not in on_terminal("search", "parse", PAGER="cat", NO_COLOR="1")


def test_context_is_the_lines_around_the_line_that_matches_best(served, gateway):
    code = [f"line {n}" for n in range(1, 61)]
    code[29] = "def needle(line):"
    passage = search_pb2.Passage(start_line=1, end_line=60, content="\n".join(code))
    gateway.hits = [hit("\n".join(code[24:34]), start_line=25, passage=passage)]

    _, *lines = served("search", "needle", "--context", "3").out.splitlines()
    _, alone = served("search", "needle", "-C", "0").out.splitlines()

    assert lines == [f"{n}  {code[n - 1]}" for n in range(27, 34)]
    assert alone == "30  def needle(line):"
    asked, _ = (request.options.expand for request in gateway.requests)
    assert (asked.before_lines, asked.after_lines, asked.max_lines) == (3, 3, 1_000)


def test_a_hit_without_a_match_is_shown_from_the_line_of_its_symbol(served, gateway):
    gateway.hits = [hit("\n".join(f"line {n}" for n in range(1, 61)), line=40, symbol="x")]

    _, first, *lines = served("search", "other").out.splitlines()

    assert first == "    … 37 lines above"
    assert lines[2] == "40  line 40"


@pytest.mark.parametrize(
    "query", ["hit.go:40", "./src/hit.go:40", "panic at /build/src/hit.go:40 +0x1"]
)
def test_the_line_that_the_query_names_is_shown_whatever_matches(served, gateway, query):
    code = [f"line {n}" for n in range(1, 61)]
    code[4] = "build the src of hit.go, panic"
    gateway.hits = [hit("\n".join(code), path="src/hit.go")]

    _, above, *lines = served("search", query).out.splitlines()

    assert above == "    … 37 lines above"
    assert lines[2] == "40  line 40"


@pytest.mark.parametrize("query", ["hit.go:400", "other.go:40", "it.go:40"])
def test_a_line_of_another_file_or_chunk_shows_what_matches(served, gateway, query):
    code = ["pass"] * 60
    code[50] = "hit.go it.go other.go"
    gateway.hits = [hit("\n".join(code), path="src/hit.go")]

    assert "51  hit.go it.go other.go" in served("search", query).out


def test_compact_and_context_exclude_each_other(served, gateway):
    answer = served("search", "x", "--compact", "--context", "2")

    assert (answer.status, gateway.requests) == (2, [])
    assert "give one of them" in answer.err


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("how is the config parsed", {"config", "parsed"}),
        ("how is it", {"how", "is", "it"}),
        ("getUser", {"get", "user", "getuser"}),
        ("parsed lang:go -path:src/**", {"parsed"}),
    ],
)
def test_stop_words_are_searched_only_if_there_are_no_others(query, wanted):
    assert wanted_terms(query) == wanted
