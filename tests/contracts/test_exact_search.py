"""The contract of exact search in the port ChunkSearch, over every implementation."""

from __future__ import annotations

import itertools

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
        WeaviateChunkSearch(*place, dim=DIM, identity="test"),
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


async def test_a_combination_of_trigrams_is_understood(index):
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


def test_the_first_chunk_of_a_file_is_another_when_the_text_changes():
    before, after = (
        stored(APP, "client.py", text, refs=(MAIN,)).chunks for text in (CLIENT, CLIENT + "# end\n")
    )

    assert before[0].content == after[0].content
    assert before[0].id != after[0].id
    assert before[1].id == after[1].id
