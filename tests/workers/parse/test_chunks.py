"""Chunks partition the file, keep their size limits, and are cut where a reader would cut."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codelode.definitions import definition, headed
from codelode.model import Kind, embedding_text, locate
from tests.examples import examples
from tests.processor_time import processor_time_below
from workers.parse import chunk, decode, parse
from workers.parse.pieces import OVERLAP_CHARS

SAMPLES = sorted((Path(__file__).parent / "samples").iterdir())
PATHS = ("a.py", "a.js", "a.ts", "a.go", "a.c", "a.json", "a.md", "a.txt", "a.kt", "a.unknown")
FRAGMENTS = (
    "def f(x):", "    return x", "class A {", "}", "function g() {", "// note", "# note", "/* a",
    "*/", "@decorated", "\tx = [1, 2, 3]", "é = '😀'", "\f", '"""', "{", "[", "func h() {", "",
    "   ", "x" * 300, "# Heading", "import os", "type T struct {", "#define A 1",
)  # fmt: skip
ENDS = ("\n", "\r\n", "\r", "\n\n")


def texts():
    line = st.tuples(st.sampled_from(FRAGMENTS), st.sampled_from(ENDS)).map("".join)
    return st.lists(line, max_size=120).map("".join)


def files():
    encoded = st.tuples(texts(), st.sampled_from(("utf-8", "utf-8-sig", "utf-16", "utf-16-be")))
    return st.one_of(
        encoded.map(lambda pair: pair[0].encode(pair[1])),
        texts().map(lambda text: text.encode().rstrip()),
        texts().map(lambda text: text.encode() + b"\xff\xe9 tail"),
        st.binary(max_size=2_000),
    )


def assert_partition(data, parsed):
    at, line = 0, 1
    text = decode(data)[0]
    contents = []
    for piece in parsed.pieces:
        assert piece.start_byte == at < piece.end_byte
        assert piece.start_line == line
        assert piece.end_line == line + piece.content[:-1].count("\n")
        assert len(piece.content.encode()) <= chunk.MAX_BYTES
        assert piece.overlap <= min(OVERLAP_CHARS, len("".join(contents[-1:])))
        at = piece.end_byte
        line += piece.content.count("\n")
        contents.append(piece.content)
    assert at == len(data) or not text
    assert "".join(contents) == text


@settings(max_examples=examples(150, short=50), deadline=None)
@given(data=files(), path=st.sampled_from(PATHS))
def test_pieces_partition_any_file_byte_for_byte(data, path):
    assert_partition(data, parse(data, path=path))


@pytest.mark.slow
def test_pieces_partition_real_files(real_files):
    assert len(real_files) > 100
    for path, data in real_files:
        assert_partition(data, parse(data, path=path))


@given(data=files(), path=st.sampled_from(PATHS))
def test_an_overlap_is_the_text_right_before_the_chunk(data, path):
    parsed, text = parse(data, path=path), decode(data)[0]
    lengths = [len(piece.content) for piece in parsed.pieces]
    places = [sum(lengths[:at]) for at, piece in enumerate(parsed.pieces) if piece.content.strip()]
    for at, (piece, made) in zip(places, located(parsed), strict=True):
        assert text[:at].endswith(made.overlap)
        assert len(made.overlap) == piece.overlap


@settings(max_examples=examples(30, short=10), deadline=None)
@given(data=files(), path=st.sampled_from(PATHS))
def test_ids_do_not_depend_on_overlaps(data, path):
    parsed = parse(data, path=path)
    bare = replace(parsed, pieces=tuple(replace(piece, overlap=0) for piece in parsed.pieces))
    assert [made.id for _, made in located(parsed)] == [made.id for _, made in located(bare)]


@pytest.mark.slow
def test_a_chunk_records_the_lines_of_its_definitions(real_files):
    checked = 0
    for path, data in [*real_files, *((f"src/{one.name}", one.read_bytes()) for one in SAMPLES)]:
        parsed, lines = parse(data, path=path), decode(data)[0].split("\n")
        for _, made in located(parsed):
            assert bool(made.definitions) is bool(made.symbol)
            names = [(name, headed(made, name, name)) for name in made.symbols]
            for name, under in [("", made), *names] if made.symbol else []:
                assert_defined(parsed, lines, under.symbol, definition(under), name)
                checked += 1
    assert checked > 1_000


