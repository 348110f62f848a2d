"""Exact search gives the same answer over every chunk store, whatever the store leaves out."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from codelode.access import EVERYTHING, Principal, Role
from codelode.backends.local import LocalChunkSearch, LocalChunkStore
from codelode.model import DEFAULT_REF, FileChunks, RefName, RepositoryName
from codelode.settings import Settings
from gateway import service
from gateway.service.published import Published
from gateway.service.requests import GivenFilters, GrepRequest
from tests.contracts.test_exact_search import CLIENT, CUT, WORDS, with_text
from tests.examples import examples
from tests.worlds import DIM, World

APP = RepositoryName("acme/app")
TAIL = "".join(f"OTHER_{number} = {number}\n" for number in range(300))
FILES = {
    **CUT,
    "first.py": "needle = 1\n",
    "last.py": f"{CLIENT}\nneedle = SHUTDOWN",
    "tail.py": CLIENT.partition("\n\n\n\n")[0] + "\n" + TAIL,
}
SOMEBODY = Principal("somebody", Role.READER, EVERYTHING)


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """The dependencies over a store that returns whole texts, and over one that leaves out some."""
    world = World(Settings(data=tmp_path_factory.mktemp("data")))
    world.index(APP, FILES)
    world.index("acme/other", {"a.py": CLIENT})
    folder = tmp_path_factory.mktemp("index")
    store = LocalChunkStore(folder, dim=DIM, identity="test")
    copy(world, store)
    search = LocalChunkSearch(folder, dim=DIM, identity="test")
    backends = replace(world.dependencies.published.backends, chunks=search)
    yield world.dependencies, replace(world.dependencies, published=Published(backends))
    asyncio.run(search.close())
    store.close()


def copy(world, store):
    places = [(APP, path) for path in FILES] + [(RepositoryName("acme/other"), "a.py")]
    held = asyncio.run(world.chunks.files(places, DEFAULT_REF))
    refs = (DEFAULT_REF, RefName("main"))
    store.replace(
        [
            FileChunks(name, path, refs, chunks, np.ones((len(chunks), DIM), np.float32))
            for (name, path), chunks in held.items()
        ]
    )


def answer(dependencies, request):
    async def collect():
        return [one async for one in service.grep(dependencies, SOMEBODY, request)]

    *parts, last = asyncio.run(collect())
    return [file for part in parts for file in part.files], replace(last.summary, took_ms=0.0)


PATTERNS = [
    *("method_7", "def method_7", "SHUTDOWN", "grüße", "needle", "word1000 word1001", r"_79\(self"),
    *("^needle", "^class Client", "553$", r"\breturn\b.*\d{3}$", "self(\\.send)?", "method_[67]9"),
    *(r"\Aneedle", r"\Aclass", r"SHUTDOWN\z", r"553\z", "(?-m)^class", "(?-m)SHUTDOWN$"),
    *(r"value\) \+ \d+\z", r"(?-m)value\) \+ \d+$"),
    *("(?i)shutdown", "return.self", r"value\)\s+\+ 553", "\r    def", "Client:$", "[^:]$"),
]
HOW = [
    {},
    {"literal": True},
    {"ignore_case": True},
    {"whole_word": True},
    {"multiline": True},
    {"before_lines": 2, "after_lines": 1},
    {"limit_per_file": 2},
    {"limit": 7},
    {"without_lines": True},
    {"filters": GivenFilters(symbols=["method_7*"])},
    {"filters": GivenFilters(paths=["*.py"], ref="main")},
]


@pytest.mark.parametrize("number", range(len(PATTERNS)), ids=PATTERNS)
def test_exact_search_with_trigrams_equals_a_scan_of_whole_texts(stores, number):
    """In a short run, each pattern is searched for in another way."""
    for way in range(number, number + examples(len(HOW), short=1)):
        how = HOW[way % len(HOW)]
        whole, some = (answer(one, GrepRequest(PATTERNS[number], **how)) for one in stores)

        assert some == whole, how


@pytest.mark.parametrize("text", ["method_7", "word29", "SHUTDOWN = 'grüße", "553", "needle"])
def test_every_line_with_a_text_is_found(stores, text):
    for dependencies in stores:
        found, _ = answer(
            dependencies,
            GrepRequest(text, literal=True, filters=GivenFilters(repositories=[APP])),
        )
        expected = {
            path: list(with_text(content.replace("\r\n", "\n").encode(), text))
            for path, content in FILES.items()
        }
        shown = {file.path: [line.number for line in file.lines] for file in found}
        expected.pop("cells.ipynb")  # of which the code is indexed alone
        shown.pop("cells.ipynb", None)
        assert shown == {path: lines for path, lines in sorted(expected.items()) if lines}


def test_a_long_line_is_cut_in_the_answer(stores):
    for dependencies in stores:
        found, _ = answer(dependencies, GrepRequest("word2999'", literal=True))
        assert {(line.truncated, len(line.text)) for file in found for line in file.lines} == {
            (True, 1_000)
        }
        assert len(WORDS) > 1_000
