"""Exact search finds all matches inside the filters, or says where it stopped."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from codelode import deadline
from codelode.access import EVERYTHING, Principal, Role, Visibility
from codelode.backends.memory.chunks import MemoryChunkStore
from codelode.errors import InvalidQuery, TimedOut
from codelode.settings import Settings
from gateway import service
from gateway.service.grep import LINES_PER_PART
from gateway.service.published import Published
from gateway.service.queries import MAX_UNNARROWED
from gateway.service.requests import GivenFilters, GrepRequest
from tests.worlds import World, blob, indexed

ROOT = Path(__file__).parents[2]
REAL = (
    *("README.md", "Makefile", "docker-compose.yml", "pyproject.toml", "codelode/model.py"),
    *("codelode/backends/redis/ledger.lua", "protos/codelode/v1/search.proto"),
    *("workers/parse/queries/go.scm", "tests/gateway/test_leaks.py", "deploy/services.sh"),
)
FILES = {path: (ROOT / path).read_text() for path in REAL}
FILLER = "".join(f"        value = value + {number} * value\n" for number in range(40))
OTHER = {
    "src/a.py": f"def load(value):\n    if needle:\n{FILLER}    return value\n\n\n"
    f"class Model:\n    def save(self, value):\n        if needle:\n    {FILLER}\n\nneedle = 1\n"
}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    made = indexed(tmp_path_factory.mktemp("data"), FILES)
    made.index("acme/other", OTHER)
    return made


@pytest.fixture
def grep_parts(world):
    def grep(pattern, *, visible=EVERYTHING, filters=None, **given):
        request = GrepRequest(pattern, filters=GivenFilters(**filters or {}), **given)
        principal = Principal("somebody", Role.READER, visible)

        async def collect():
            return [one async for one in service.grep(world.dependencies, principal, request)]

        return asyncio.run(collect())

    return grep


@pytest.fixture
def grep(grep_parts):
    def grep(pattern, **given):
        *parts, last = grep_parts(pattern, **given)
        return [file for part in parts for file in part.files], last.summary

    return grep


def test_files_are_batched_up_to_a_number_of_lines(grep_parts):
    *parts, last = grep_parts("    ", limit=100_000)

    lines = [[len(file.lines) for file in part.files] for part in parts]
    assert sum(map(sum, lines)) == last.summary.count
    assert max(map(len, lines)) > 1
    assert all(sum(part[:-1]) < LINES_PER_PART for part in lines)
    assert sum(map(sum, lines)) > LINES_PER_PART


@pytest.mark.parametrize("text", ["RepositoryName", "local ", " ->", "def test_", "  return"])
def test_every_line_with_the_text_is_found_and_no_other(grep, text):
    found, summary = grep(text, literal=True, limit=10_000, filters={"repositories": ["acme/app"]})

    lines = {(file.path, line.number): line.text for file in found for line in file.lines}
    assert lines == {
        (path, number): line
        for path, content in FILES.items()
        for number, line in enumerate(content.split("\n"), 1)
        if text in line
    }
    assert (summary.complete, summary.count, summary.notices) == (True, len(lines), ())
    assert [file.count for file in found] == [len(file.lines) for file in found]
    assert [file.path for file in found] == sorted(file.path for file in found)


def test_files_without_the_trigrams_are_not_read(grep):
    _, summary = grep("VisibleCatalogue of nothing")

    assert (summary.read_files, summary.files, summary.complete) == (0, 0, True)


def test_an_answer_says_what_is_indexed_and_where(grep):
    (file,), summary = grep("needle =")

    assert (file.repository, file.path, file.language) == ("acme/other", "src/a.py", "python")
    assert file.revision == blob("acme/other")
    assert [one.repository for one in summary.coverage] == ["acme/other"]


def test_a_search_that_reaches_its_limit_says_where_it_stopped(grep):
    found, summary = grep("the", limit=5)

    assert sum(file.count for file in found) == summary.count == 5
    assert not summary.complete
    assert f"stopped in acme/app {found[-1].path} at the limit of 5 lines" in summary.notices[0]


def test_lines_of_one_file_are_bounded_and_lines_may_be_left_out(grep):
    found, summary = grep("the", limit_per_file=1, without_lines=True)

    assert {(file.count, file.lines) for file in found} == {(1, ())}
    assert summary.complete


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"symbols": ["loa*"]}, [2]),
        ({"symbols": ["Model"], "kinds": ["class"]}, [48, 91]),
        ({"kinds": ["function"]}, [2]),
        ({"languages": ["python"]}, [2, 48, 91]),
        ({"paths": ["!src/**"]}, []),
        ({"kinds": ["interface"]}, []),
    ],
)
def test_filters_of_chunks_admit_their_lines_alone(grep, filters, expected):
    found, _ = grep("needle", filters={"repositories": ["acme/other"], **filters})

    assert [line.number for file in found for line in file.lines] == expected


def test_a_pattern_without_trigrams_reads_the_filtered_files_and_adds_a_notice(grep):
    found, summary = grep("=", filters={"repositories": ["acme/other"]})

    assert 91 in [line.number for file in found for line in file.lines]
    assert "no three characters in a row" in summary.notices[0]


@pytest.mark.slow
def test_a_pattern_without_trigrams_is_refused_where_many_files_would_be_read(grep, world):
    many = {f"many/{number}.txt": "a = 1\n" for number in range(MAX_UNNARROWED)}
    world.index("acme/wide", {**many, "src/b.txt": "b = 1\n"})

    with pytest.raises(InvalidQuery, match=r"has no three characters in a row .* filters"):
        grep("=", filters={"repositories": ["acme/wide"]})
    assert grep("=", filters={"repositories": ["acme/wide"], "paths": ["src/*"]})[1].count == 1


def test_hidden_repositories_are_treated_as_absent(grep):
    seen = Visibility.of({"acme/app"})

    assert grep("needle =", visible=seen)[0] == []
    with pytest.raises(InvalidQuery, match="there is no repository 'acme/other'"):
        grep("needle", visible=seen, filters={"repositories": ["acme/other"]})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("limit", 0), ("limit", 100_001), ("before_lines", -1), ("after_lines", 51)),
        *(("limit_per_file", -1), ("pattern", "")),
    ],
)
def test_a_value_out_of_bounds_is_refused_by_its_name(grep, field, value):
    with pytest.raises(InvalidQuery) as refused:
        grep(**{"pattern": "needle", field: value})
    assert refused.value.field == field


def test_a_search_ends_with_the_call_that_asked_for_it(grep):
    with pytest.raises(TimedOut), deadline.calling(0.0):
        grep("needle")


def test_a_file_that_is_removed_before_it_is_read_has_no_match(world):
    class Removed(MemoryChunkStore):
        async def holding(self, asked):
            return [("acme/app", "gone.py")]

    backends = replace(world.dependencies.published.backends, chunks=Removed())
    dependencies = replace(world.dependencies, published=Published(backends))
    somebody = Principal("somebody", Role.READER, EVERYTHING)

    async def collect():
        parts = service.grep(dependencies, somebody, GrepRequest("x*"))
        return [part async for part in parts]

    (last,) = asyncio.run(collect())
    assert (last.summary.files, last.summary.complete) == (0, True)


class Changing:
    """A chunk store in which the files are replaced after each read."""

    def __init__(self, world):
        self.world = world
        self.chunks = world.dependencies.published.backends.chunks

    def __getattr__(self, name):
        return getattr(self.chunks, name)

    async def texts(self, places, ref):
        return self._replaced(await self.chunks.texts(places, ref))

    async def files(self, places, ref):
        return self._replaced(await self.chunks.files(places, ref))

    def _replaced(self, found):
        self.world.index("acme/other", {"src/a.py": "# later\n" * 200 + OTHER["src/a.py"]})
        return found


def test_lines_and_the_ranges_that_filters_admit_come_from_one_read(tmp_path):
    world = World(Settings(data=tmp_path))
    world.index("acme/other", OTHER)
    backends = replace(world.dependencies.published.backends, chunks=Changing(world))
    dependencies = replace(world.dependencies, published=Published(backends))
    somebody = Principal("somebody", Role.READER, EVERYTHING)
    request = GrepRequest("needle", filters=GivenFilters(symbols=["Model"]))

    async def collect():
        return [part async for part in service.grep(dependencies, somebody, request)]

    found, _ = asyncio.run(collect())
    (file,) = found.files
    assert [line.number for line in file.lines] == [48, 91]


@pytest.mark.parametrize(
    ("pattern", "filters", "said"),
    [
        ("def", {"paths": ("nowhere/**",)}, "filters.paths: 'nowhere/**' matches no indexed code"),
        ("def", {"paths": ("model.py",)}, "files of any folder are '**/model.py'"),
        ("path:nowhere/** def", {}, "filters.paths: 'nowhere/**' matches no indexed code"),
        ("def", {"not_paths": ("nowhere/**",)}, "matches no indexed file and leaves nothing out"),
    ],
)
def test_a_filter_that_matches_nothing_is_named(grep, pattern, filters, said):
    _, summary = grep(pattern, filters=filters)

    assert [said in notice for notice in summary.notices].count(True) == 1