def assert_defined(parsed, lines, symbol, found, name):
    of = [s for s in parsed.symbols if symbol in (s.name, s.qualified_name)]
    of = [s for s in of if s.start_line <= found.line <= s.end_line]
    assert found.signature in {s.signature for s in of}, (symbol, found, of)
    if parsed.language != "notebook" and of[0].kind is not Kind.BLOCK:
        assert (name or of[0].name) in lines[found.line - 1]


def located(parsed):
    """Yield the pieces that become chunks, each with its chunk."""
    shown = [piece for piece in parsed.pieces if piece.content.strip()]
    return list(zip(shown, locate(parsed, repository="r", path="p", refs=()), strict=True))


def test_content_is_the_decoded_bytes_of_its_range(real_files):
    for path, data in real_files[::5]:
        parsed = parse(data, path=path)
        if parsed.health.detail:
            continue  # not UTF-8
        for piece in parsed.pieces:
            assert data[piece.start_byte : piece.end_byte].decode("utf-8-sig") == piece.content


@settings(max_examples=examples(30, short=10), deadline=None)
@given(data=files(), path=st.sampled_from(PATHS))
def test_parsing_is_deterministic(data, path):
    assert parse(data, path=path) == parse(data, path=path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "path"),
    [
        pytest.param(b"x" * 2_000_000, "a.py", id="one identifier"),
        pytest.param(b"var a=1;" * 20_000, "a.js", id="one line of statements"),
        pytest.param(b"[" * 100_000, "a.json", id="unclosed brackets"),
        pytest.param(b"(" * 100_000, "a.py", id="unclosed parentheses"),
        pytest.param(b"[\n" * 100_000 + b"]\n" * 100_000, "a.json", id="nested lines"),
        pytest.param(b"function a(){\n" * 10_000 + b"}\n" * 10_000, "a.js", id="nested functions"),
        pytest.param(b"# a\n" * 50_000, "a.py", id="comments"),
        pytest.param(b"/* a \n*/ */\n" * 5_000, "a.js", id="broken comments"),
        pytest.param(b"*/\n" * 20_000 + b"x=1\n", "a.js", id="closers"),
        pytest.param(b"x y\xc3\xa9 " * 200_000, "a.txt", id="one line of prose"),
        pytest.param(b"use a::{" * 10_000, "a.rs", id="nested imports"),
    ],
)
def test_generated_files_are_parsed_in_time_and_in_bounds(data, path):
    with processor_time_below(60):
        parsed = parse(data, path=path)
    assert_partition(data, parsed)


def function(name, lines=20):
    return f"def {name}():\n" + f"    {name} = compute_something_long(argument)\n" * lines


def lines_of(piece):
    return (piece.start_line, piece.end_line)


def parse_text(text, path="a.py"):
    return parse(text.encode(), path=path).pieces


def test_a_small_file_is_one_chunk():
    assert len(parse_text("import os\n\n\ndef f():\n    pass\n")) == 1


def test_a_function_that_fits_is_not_divided():
    pieces = parse_text(function("a", 42) + "\n\n" + function("b", 42))
    assert [piece.symbol for piece in pieces] == ["a", "b"]


def test_small_neighbours_are_merged():
    pieces = parse_text("\n\n".join(function(f"f{i}", 3) for i in range(20)))
    assert 2 <= len(pieces) <= 4
    assert all(len(piece.symbols) > 3 for piece in pieces)


def test_a_class_that_fits_stays_whole():
    small_class = "class A:\n" + "".join(
        f"    def m{i}(self):\n        return self.value_of_something\n\n" for i in range(30)
    )
    pieces = parse_text(
        function("before", 32) + "\n\n" + small_class + "\n" + function("after", 32)
    )
    assert [piece.symbol for piece in pieces] == ["before", "A", "after"]


def test_a_large_class_is_divided_at_its_methods():
    methods = "".join(
        f"    def m{i}(self):\n" + "        self.value = compute_something(self)\n" * 25 + "\n"
        for i in range(6)
    )
    pieces = parse_text('class A:\n    """Doc."""\n\n' + methods)
    assert pieces[0].content.startswith("class A:")
    assert all("def m" in piece.content.splitlines()[0] for piece in pieces[1:])
    assert {piece.header for piece in pieces[1:]} == {"class A"}


def test_parts_of_a_divided_function_name_it():
    pieces = parse_text(function("long", 200))
    assert len(pieces) > 2
    assert {piece.symbol for piece in pieces} == {"long"}
    assert {piece.kind for piece in pieces} == {Kind.FUNCTION}
    assert [piece.symbols for piece in pieces] == [("long",), *[()] * (len(pieces) - 1)]
    assert [piece.header for piece in pieces] == ["", *["def long()"] * (len(pieces) - 1)]


