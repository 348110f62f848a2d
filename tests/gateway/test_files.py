"""Reading lines of an indexed file: the text is that of the file at the indexed commit."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from codelode.access import EVERYTHING, Principal, Role
from codelode.errors import InvalidQuery, NotFound
from gateway import service
from gateway.service.files import MAX_CHARS, MAX_LINES
from gateway.service.requests import ReadRequest
from tests.worlds import blob, indexed

ROOT = Path(__file__).parents[2]
#: Real files in several languages, with long definitions, blank lines, tables, and nested text.
REAL = (
    *("README.md", "Makefile", "docker-compose.yml", "pyproject.toml", "codelode/model.py"),
    *("codelode/backends/redis/ledger.lua", "protos/codelode/v1/search.proto"),
    *("workers/parse/queries/go.scm", "tests/gateway/test_leaks.py", "deploy/services.sh"),
)
LONG = "".join(f"value_{number} = {number}\n" for number in range(3 * MAX_LINES))
FILES = {
    **{path: (ROOT / path).read_text() for path in REAL},
    "long.py": LONG,
    "wide.txt": "word " * MAX_CHARS + "\nthe end\n",
    "windows.py": "def load():\r\n\r\n    return 1\r\n",
    "gaps.py": "\n\na = 1\n\n\n\nb = 2\n\n\n",
    "empty.py": "",
}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return indexed(tmp_path_factory.mktemp("data"), FILES)


@pytest.fixture
def read(world):
    """`read(path, start, end)` asks the service as an admin."""

    def read(path, start=0, end=0, **given):
        request = ReadRequest(path, start_line=start, end_line=end, **given)
        principal = Principal("somebody", Role.READER, EVERYTHING)
        return asyncio.run(service.read(world.dependencies, principal, request))

    return read


def lines_of(text):
    return text.replace("\r\n", "\n").rstrip("\n").split("\n")


@pytest.mark.parametrize("path", [*REAL, "windows.py", "gaps.py"])
def test_the_whole_text_is_returned(read, path):
    found = read(path)

    expected = lines_of(FILES[path])
    assert found.content.split("\n") == expected
    assert (found.start_line, found.end_line) == (1, len(expected))
    assert (found.line_count, found.truncated) == (len(expected), False)


def test_lines_come_with_their_place_and_commit(read):
    found = read("./codelode/model.py", 10, 14)

    assert found.content.split("\n") == lines_of(FILES["codelode/model.py"])[9:14]
    assert (found.repository, found.path) == ("acme/app", "codelode/model.py")
    assert (found.language, found.revision) == ("python", blob("acme/app"))
    assert found.url == ""  # host.example is no known code host
    assert [one.repository for one in found.coverage] == ["acme/app"]
    assert read("codelode/model.py", 10).start_line == 10


def test_a_commit_id_means_the_ref_that_is_indexed_at_that_commit(read):
    commit = blob("acme/app")

    assert read("gaps.py", ref=commit) == read("gaps.py", ref="main")
    with pytest.raises(InvalidQuery, match="there is no ref"):
        read("gaps.py", ref=blob("another commit"))


def test_a_long_file_is_read_in_parts(read):
    parts, start = [], 1
    while True:
        found = read("long.py", start)
        parts += found.content.split("\n")
        assert len(found.content) <= MAX_CHARS
        if not found.truncated:
            break
        start = found.end_line + 1

    assert parts == lines_of(LONG)
    assert read("long.py", 5, 6_000).end_line == 5 + MAX_LINES - 1


def test_a_line_that_is_longer_than_an_answer_is_cut(read):
    found = read("wide.txt")

    assert (found.end_line, found.truncated, len(found.content)) == (1, True, MAX_CHARS)
    assert read("wide.txt", 2).content == "the end"


@pytest.mark.parametrize(
    ("path", "start", "end", "says"),
    [
        ("", 0, 0, "path: is empty"),
        ("gaps.py", -1, 0, "start_line: is -1; lines begin at 1"),
        ("gaps.py", 3, 2, "end_line: is 2, which is before the first line 3"),
        ("gaps.py", 8, 0, "start_line: is 8; the file ends with line 7"),
    ],
)
def test_lines_outside_the_file_are_refused(read, path, start, end, says):
    with pytest.raises(InvalidQuery) as refused:
        read(path, start, end)
    assert says in str(refused.value)


@pytest.mark.parametrize("path", ["gone.py", "empty.py"])
def test_a_file_that_is_not_indexed_is_reported(read, path):
    with pytest.raises(NotFound, match="acme/app holds no indexed file"):
        read(path)
