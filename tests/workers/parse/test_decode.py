"""Any bytes decode to text, with a note if they are not UTF-8."""

import pytest

from workers.parse import decode, parse

TEXT = "class Größe:\n    pass\n"


@pytest.mark.parametrize(
    ("data", "note"),
    [
        pytest.param(TEXT.encode(), "", id="utf-8"),
        pytest.param(TEXT.encode("utf-8-sig"), "", id="utf-8 with order mark"),
        pytest.param(
            b"\xff\xfe" + TEXT.encode("utf-16-le"), "decoded as utf-16-le", id="utf-16-le"
        ),
        pytest.param(
            b"\xfe\xff" + TEXT.encode("utf-16-be"), "decoded as utf-16-be", id="utf-16-be"
        ),
        pytest.param(TEXT.encode("latin-1"), "decoded as latin-1", id="latin-1"),
    ],
)
def test_every_encoding_gives_the_text_and_its_symbols(data, note):
    assert decode(data) == (TEXT, note)
    parsed = parse(data, path="a.py")
    assert [symbol.name for symbol in parsed.symbols] == ["Größe"]
    assert parsed.health.detail == note
    assert parsed.pieces[-1].end_byte == len(data)


def test_half_a_utf16_character_is_latin1():
    assert decode(b"\xff\xfea")[1] == "decoded as latin-1"


def test_an_empty_file_is_empty_text():
    assert decode(b"") == ("", "")