@pytest.mark.parametrize("lines", [20, 51, 52, 53, 120])
def test_the_line_that_opens_a_class_never_ends_the_chunk_before(lines):
    method = (
        "    def m(self):\n" + "        self.value = compute_something_long(argument)\n" * lines
    )
    pieces = parse_text(function("before", 30) + "\n\nclass A:\n" + method)
    opened = next(piece for piece in pieces if "class A:" in piece.content)
    assert opened.content.startswith("class A:\n    def m(self):")
    assert opened.symbol == "A"


def test_a_class_stays_with_a_docstring_too_long_for_one_chunk():
    docstring = '    """Doc.\n\n' + f"    {'word ' * 12}\n" * 60 + '    """\n'
    pieces = parse_text(function("before", 30) + f"\n\nclass A:\n{docstring}\n    x = 1\n")
    assert "class A:" not in pieces[0].content
    assert next(p for p in pieces if "class A:" in p.content).symbol == "A"


def test_a_chunk_is_named_after_the_single_class_of_its_module():
    methods = "".join(f"    def m{i}\n      compute_something({i})\n    end\n\n" for i in range(9))
    text = f"module Outer\n  class Inner\n{methods}  end\nend\n"
    assert [piece.symbol for piece in parse_text(text, "a.rb")] == ["Outer.Inner"]


def test_a_chunk_with_several_definitions_of_a_module_is_named_after_the_module():
    classes = "".join(
        f"  class C{i}\n    def m\n      compute_something({i})\n    end\n  end\n\n"
        for i in range(6)
    )
    assert [piece.symbol for piece in parse_text(f"module Outer\n{classes}end\n", "a.rb")] == [
        "Outer"
    ]


COMMENTED = [
    pytest.param("a.py", "# about b\n# more\n", "def b():\n", "    pass\n", id="line comments"),
    pytest.param("a.py", "@one\n@other(\n    1\n)\n", "def b():\n", "    pass\n", id="decorators"),
    pytest.param("a.js", "/**\n * About b.\n */\n", "function b() {\n", "}\n", id="block comment"),
    pytest.param("a.rs", "/// About b.\n#[test]\n\n#[x]\n", "fn b() {\n", "}\n", id="attributes"),
    pytest.param("a.ex", '@doc """\nDoc.\n"""\n@spec b\n', "def b do\n", "end\n", id="elixir's"),
    pytest.param("a.kt", "import a\n\n/** B. */\n", "class b {\n", "}\n", id="in an import list"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "comment", "head", "tail"), COMMENTED)
def test_comments_and_attributes_stay_with_what_they_describe(path, comment, head, tail):
    mark = "# " if path.endswith((".py", ".ex")) else "// "
    filler = f"{mark}{'word ' * 12}\n" * 45
    body = f"    {mark}{'body ' * 12}\n" * 30
    pieces = parse_text(f"{filler}\n\n{comment}{head}{body}{tail}", path)
    at = next(piece for piece in pieces if head in piece.content)
    assert comment.rsplit("\n\n", 1)[-1] in at.content


def test_no_small_chunks_are_left_beside_a_large_class():
    methods = "".join(
        f"  m{i}() {{\n" + "    this.value = computeSomething(this);\n" * 40 + "  }\n"
        for i in range(4)
    )
    pieces = parse_text(f"class A {{\n{methods}}}\n", "a.js")
    assert all(piece.end_line - piece.start_line > 10 for piece in pieces)


def overlaps(text, path="a.py"):
    return [made.overlap for _, made in located(parse(text.encode(), path=path))]


