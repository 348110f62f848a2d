"""The prompt about a whole file shows its outline."""

from __future__ import annotations

from codelode.model import ParsedFile
from workers.enrich.outline import MAX_BEGINNING_CHARS, MAX_LINES_CHARS, outline
from workers.enrich.prompt import MAX_CONTENT_CHARS
from workers.parse import parse

FUNCTION = '''
def step_{n}(path, limit):
    """Take step {n}."""
    with open(path) as source:
        return [line.strip() for line in source][:limit]
'''


def python(functions: int) -> ParsedFile:
    text = '"""Reads what is there."""\n' + "".join(FUNCTION.format(n=n) for n in range(functions))
    return parse(text.encode(), path="a.py")


def test_a_short_file_is_shown_whole():
    made = outline(python(2))
    assert made.startswith('"""Reads what is there."""')
    assert made.endswith("[:limit]\n")


def test_a_long_file_is_shown_by_its_beginning_and_all_of_its_definitions():
    beginning, _, lines = outline(python(30)).partition("\n…\n")
    assert beginning.startswith('"""Reads what is there."""')
    assert len(beginning) <= MAX_BEGINNING_CHARS
    assert lines.splitlines() == [f"def step_{n}(path, limit)  Take step {n}." for n in range(30)]


def test_the_prompt_holds_the_whole_outline_of_a_file_of_any_length():
    made = outline(python(1_000))
    assert MAX_LINES_CHARS < len(made) <= MAX_CONTENT_CHARS


def test_a_file_without_definitions_is_outlined_by_the_first_lines_of_its_pieces():
    sections = [f"# Part {n}\n\n" + "Much is said of it. " * 40 + "\n\n" for n in range(8)]
    made = outline(parse("".join(sections).encode(), path="guide.md"))
    assert made.splitlines()[-8:] == [f"# Part {n}" for n in range(8)]


def test_a_paragraph_of_one_long_line_leaves_room_for_the_others():
    text = "Much is said of it. " * 250 + "\n\n" + "# Part\n\n" + "And more of it. " * 150
    assert "# Part" in outline(parse(text.encode(), path="guide.md"))


def test_one_endless_line_is_cut():
    made = outline(parse(b"x = '" + b"a" * 100_000 + b"'\n", path="a.txt"))
    assert len(made) <= MAX_CONTENT_CHARS
