"""The contract of exact search in the port ChunkSearch, over every implementation."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

from codelode import grams
from codelode.access import EVERYTHING, Visibility
from codelode.backends.local import LocalChunkSearch, LocalChunkStore, keyword_index
from codelode.backends.memory.chunks import MemoryChunkStore
from codelode.backends.weaviate import WeaviateChunkSearch, WeaviateChunkStore
from codelode.file_text import file_text
from codelode.grams import NOTHING
from codelode.model import (
    Category,
    FileChunks,
    FileQuery,
    Filters,
    Kind,
    RefName,
    RepositoryName,
    locate,
)
from tests.waiting import Patient
from workers.parse import parse

DIM = 4
APP, LIB = RepositoryName("acme/app"), RepositoryName("acme/lib")
MAIN, DEV = RefName("main"), RefName("dev")

CLIENT = (
    "class Client:\n"
    + "".join(
        f"    def method_{number}(self, value):\n"
        f"        return self.send('{number}', value) + {number * 7}\n\n"
        for number in range(80)
    )
    + "\n\n\nSHUTDOWN = 'grüße Ünder'\n"
)

#: A line that is cut into several chunks.
WORDS = " ".join(f"word{number}" for number in range(3_000))

#: Texts by path, of which each is cut into chunks in its own way.
CUT = {
    "client.py": CLIENT,
    "windows.py": CLIENT.replace("\n", "\r\n"),
    "mac.txt": CLIENT.replace("\n", "\r") + "word7",
    "long.py": f"x = '{WORDS}'\n\n\n{CLIENT}",
    "minified.js": f"{CLIENT}\nvar a='{WORDS}';method_7()",
    "apart.py": CLIENT.replace("\n\n", "\n" * 40),
    "blank.py": "\n" * 300 + CLIENT + "\n\n",
    "small.md": "\n\nmethod_7 grüße\n",
    "cells.ipynb": json.dumps(
        {
            "cells": [
                {"cell_type": kind, "metadata": {}, "source": CLIENT.splitlines(keepends=True)[:60]}
                for kind in ("code", "markdown", "code")
            ],
            "metadata": {},
            "nbformat": 4,
            "nbformat_minor": 5,
        },
        indent=1,
    ),
}


class Index:
    """The write side and the read side of one index, by the texts of files."""

    def __init__(self, store, search):
        self.store, self.search = store, search

    def write(self, files, *, refs=(MAIN,), repository=APP):
        self.store.replace(
            [
                stored(repository, path, content, refs=refs)
                if content is not None
                else FileChunks(repository, path, refs)
                for path, content in files.items()
            ]
        )

    async def defining(self, *globs, visible=EVERYTHING, **filters):
        asked = Filters(**{"ref": MAIN, **filters})
        query = FileQuery(NOTHING, asked, globs, visible=visible)
        return await self.search.holding(query)

    async def paths(self, text, *, visible=EVERYTHING, **filters):
        needed = grams.of_text(text) if isinstance(text, str) else text
        query = FileQuery(needed, Filters(**{"ref": MAIN, **filters}), visible=visible)
        return [path for _, path in await self.search.holding(query)]


def stored(repository, path, content, *, refs):
    parsed = parse(content.encode(), path=path)
    chunks = locate(parsed, repository=repository, path=path, refs=refs)
    return FileChunks(repository, path, refs, chunks, np.ones((len(chunks), DIM), np.float32))


@pytest.fixture(params=["memory", "local", pytest.param("weaviate", marks=pytest.mark.server)])
async def index(request, tmp_path):
    if request.param == "memory":
        twin = MemoryChunkStore(dim=DIM)
        yield Index(twin, twin)
        return
    made = local(tmp_path) if request.param == "local" else weaviate(request.getfixturevalue)
    yield made
    await made.search.close()
    made.store.close()


def local(folder):
    return Index(
        LocalChunkStore(folder, dim=DIM, identity="test"),
        LocalChunkSearch(folder, dim=DIM, identity="test"),
    )


def weaviate(fixture):
    place = fixture("weaviate_address"), fixture("weaviate_place")
    return Index(
        WeaviateChunkStore(*place, dim=DIM, identity="test"),
        Patient(WeaviateChunkSearch(*place, dim=DIM, identity="test")),
    )


async def test_a_file_is_found_by_each_of_its_lines_and_by_texts_across_its_chunks(index):
    index.write({"client.py": CLIENT, "other.py": "def other():\n    pass\n"})
    chunks = (await index.search.files([(APP, "client.py")], MAIN))[APP, "client.py"]
    assert len(chunks) > 2

    for line in CLIENT.split("\n")[::10]:
        assert "client.py" in await index.paths(line)
    for before, after in itertools.pairwise(chunks):
        assert await index.paths(before.content[-9:] + after.content[:9]) == ["client.py"]
    assert await index.paths("+ 553\n\n\n\n\nSHUTDOWN") == ["client.py"]
    assert await index.paths("SHUTDOWM") == []


async def test_case_does_not_matter_for_ascii_and_other_letters_are_as_they_are(index):
    index.write({"client.py": CLIENT, "kelvin.txt": "Der \u212aelvin miſst\n"})

    assert await index.paths("sHUTdown") == await index.paths("grüße Ünder") == ["client.py"]
    assert await index.paths("grÜße") == []
    assert await index.paths("kelvin misst") == ["kelvin.txt"]


async def test_signs_and_white_space_are_characters_as_all_others(index):
    index.write({"a.c": "if (a->b != NULL)\n\treturn -1;\n", "b.c": "if (a.b == NULL)\n"})

    assert await index.paths(")\n\tr") == await index.paths("->b") == ["a.c"]
    assert await index.paths("a.b =") == ["b.c"]
    assert await index.paths('"^"') == []


async def test_trigrams_can_be_combined_with_and_and_or(index):
    index.write({"a.txt": "alpha beta\n", "b.txt": "gamma beta\n", "c.txt": "delta\n"})
    alpha, beta, gamma, delta = map(grams.of_text, ("alpha", "beta", "gamma", "delta"))

    either = grams.any_of([alpha, gamma])
    assert await index.paths(either) == ["a.txt", "b.txt"]
    assert await index.paths(grams.all_of([either, beta])) == ["a.txt", "b.txt"]
    assert await index.paths(grams.all_of([either, delta])) == []
    assert await index.paths(grams.any_of([grams.all_of([alpha, beta]), delta])) == [
        "a.txt",
        "c.txt",
    ]


async def test_without_trigrams_all_files_inside_the_filters_are_named(index):
    index.write({"client.py": CLIENT, "x.txt": "x\n"})

    assert await index.paths(NOTHING) == ["client.py", "x.txt"]
    assert await index.paths(NOTHING, paths=("*.txt",)) == ["x.txt"]


async def test_a_file_is_found_by_the_names_that_any_of_its_chunks_defines(index):
    index.write({"client.py": CLIENT, "use.py": "method_79()\n"})
    index.write({"lib.py": "def method_79():\n    pass\n"}, repository=LIB)
    everywhere = [(APP, "client.py"), (LIB, "lib.py")]

    assert await index.defining("method_79") == await index.defining("*hod_7?") == everywhere
    assert await index.defining("method_78", "SHUTDOWN") == everywhere[:1]
    assert await index.defining("method_79", paths=("lib.*",)) == everywhere[1:]
    assert await index.defining("method_79", kinds=(Kind.TEXT,)) == everywhere
    assert await index.defining("method_79", visible=Visibility.of([LIB])) == everywhere[1:]
    assert await index.defining("method_79", ref=DEV) == await index.defining("method") == []


async def test_a_file_is_found_by_its_text_at_the_ref(index):
    first = "def start():\n    return 'the same'\n\n" + "\n".join(
        f"LINE_{n} = {n}" for n in range(300)
    )
    index.write({"a.py": f"{first}\n# old_ending\n"}, refs=(MAIN,))
    index.write({"a.py": f"{first}\n# new_ending\n"}, refs=(DEV,))

    assert await index.paths("old_ending") == await index.paths("new_ending", ref=DEV) == ["a.py"]
    assert await index.paths("new_ending") == await index.paths("old_ending", ref=DEV) == []

    index.write({"a.py": f"{first}\n# new_ending\n"}, refs=(MAIN,))
    assert await index.paths("new_ending") == ["a.py"]
    assert await index.paths("old_ending") == []

    index.write({"a.py": None}, refs=(MAIN,))
    assert await index.paths("new_ending") == []
    assert await index.paths("new_ending", ref=DEV) == ["a.py"]


async def test_the_text_of_a_file_is_that_of_its_chunks_at_the_ref(index):
    long = "x = '" + "word " * 3_000 + "'\r\ny = 1\n"
    files = {"client.py": CLIENT, "long.py": long, "empty.md": "", "blank.py": "\n\n\na = 1\n\n\nb"}
    index.write(files, refs=(MAIN, DEV))
    index.write({"client.py": "class Other: pass\n"}, refs=(DEV,))
    places = [(APP, path) for path in (*files, "missing.py")] + [(LIB, "client.py")]

    for ref in (MAIN, DEV):
        chunks = await index.search.files(places, ref)
        expected = {
            place: (held[0].language, file_text(held).encode())
            for place, held in chunks.items()
            if held
        }
        assert await index.search.texts(places, ref) == expected
        assert len(expected) == 3
    assert (await index.search.texts(places, MAIN))[APP, "long.py"].raw.startswith(b"x = 'word w")
    assert await index.search.texts([], MAIN) == {}


def with_text(raw, text):
    """Return the lines of a file that have the text, by number."""
    lines = enumerate(raw.decode().split("\n"), 1)
    return {number: line for number, line in lines if text in line}


@pytest.mark.parametrize("refs", [(MAIN,), (MAIN, DEV)])
async def test_the_lines_with_needed_trigrams_are_at_their_place_in_a_text(index, refs):
    index.write(CUT, refs=refs)
    index.write(dict.fromkeys(CUT, CLIENT), refs=(DEV,))
    places = [(APP, path) for path in CUT]
    whole = await index.search.texts(places, MAIN)
    pieces = (await index.search.files([(APP, "long.py")], MAIN))[APP, "long.py"]
    assert len(pieces[0].content + pieces[1].content) < len(WORDS)
    across = pieces[0].content[-20:] + pieces[1].content[:20]

    for text in ("method_7(", "SHUTDOWN = 'grüße", "word2999'", "word7", "+ 553", "self", across):
        some = await index.search.texts(places, MAIN, grams.of_text(text))
        assert some.keys() <= whole.keys()
        for place, held in whole.items():
            shown = some[place].raw if place in some else b""
            assert with_text(shown, text) == with_text(held.raw, text), (place, text)
            lines = zip(shown.split(b"\n"), held.raw.split(b"\n"), strict=False)
            assert all(line in (b"", same) for line, same in lines)
            assert place not in some or some[place].language == held.language


async def test_chunks_without_the_needed_trigrams_are_not_read(tmp_path):
    index = local(tmp_path)
    index.write(CUT)
    places = [(APP, path) for path in CUT]
    whole = await index.search.texts(places, MAIN)

    some = await index.search.texts(places, MAIN, grams.of_text("SHUTDOWN"))
    for path in ("client.py", "windows.py", "apart.py", "blank.py"):
        assert len(some[APP, path].raw.split()) < 300 < len(whole[APP, path].raw.split())
    for path in ("long.py", "minified.js"):
        assert some[APP, path] == whole[APP, path]
    assert (APP, "small.md") not in some
    await index.search.close()


@pytest.mark.parametrize("first", [MAIN, DEV])
async def test_a_line_that_is_in_several_chunks_at_one_ref_alone_is_read_at_each(index, first):
    texts = {MAIN: f"{CLIENT}\nEND = 1\n", DEV: f"{CLIENT}\nEND = '{WORDS}'\n"}
    for ref in sorted(texts, key=lambda ref: ref != first):
        index.write({"a.py": texts[ref]}, refs=(ref,))

    for ref, text in texts.items():
        for needle in ("method_7(", "method_79(", "END = ", "word1000 word1001", "word2999'"):
            found = await index.search.texts([(APP, "a.py")], ref, grams.of_text(needle))
            shown = found[APP, "a.py"].raw if found else b""
            assert with_text(shown, needle) == with_text(text.encode(), needle)


async def test_filters_of_files_and_visibility_apply(index):
    index.write({"src/a.py": "needle = 1\n", "tests/test_a.py": "needle = 2\n"})
    index.write({"a.go": "package needle\n"}, repository=LIB)

    assert await index.paths("needle") == ["src/a.py", "tests/test_a.py", "a.go"]
    assert await index.paths("needle", languages=("go",)) == ["a.go"]
    assert await index.paths("needle", categories=(Category.TEST,)) == ["tests/test_a.py"]
    assert await index.paths("needle", not_paths=("tests/**",)) == ["src/a.py", "a.go"]
    assert await index.paths("needle", within=("**/*a.*",), paths=("src/**",)) == ["src/a.py"]
    assert await index.paths("needle", repositories=(LIB,)) == ["a.go"]
    assert await index.paths("needle", kinds=(Kind.CLASS,), paths=("src/**",)) == ["src/a.py"]
    assert await index.paths("needle", visible=Visibility.of({LIB})) == ["a.go"]
    assert await index.paths("needle", visible=Visibility.of(set())) == []
    assert await index.paths("needle", visible=Visibility.of({LIB}), repositories=(APP,)) == []


async def test_nothing_is_found_before_there_is_an_index(index):
    assert await index.paths("anything") == []


async def test_a_removed_repository_and_maintenance_leave_the_rest(index):
    index.write({"a.py": "needle = 1\n"})
    index.write({"a.go": "package needle\n"}, repository=LIB)
    index.store.remove_repository(APP)
    index.store.maintain()

    assert await index.paths("needle") == ["a.go"]


async def test_a_lost_keyword_index_is_rebuilt_with_its_trigrams(tmp_path):
    index = local(tmp_path)
    index.write({"client.py": CLIENT})
    index.write({"client.py": CLIENT + "DEVELOPED = 1\n"}, refs=(DEV,))
    index.store.close()
    for lost in keyword_index.folder_of(tmp_path, 0).glob("*.term"):
        lost.unlink()

    LocalChunkStore(tmp_path, dim=DIM, identity="test").close()

    assert await index.paths("SHUTDOWN =") == ["client.py"]
    assert await index.paths("DEVELOPED") == []
    assert await index.paths("DEVELOPED", ref=DEV) == ["client.py"]
    await index.search.close()


def test_the_id_of_the_first_chunk_depends_on_the_whole_text():
    before, after = (
        stored(APP, "client.py", text, refs=(MAIN,)).chunks for text in (CLIENT, CLIENT + "# end\n")
    )

    assert before[0].content == after[0].content
    assert before[0].id != after[0].id
    assert before[1].id == after[1].id
