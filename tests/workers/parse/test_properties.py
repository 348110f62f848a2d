"""Properties of every file, tested with real files in several encodings."""

import codecs

import pytest

from codelode.model import RefName, RepositoryName, locate
from workers.parse import chunk, parse

#: Encodings of a text in git, each of which the reader decodes.
WRITTEN = {
    "crlf": lambda text: text.replace("\n", "\r\n").encode(),
    "order mark": lambda text: codecs.BOM_UTF8 + text.encode(),
    "no final newline": lambda text: text.rstrip("\n").encode(),
    "utf-16-le": lambda text: codecs.BOM_UTF16_LE + text.encode("utf-16-le"),
    "utf-16-be": lambda text: codecs.BOM_UTF16_BE + text.encode("utf-16-be"),
    "utf-16 unmarked": lambda text: text.encode("utf-16-le"),
    "latin-1": lambda text: (text + "# Größe\n").encode("latin-1", "replace"),
    "invalid utf-8": lambda text: text.encode() + b"# \xff\xfe\xe9\n",
    "form feeds": lambda text: text.replace("\n\n", "\n\f\n").encode(),
}
NOTES = {
    "utf-16-le": "decoded as utf-16-le",
    "utf-16-be": "decoded as utf-16-be",
    "utf-16 unmarked": "decoded as utf-16-le",
    "latin-1": "decoded as latin-1",
    "invalid utf-8": "decoded as latin-1",
}


@pytest.fixture(scope="module")
def parsed_files(real_files):
    """Return real files with what is parsed of them."""
    return [(path, data, parse(data, path=path)) for path, data in real_files]


@pytest.fixture(scope="module")
def programs(parsed_files):
    """Return Python files in ASCII with symbols, whose names every encoding keeps."""
    return [
        (path, data.decode(), lines_of(parsed))
        for path, data, parsed in parsed_files
        if path.endswith(".py")
        and data.isascii()
        and not any(byte in data for byte in (b"\r", b"\f"))
        and b"def " in data
    ]


def lines_of(parsed):
    return [(s.qualified_name, s.start_line, s.end_line) for s in parsed.symbols]


@pytest.mark.parametrize("how", WRITTEN)
def test_symbols_are_at_the_same_lines_in_every_encoding(programs, how):
    assert len(programs) > 30
    for path, text, lines in programs[::4]:
        parsed = parse(WRITTEN[how](text), path=path)
        assert lines_of(parsed) == lines
        assert parsed.health.detail == NOTES.get(how, "")


def test_a_symbol_s_name_is_on_its_lines(parsed_files):
    for _, data, parsed in parsed_files:
        lines = data.decode("utf-8", "replace").split("\n")
        for symbol in parsed.symbols:
            text = "\n".join(lines[symbol.start_line - 1 : symbol.end_line])
            assert symbol.name in text
            assert len(symbol.signature) <= 200
            assert symbol.start_line <= symbol.end_line <= len(lines)


def test_a_piece_starts_at_the_line_of_its_first_byte(parsed_files):
    for _, data, parsed in parsed_files:
        if parsed.health.detail.startswith("decoded as utf-16"):
            continue
        for piece in parsed.pieces:
            assert piece.start_line == data.count(b"\n", 0, piece.start_byte) + 1
            assert len(piece.content.encode()) <= chunk.MAX_BYTES


def test_ids_are_the_same_every_time_and_differ_within_a_file(parsed_files):
    for path, data, parsed in parsed_files[::3]:
        once, again = (
            [
                one.id
                for one in locate(
                    of,
                    repository=RepositoryName("r"),
                    path=path,
                    refs=(RefName("main"),),
                )
            ]
            for of in (parsed, parse(data, path=path))
        )
        assert once == again
        assert len(set(once)) == len(once)


def test_a_binary_file_with_nuls_is_not_decoded_as_utf_16():
    assert parse(b"\0\x01" * 100 + b"\0\0", path="a.bin").health.detail == ""
