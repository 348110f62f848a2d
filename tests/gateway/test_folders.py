"""Listing a folder shows its folders and files at the indexed commit, page by page."""

from __future__ import annotations

import asyncio

import pytest

from codelode.access import EVERYTHING, Principal, Role, Visibility
from codelode.errors import InvalidQuery, NotFound
from codelode.model import FileRecord, FileState, RefStatus
from codelode.settings import Settings
from gateway import service
from gateway.service.folders import KnownFiles
from gateway.service.requests import FilesRequest
from tests.worlds import World, blob

FILES = {
    "README.md": "# Read me\n",
    "src/a.py": "a = 1\n",
    "src/api/b.go": "package api\n",
    "src/api/deep/er/c.py": "c = 1\n",
    "src2/d.py": "d = 1\n",
}
MANY = {f"many/file{number}.txt": f"{number}\n" for number in range(25)}


@pytest.fixture
def world(tmp_path):
    made = World(Settings(data=tmp_path))
    made.index(
        "acme/app", FILES, failed={"src/bad.js": "too deep"}, skipped={"src/z.bin": "binary"}
    )
    made.index("acme/many", MANY, ref="trunk")
    return made


@pytest.fixture
def listed(world):
    """`listed(path, …)` asks the service as a reader of everything, or of what `visible` says."""

    def ask(path="", repository="acme/app", visible=EVERYTHING, **given):
        request = FilesRequest(repository, path=path, **given)
        principal = Principal("somebody", Role.READER, visible)
        return asyncio.run(service.files(world.dependencies, principal, request))

    return ask


def shown(found):
    return [f"{one.name}/" if one.is_folder else f"{one.name} {one.state}" for one in found.entries]


@pytest.mark.parametrize(
    ("path", "entries"),
    [
        ("", ["src/", "src2/", "README.md indexed"]),
        ("src", ["api/", "a.py indexed", "bad.js failed", "z.bin skipped"]),
        ("./src/api/", ["deep/", "b.go indexed"]),
        ("src/api/deep", ["er/"]),
    ],
)
def test_a_folder_shows_its_folders_and_the_state_of_its_files(listed, path, entries):
    found = listed(path)

    assert shown(found) == entries
    assert found.entry_count == len(entries)
    assert found.next_page_token == ""


def test_a_listing_tells_its_ref_commit_and_languages(listed):
    found = listed("src/api")

    assert (found.repository, found.ref, found.path) == ("acme/app", "main", "src/api")
    assert found.revision == blob("acme/app")
    assert [one.language for one in found.entries] == ["", "go"]
    assert [one.repository for one in found.coverage] == ["acme/app"]
    assert listed("src/api", ref=found.revision) == found


def test_a_large_folder_is_listed_in_pages(listed):
    names, token = [], ""
    while True:
        found = listed("many", "acme/many", page_size=10, page_token=token)
        names += [one.name for one in found.entries]
        assert found.entry_count == len(MANY)
        token = found.next_page_token
        if not token:
            break

    assert names == sorted(path.removeprefix("many/") for path in MANY)


def test_a_listing_follows_the_index(world, listed):
    assert shown(listed("src2")) == ["d.py indexed"]

    world.index("acme/app", {"src2/e.py": "e = 1\n"})

    assert shown(listed("src2")) == ["d.py indexed", "e.py indexed"]


def test_files_are_read_once_and_those_listed_least_recently_are_dropped():
    read, kept = [], KnownFiles(most=3)

    def of(name, count):
        def records():
            read.append(name)
            return [FileRecord(f"{n}.py", blob(str(n)), FileState.INDEXED) for n in range(count)]

        return kept.get(name, RefStatus("main", blob(name), "1"), records)

    assert of("one", 2) == of("one", 2)
    assert read == ["one"]
    of("two", 1)
    of("one", 2)
    assert read == ["one", "two"]
    of("three", 1)
    of("one", 2)
    of("two", 1)
    assert read == ["one", "two", "three", "two"]


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"path": "nowhere"}, NotFound, "acme/app has no folder 'nowhere' at the ref main"),
        ({"path": "src/a.py"}, NotFound, "'src/a.py' of acme/app is a file; `codelode read`"),
        ({"path": "sr"}, NotFound, "has no folder 'sr'"),
        ({"ref": "mian"}, InvalidQuery, "there is no ref 'mian'; did you mean 'main'"),
        ({"page_size": 2_000}, InvalidQuery, "page_size: is 2,000"),
        ({"page_token": "x"}, InvalidQuery, "page_token"),
        ({"repository": "acme/none"}, InvalidQuery, "there is no repository 'acme/none'"),
    ],
)
def test_the_error_says_why_a_folder_cannot_be_listed(listed, given, error, says):
    with pytest.raises(error) as refused:
        listed(**given)
    assert says in str(refused.value)


def test_a_hidden_repository_is_listed_like_a_missing_one(listed):
    visible = Visibility.of(["acme/many"])
    told = []
    for name in ("acme/app", "acme/axx"):
        with pytest.raises(InvalidQuery) as refused:
            listed("", name, visible)
        told.append(str(refused.value).replace(name, "NAME"))

    assert told[0] == told[1]
    assert "src" not in told[0]