def test_parts_of_a_divided_function_overlap_with_the_lines_before_them():
    line = "    long = compute_something_long(argument)\n"
    first, *others = overlaps(function("long", 200))
    assert first == ""
    assert others
    assert set(others) == {line * (300 // len(line))}


def test_a_change_in_one_part_changes_the_overlap_of_the_next_but_not_its_id():
    text = function("long", 200)
    cut = len(parse_text(text)[0].content)
    edited = f"{text[: cut - 10]}somewhat{text[cut - 2 :]}"
    (_, old), (_, new) = (located(parse(t.encode(), path="a.py"))[1] for t in (text, edited))
    assert (new.id, new.content) == (old.id, old.content)
    assert new.overlap == f"{old.overlap[:-10]}somewhat)\n"
    assert new.overlap + new.content in embedding_text(new)


def test_a_line_too_long_for_an_overlap_is_cut():
    first, *others = overlaps("é" * 9_000, "a.txt")
    assert first == ""
    assert {len(overlap) for overlap in others} == {300}


def test_an_overlap_is_never_more_than_the_chunk_before():
    text = "Short.\n" + "word " * 1_200
    pieces = parse_text(text + "\n" * 3_000 + text, "a.txt")
    assert all(after.overlap <= len(before.content) for before, after in pairwise(pieces))


def test_blank_text_gives_no_overlap():
    text = "word " * 280 + "\n" * 3_000 + "other " * 280
    pieces = parse_text(text, "a.txt")
    blank = [at for at, piece in enumerate(pieces) if not piece.content.strip()]
    assert blank
    assert all(pieces[at + 1].overlap == 0 for at in blank)


BETWEEN = [
    pytest.param("a.py", "def f{}():\n{}\n\n", id="functions"),
    pytest.param("a.py", "# About it.\n@one\n@two(1)\ndef f{}():\n{}\n\n", id="decorated"),
    pytest.param("a.js", "/**\n * About it.\n */\nfunction f{}() {{\n{}}}\n\n", id="commented"),
    pytest.param("a.rs", "/// It.\n#[inline]\npub fn f{}() {{\n{}}}\n\n", id="attributes"),
    pytest.param("a.cpp", "template <class T>\nT f{}() {{\n{}}}\n\n", id="templates"),
    pytest.param("a.md", "# Title {}\n\n{}\n", id="sections"),
]


@pytest.mark.parametrize(("path", "form"), BETWEEN)
def test_a_cut_between_whole_definitions_needs_no_overlap(path, form):
    body = "    compute_something_long();\n" * 35
    found = overlaps("".join(form.format(at, body) for at in range(8)), path)
    assert len(found) > 3
    assert set(found) == {""}


@pytest.mark.parametrize("path", ["a.js", "a.ts"])
@pytest.mark.parametrize("head", ["function outer() {", "export const outer = () => {"])
def test_a_definition_inside_a_function_needs_no_overlap(path, head):
    body = "    computeSomethingLong();\n" * 45
    inner = "".join(f"  // Of it.\n  async function f{i}() {{\n{body}  }}\n" for i in range(5))
    found = overlaps(f"{head}\n{inner}}}\n", path)
    assert len(found) > 3
    assert set(found) == {""}


def test_parts_of_a_long_literal_overlap_with_the_lines_before_them():
    entries = "".join(f"  key{i}: 'value {i}',\n" for i in range(400))
    first, *others = overlaps(f"export const names = {{\n{entries}}};\n", "a.js")
    assert first == ""
    assert len(others) > 2
    assert all(250 < len(overlap) <= 300 and overlap.startswith("  key") for overlap in others)


def test_prose_without_headings_overlaps_with_the_lines_before_it():
    paragraph = "Some words about it, and more of them.\n" * 9 + "\n"
    first, *others = overlaps(paragraph * 12, "a.md")
    assert first == ""
    assert others
    assert all(250 < len(overlap) <= 300 and overlap.startswith("Some") for overlap in others)


def test_a_divided_function_of_a_notebook_overlaps_with_the_lines_before_it():
    code = ["def long():\n", *["    value = compute_something_long(argument)\n"] * 200]
    notebook = {"cells": [{"cell_type": "code", "source": code}], "metadata": {}}
    first, *others = overlaps(json.dumps(notebook, indent=1), "a.ipynb")
    assert first == ""
    assert len(others) > 2
    assert all("compute_something_long" in overlap for overlap in others)


def test_blank_lines_belong_to_the_chunk_before_them():
    pieces = parse_text(function("a", 40) + "\n\n\n" + function("b", 40))
    assert pieces[1].content.startswith("def b")


def test_prose_is_cut_at_headings():
    section = "# Title {}\n\n" + "Some words about it. " * 35 + "\n\n"
    pieces = parse_text("".join(section.format(i) for i in range(8)), "a.md")
    assert len(pieces) > 4
    assert all(piece.content.startswith("# Title") for piece in pieces)
    assert {piece.kind for piece in pieces} == {Kind.TEXT}


def test_code_that_defines_nothing_is_a_block():
    (piece,) = parse_text("print(1)\n")
    assert (piece.kind, piece.symbol, piece.symbols, piece.header) == (Kind.BLOCK, "", (), "")


def test_lines_count_newlines_only():
    (piece,) = parse_text("a = 1\r\nb = '\f'\rc = 2\n\td = 3")
    assert lines_of(piece) == (1, 3)
