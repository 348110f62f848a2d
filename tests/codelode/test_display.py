"""Names that git allows, but a terminal, a log, or a page would misread, are made safe."""

import json
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from codelode.display import markdown, plain, quoted

HOSTILE = [
    "a.py\nacme/http b.py:1-2",
    "gnp\u202egpj.py",
    "a\u2028b.py",
    "a\u2029b.py",
    "a\x85b.py",
    "a\x1b[2Jb.py",
    "a\rb.py",
    "\u2066a\u2069.py",
    "a\tb.py",
]


@pytest.mark.parametrize(
    "name", ["src/a.py", "übung/größe.py", "a b.py", "pages/[id].tsx", "a\\nb", ""]
)
def test_a_usual_name_is_printed_as_it_is(name):
    assert quoted(name) == markdown(name) == name


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_that_a_terminal_would_misread_is_quoted(name):
    shown = quoted(name)

    assert shown.isprintable()
    assert shown.splitlines() == [shown]
    assert shown[0] == shown[-1] == "'"


@given(st.text(), st.text())
def test_quoted_names_are_one_printable_line_each(one, other):
    assert quoted(one).isprintable()
    if one != other and not one.isprintable() and not other.isprintable():
        assert quoted(one) != quoted(other)


@given(st.text())
def test_a_text_keeps_its_lines_but_no_characters_that_move_them(text):
    shown = plain(text)

    assert shown.count("\n") == text.count("\n")
    assert not set(shown) & set("\x1b\u202e\u2028\u2029\u2066\r\x85")


@pytest.mark.parametrize(
    "name",
    [
        "<img src=x onerror=alert(1)>.py",
        "a`b.py",
        "``<b>``",
        "`<b>",
        "[x](javascript:alert(1)).md",
        "![](http://host/pixel).md",
        "a&lt;b.py",
        "<!--\n-->",
        "operator<<",
    ],
)
def test_a_name_is_only_text_in_markdown(name):
    page = MarkdownIt("commonmark").parse(f"### {markdown(name)}:1-2 (x)")

    inline = [token for token in page if token.type == "inline"]
    children = [child for token in inline for child in token.children]
    assert {child.type for child in children} <= {"text", "code_inline"}
    assert "".join(child.content for child in children) == f"{quoted(name)}:1-2 (x)"


@pytest.mark.slow
@pytest.mark.parametrize("format_", ["console", "json"])
def test_a_log_line_stays_one_line_for_any_file_name(format_):
    program = (
        "import structlog, sys\n"
        "from codelode import logs, settings\n"
        "logs.configure(settings.load())\n"
        "for path in sys.argv[1:]: structlog.get_logger('x').info('file_skipped', path=path)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, *HOSTILE],
        env={**os.environ, "CODELODE_LOG_FORMAT": format_, "NO_COLOR": "1"},
        capture_output=True,
        check=True,
        text=True,
    )

    lines = ended.stdout.removesuffix("\n").split("\n")
    assert len(lines) == len(HOSTILE)
    for line, name in zip(lines, HOSTILE, strict=True):
        assert not set(line) & set("\u202e\u2028\u2029\u2066\r\x85\t")
        assert "file_skipped" in line
        assert format_ == "console" or json.loads(line)["path"] == name
