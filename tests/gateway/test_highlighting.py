"""Highlighting keeps the text, never lets it become markup, and ends when a lexer does not."""

from __future__ import annotations

import asyncio
import html
import re
from pathlib import Path

import pytest

from codelode import languages
from gateway import highlighting
from gateway.highlighting import MAX_CHARS, Code, Highlighter, highlighted

ROOT = Path(__file__).parents[2]
REAL = (
    *("README.md", "Makefile", "docker-compose.yml", "pyproject.toml", "codelode/model.py"),
    *("codelode/backends/redis/ledger.lua", "protos/codelode/v1/search.proto"),
    *("tests/oidc_provider.mjs", "deploy/services.sh", "tests/gateway/openapi.json"),
)
PLANTED = "</span><script>alert(1)</script><img src=x onerror='alert(2)'>\"&amp;"
SMALL = Code("def load():\n    return 1\n", "python", "a.py")
#: The lexer of makefiles takes a time that is quadratic in the length of a word.
ENDLESS = Code("a" * MAX_CHARS, "make", "Makefile")
TAG = re.compile(r'<span class="[a-z0-9]+">|</span>')


@pytest.fixture
async def highlighter():
    made = Highlighter()
    yield made
    await made.close()


def text_of(lines):
    return html.unescape(TAG.sub("", "\n".join(lines)))


@pytest.mark.parametrize("path", REAL)
def test_the_text_of_a_real_file_is_kept(path):
    text = (ROOT / path).read_text()[:50_000]

    lines = highlighted(Code(text, languages.detect(path).name, path))

    assert text_of(lines) == text
    assert any("<span" in line for line in lines)
    assert all(line.count("<span") == line.count("</span>") for line in lines)


@pytest.mark.parametrize("language", languages.names())
def test_a_script_in_a_text_is_never_markup(language):
    texts = (PLANTED, f'"{PLANTED}"', f"// {PLANTED}\n# {PLANTED}", f"<a b='{PLANTED}'>\n{PLANTED}")
    for text in texts:
        lines = highlighted(Code(text, language, f"x.{language}"))
        if lines is not None:
            assert "<" not in TAG.sub("", "\n".join(lines))
            assert text_of(lines) == text


async def answered(highlighter, code):
    """Return the lines of the code; repeat, because a busy machine may exceed the time limit."""
    found = []
    while not found:
        found = [one for one in [await highlighter.lines(code)] if one is not None]
    return found[0]


async def test_the_process_highlights_as_the_function_does(highlighter):
    for code in (SMALL, Code("fn main() {}\n", "rust", "a.rs"), Code("a = 1", "nolang", "a.toml")):
        assert await answered(highlighter, code) == highlighted(code)


async def test_an_unknown_language_and_a_long_text_have_no_colours(highlighter):
    assert await highlighter.lines(Code("hello", "nolang", "a.nolang")) is None
    assert await highlighter.lines(Code("a" * (MAX_CHARS + 1), "python", "a.py")) is None


@pytest.mark.slow
async def test_a_text_that_takes_too_long_is_aborted_and_the_next_one_is_highlighted():
    highlighter = Highlighter(limit_s=0.5)
    try:
        assert await highlighter.lines(ENDLESS) is None
        assert await answered(highlighter, SMALL) == highlighted(SMALL)
    finally:
        await highlighter.close()


async def test_an_abandoned_answer_is_not_returned_for_the_next_request(highlighter):
    first = asyncio.create_task(highlighter.lines(Code("b = 2\n", "python", "b.py")))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first

    assert await answered(highlighter, SMALL) == highlighted(SMALL)


async def test_the_latest_highlighted_texts_are_cached_up_to_a_bound(highlighter, monkeypatch):
    monkeypatch.setattr(highlighting, "MAX_KEPT_CHARS", 1_000)
    codes = [Code(f"value_{n} = {n}\n" * 8, "python", "a.py") for n in range(5)]
    made = [await highlighter.lines(code) for code in codes]

    kept = list(highlighter._kept.values())
    assert 1 <= len(kept) < len(codes)
    assert kept == made[-len(kept) :]
    assert highlighter._kept_chars == sum(len(line) for one in kept for line in one) <= 1_000
    assert await highlighter.lines(codes[-1]) is kept[-1]
