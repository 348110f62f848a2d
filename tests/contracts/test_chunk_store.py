"""The contract of the ports ChunkStore and ChunkSearch, over every implementation."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codelode.access import EVERYTHING, Visibility
from codelode.backends.local import LocalChunkSearch, LocalChunkStore
from codelode.backends.memory.chunks import MemoryChunkStore
from codelode.backends.weaviate import TenantIndex, WeaviateChunkSearch, WeaviateChunkStore
from codelode.covers import Grouped, Known, group_of
from codelode.definitions import definition
from codelode.errors import SchemaMismatch
from codelode.globs import matches_path
from codelode.model import (
    DEFAULT_REF,
    Category,
    Chunk,
    FileChunks,
    FileHealth,
    Filters,
    HealthStatus,
    HybridQuery,
    Kind,
    ParsedFile,
    Piece,
    RefName,
    RepositoryName,
    Summaries,
    chunk_id,
    locate,
)
from codelode.names import names_of
from gateway.options import Retrieve
from gateway.retrieve.hybrid import MAX_WINDOW
from tests.examples import examples
from tests.waiting import Patient
from workers.parse import parse

DIM = 4
APP, LIB = RepositoryName("acme/app"), RepositoryName("acme/lib")
MAIN, DEV = RefName("main"), RefName("dev")
EAST = np.array([1, 0, 0, 0], np.float32)
NORTH = np.array([0, 1, 0, 0], np.float32)
NORTHEAST = ((EAST + NORTH) / np.sqrt(2)).astype(np.float32)


@dataclass(frozen=True)
class Sides:
    """The write side and the read side of one index."""

    store: Any
    search: Any

    async def found(
        self,
        text="",
        vector=None,
        *,
        limit=100,
        total_limit=None,
        secondary=(),
        alpha=0.5,
        visible=EVERYTHING,
        **filters,
    ):
        narrowed = Filters(**{"ref": MAIN, **filters})
        query = HybridQuery(
            text,
            vector,
            narrowed,
            limit,
            alpha=alpha,
            total_limit=total_limit,
            secondary=frozenset(secondary),
            visible=visible,
        )
        return await self.search.hybrid(query)

    async def paths(self, text="shared", vector=None, **options):
        return sorted({hit.chunk.path for hit in await self.found(text, vector, **options)})

    def ids(self, ref=MAIN, repository=APP):
        return set(self.store.ids(repository, ref))


@pytest.fixture(params=["memory", "local", pytest.param("weaviate", marks=pytest.mark.server)])
async def index(request, tmp_path):
    if request.param == "memory":
        twin = MemoryChunkStore(dim=DIM)
        yield Sides(twin, twin)
        return
    sides = local(tmp_path) if request.param == "local" else weaviate(request.getfixturevalue)
    yield sides
    await sides.search.close()
    sides.store.close()


def local(folder, *, dim=DIM, identity="test"):
    return Sides(
        LocalChunkStore(folder, dim=dim, identity=identity),
        LocalChunkSearch(folder, dim=dim, identity=identity),
    )


def weaviate(fixture, suffix=""):
    address, place = fixture("weaviate_address"), fixture("weaviate_place")
    place = replace(place, tenant=place.tenant + suffix)
    return Sides(
        WeaviateChunkStore(address, place, dim=DIM, identity="test"),
        Patient(WeaviateChunkSearch(address, place, dim=DIM, identity="test")),
    )


def chunk(path="a.py", content="shared text", *, repository=APP, line=1, **fields):
    fields = {"symbol": "", "symbols": (), "header": "", "kind": Kind.BLOCK, **fields}
    return Chunk(
        id=chunk_id(repository, path, line, content),
        repository=repository,
        path=path,
        refs=fields.pop("refs", (MAIN,)),
        language=fields.pop("language", "python"),
        category=fields.pop("category", Category.SOURCE),
        start_line=line,
        end_line=line + content.count("\n"),
        content=content,
        **fields,
    )


def file(*chunks, path=None, refs=(MAIN,), vectors=None, repository=APP, groups=()):
    path = path or chunks[0].path
    repository = chunks[0].repository if chunks else repository
    vectors = [EAST] * len(chunks) if vectors is None else vectors
    return FileChunks(repository, path, refs, chunks, np.array(vectors, np.float32), groups)


def gone(path, *, refs=(MAIN,), repository=APP):
    return FileChunks(repository, path, refs)


def placed(*chunks, vectors=None):
    """Return files of one chunk each; chunks of one path must be given to `file`."""
    vectors = vectors or [EAST] * len(chunks)
    return [file(chunk, vectors=[vector]) for chunk, vector in zip(chunks, vectors, strict=True)]


# Writing


def test_replace_stores_the_files_chunks_at_the_files_refs(index):
    first, second = chunk(line=1), chunk(line=9)
    index.store.replace([file(first, second, refs=(DEFAULT_REF, MAIN))])

    assert index.ids(MAIN) == index.ids(DEFAULT_REF) == {first.id, second.id}
    assert index.ids(DEV) == set()


def test_replace_removes_chunks_that_are_no_longer_in_the_file(index):
    kept, left, new = chunk(line=1), chunk(line=9), chunk(line=20)
    index.store.replace([file(kept, left)])
    index.store.replace([file(kept, new)])

    assert index.ids() == {kept.id, new.id}


def test_a_file_without_chunks_leaves_the_ref(index):
    index.store.replace([*placed(chunk("a.py"), chunk("b.py"))])
    index.store.replace([gone("a.py")])

    assert index.ids() == {chunk("b.py").id}


def test_replace_leaves_files_alone_that_it_does_not_name(index):
    other = chunk("b.py"), chunk("a.py", repository=LIB)
    index.store.replace(placed(chunk("a.py"), *other))
    index.store.replace([gone("a.py")])

    assert index.ids() == {other[0].id}
    assert index.ids(repository=LIB) == {other[1].id}


async def test_a_chunk_stored_under_another_ref_gains_the_new_one(index):
    index.store.replace([file(chunk(), refs=(MAIN,))])
    index.store.replace([file(chunk(), refs=(DEV,))])

    assert index.ids(MAIN) == index.ids(DEV) == {chunk().id}
    assert [hit.chunk.refs for hit in await index.found("shared")] == [(DEV, MAIN)]


async def test_a_chunk_that_leaves_one_ref_stays_under_the_others(index):
    index.store.replace([file(chunk(), refs=(MAIN,))])
    index.store.replace([file(chunk(), refs=(DEV,))])
    index.store.replace([gone("a.py", refs=(MAIN,))])

    assert index.ids(MAIN) == set()
    assert index.ids(DEV) == {chunk().id}
    assert [hit.chunk.refs for hit in await index.found("shared", ref=DEV)] == [(DEV,)]


def test_changing_a_file_at_one_ref_leaves_the_other_refs_version(index):
    old, new = chunk(content="old shared"), chunk(content="new shared")
    index.store.replace([file(old, refs=(MAIN,))])
    index.store.replace([file(old, refs=(DEV,))])
    index.store.replace([file(new, refs=(DEV,))])

    assert index.ids(MAIN) == {old.id}
    assert index.ids(DEV) == {new.id}


def test_the_default_ref_moves_with_the_branch_it_names(index):
    old, new = chunk(content="old"), chunk(content="new")
    index.store.replace([file(old, refs=(DEFAULT_REF, MAIN))])
    index.store.replace([file(new, refs=(DEFAULT_REF, DEV))])

    assert index.ids(MAIN) == {old.id}
    assert index.ids(DEV) == index.ids(DEFAULT_REF) == {new.id}


async def test_replace_is_idempotent(index):
    files = [file(chunk(line=1), chunk(line=9)), file(chunk("b.py"))]
    index.store.replace(files)
    before = await index.found("shared", EAST)
    index.store.replace(files)

    assert by_id(await index.found("shared", EAST)) == by_id(before)
    assert await index.search.count(EVERYTHING) == 3


async def test_a_stored_chunk_gets_new_header_and_vector(index):
    index.store.replace([file(chunk(header="class Old"), vectors=[EAST])])
    index.store.replace([file(chunk(header="class New"), vectors=[NORTH])])

    (hit,) = await index.found("new", NORTH)
    assert hit.chunk.header == "class New"
    assert hit.similarity == pytest.approx(1, abs=1e-3)
    assert await index.found("old") == []


async def test_an_unchanged_chunk_is_found_by_the_changed_text_before_it(index):
    index.store.replace([file(chunk(overlap="former lines\n"))])
    index.store.replace([file(chunk(overlap="current lines\n"))])

    assert index.ids() == {chunk().id}
    assert [hit.chunk for hit in await index.found("current")] == [chunk(overlap="current lines\n")]
    assert await index.found("former") == []


async def test_an_unchanged_chunk_has_the_definition_that_was_read_last(index):
    index.store.replace([file(chunk(definitions="0"))])
    index.store.replace([file(chunk(definitions="0\tdef get()"))])

    assert index.ids() == {chunk().id}
    assert [hit.chunk.definitions for hit in await index.found("shared")] == ["0\tdef get()"]


async def test_shared_parts_of_a_function_know_its_first_line_at_each_ref(index):
    rest = "".join(f"    part_{n} = compute(url, argument_{n}, shared)\n" for n in range(150))
    for ref, head in ((MAIN, "def get(\n    url\n):\n"), (DEV, "\n\ndef get( url ):\n")):
        parsed = parse((head + rest).encode(), path="a.py")
        parts = locate(parsed, repository=APP, path="a.py", refs=[ref])
        index.store.replace([file(*parts, refs=(ref,))])

    for ref, line in ((MAIN, 1), (DEV, 3)):
        found = (await index.search.files([(APP, "a.py")], ref))[APP, "a.py"]
        assert len(found) > 3
        assert {(one.symbol, definition(one)) for one in found} == {
            ("get", (line, "def get( url )"))
        }


async def test_names_returned_with_a_candidate_are_those_of_its_chunk(index):
    one = chunk(symbol="Pool.get_user", symbols=("Pool.get_user", "Pool.größe"))
    index.store.replace([file(one)])
    (found,) = await index.found("shared")

    assert found.names in (None, names_of(one.symbol, one.symbols))


async def test_remove_repository_removes_all_of_it_and_nothing_else(index):
    index.store.replace(placed(chunk(), chunk("b.py"), chunk(repository=LIB)))
    index.store.remove_repository(APP)
    index.store.remove_repository("acme/never-was")

    assert index.ids() == set()
    assert index.ids(repository=LIB) == {chunk(repository=LIB).id}
    assert await index.search.count(EVERYTHING) == 1


HIDING = {
    "everything": (EVERYTHING, (), {APP, LIB}),
    "one": (Visibility.of([LIB]), (), {LIB}),
    "both named": (Visibility.of([LIB]), (APP, LIB), {LIB}),
    "the hidden one named": (Visibility.of([LIB]), (APP,), set()),
    "nothing": (Visibility.of([]), (), set()),
    "nothing, one named": (Visibility.of([]), (LIB,), set()),
    "one that is not stored": (Visibility.of(["acme/gone"]), (), set()),
}


async def test_a_visibility_bounds_what_is_found_before_it_is_ranked(index):
    hidden = [chunk(f"{n}.py", "shared shared", repository=APP) for n in range(5)]
    index.store.replace(placed(*hidden, chunk("z.py", "shared other", repository=LIB)))

    for name, (visible, named, expected) in HIDING.items():
        found = await index.found("shared", EAST, limit=1, visible=visible, repositories=named)
        globbed = await index.found(
            "shared", limit=9, visible=visible, repositories=named, paths=("*",)
        )

        assert {hit.chunk.repository for hit in globbed} == expected, name
        assert {hit.chunk.repository for hit in found} == (expected & {APP} or expected), name
        assert await index.search.count(visible) == sum(
            {APP: 5, LIB: 1}[name] for name in (APP, LIB) if name in visible
        ), name


def test_replacing_nothing_changes_nothing(index):
    index.store.replace([file(chunk())])
    index.store.replace([])

    assert index.ids() == {chunk().id}


def test_a_path_that_occurs_twice_in_a_call_is_refused_before_anything_is_written(index):
    with pytest.raises(ValueError, match=r"a\.py occurs 2 times"):
        index.store.replace([file(chunk(line=1)), file(chunk(line=9))])

    assert index.ids() == set()


@pytest.mark.parametrize(
    "vectors", [[[np.nan, 0, 0, 0]], [[np.inf, 0, 0, 0]], [[1, 0]]], ids=["nan", "inf", "short"]
)
def test_wrong_vectors_are_refused_before_anything_is_written(index, vectors):
    with pytest.raises(ValueError, match=r"bad\.py"):
        index.store.replace([file(chunk()), file(chunk("bad.py"), vectors=vectors)])

    assert index.ids() == set()


# The embedder of an index


@pytest.fixture(params=["local", pytest.param("weaviate", marks=pytest.mark.server)])
async def opened(request, tmp_path):
    """`opened(dim, identity)` returns both sides of a new index."""
    sides = []
    if request.param == "weaviate":
        address = request.getfixturevalue("weaviate_address")
        place = TenantIndex(alias=f"{request.getfixturevalue('weaviate_alias')}{uuid4().hex[:6]}")

    def make(dim, identity):
        named = {"dim": dim, "identity": identity}
        if request.param == "local":
            sides.append(local(tmp_path, **named))
        else:
            store = WeaviateChunkStore(address, place, **named)
            sides.append(Sides(store, Patient(WeaviateChunkSearch(address, place, **named))))
        return sides[-1]

    yield make
    for each in sides:
        await each.search.close()
        each.store.close()


async def test_an_index_belongs_to_the_embedder_of_its_first_chunks(opened):
    """Holds even if a writer with the wrong embedder, and nothing to store, came first."""
    misled = opened(3, "wrong")
    misled.store.replace([gone("a.py")])
    misled.store.maintain()
    misled.store.remove_repository(APP)
    assert misled.ids() == set()
    right = opened(DIM, "test")
    assert await right.found("shared", EAST) == []

    right.store.replace([file(chunk())])

    assert await right.paths("shared", EAST) == ["a.py"]
    assert right.ids() == {chunk().id}
    late = file(chunk("b.py"), vectors=[[1, 0, 0]])
    with pytest.raises(SchemaMismatch, match="CODELODE_EMBEDDER"):
        misled.store.replace([late])
    with pytest.raises(SchemaMismatch, match="CODELODE_EMBEDDER"):
        await misled.found("shared")


async def test_only_one_of_two_embedders_can_write_the_first_chunks(opened):
    writers = {dim: opened(dim, f"embedder-{dim}") for dim in (3, 5)}
    for sides in writers.values():
        sides.store.replace([gone("a.py")])

    def write(dim):
        try:
            writers[dim].store.replace([file(chunk(f"{dim}.py"), vectors=[np.ones(dim)])])
        except SchemaMismatch:
            return []
        return [dim]

    with ThreadPoolExecutor(len(writers)) as threads:
        (winner,) = itertools.chain.from_iterable(threads.map(write, writers))

    assert await writers[winner].paths() == [f"{winner}.py"]
    assert await opened(winner, f"embedder-{winner}").paths() == [f"{winner}.py"]


# Searching


async def test_an_empty_index_answers_nothing(index):
    assert await index.found("shared", EAST) == []
    assert await index.search.count(EVERYTHING) == 0


async def test_a_candidate_carries_the_whole_chunk(index):
    whole = chunk(
        "src/ünï/it's.py",
        "def get():\n\treturn 'ß'\n",
        line=7,
        refs=(MAIN, "tag"),
        symbol="User.get",
        symbols=("get", "User"),
        header="class User › def get",
        kind=Kind.METHOD,
        category=Category.TEST,
        language="ruby",
        block_type="Größe",
        overlap="class User:\n\t# Größe\n",
        definitions="-3\tdef get(Größe)\n\n-6\tclass User",
    )
    index.store.replace([file(whole, refs=whole.refs)])

    assert [hit.chunk for hit in await index.found("return")] == [whole]


async def test_each_side_says_which_candidates_it_found(index):
    both, word, near = chunk("both.py"), chunk("word.py"), chunk("near.py", "else")
    index.store.replace(placed(both, word, near, vectors=[EAST, np.zeros(DIM), EAST]))

    hits = {hit.chunk.path: hit for hit in await index.found("shared", EAST)}
    assert hits["both.py"].keyword_score > 0
    assert hits["both.py"].similarity == pytest.approx(1, abs=1e-3)
    assert hits["word.py"].similarity is None
    assert hits["near.py"].keyword_score is None


async def test_similarity_is_the_cosine(index):
    index.store.replace(
        placed(chunk("e.py"), chunk("n.py"), chunk("w.py"), vectors=[EAST, NORTHEAST, -EAST])
    )

    hits = {hit.chunk.path: hit.similarity for hit in await index.found("", 3 * EAST)}
    assert hits == {
        "e.py": pytest.approx(1, abs=1e-3),
        "n.py": pytest.approx(np.sqrt(0.5), abs=1e-3),
        "w.py": pytest.approx(-1, abs=1e-3),
    }


async def test_a_chunk_without_vector_is_found_by_keywords_only(index):
    index.store.replace(placed(chunk(), vectors=[np.zeros(DIM)]))

    assert await index.found("", EAST) == []
    assert len(await index.found("shared")) == 1


async def test_a_question_without_spaces_finds_text_without_spaces(index):
    index.store.replace(placed(chunk("a.py", "# 加载配置文件的入口"), chunk("b.py", "# 发送邮件")))

    assert await index.paths("配置文件在哪里加载", None) == ["a.py"]


async def test_a_query_without_vector_searches_keywords_only(index):
    index.store.replace(placed(chunk(), chunk("b.py", "else")))

    assert await index.paths("shared", None) == ["a.py"]
    assert await index.paths("shared", np.zeros(DIM, np.float32)) == ["a.py"]


async def test_each_result_list_contributes_its_best_up_to_the_limit(index):
    worded = [chunk(f"w{i}.py", "shared " * (i + 1) + "pad " * (9 - i)) for i in range(9)]
    turned = [np.array([np.cos(i / 9), np.sin(i / 9), 0, 0]) for i in range(9)]
    index.store.replace(placed(*worded, vectors=turned))

    hits = await index.found("shared", EAST, limit=3)
    keyword = {hit.chunk.path for hit in hits if hit.keyword_score is not None}
    near = {hit.chunk.path for hit in hits if hit.similarity is not None}
    assert keyword == {"w6.py", "w7.py", "w8.py"}
    assert near == {"w0.py", "w1.py", "w2.py"}
    assert len({hit.chunk.id for hit in hits}) == len(hits) == 6


async def test_hits_have_the_scores_of_both_result_lists_for_any_alpha(index):
    index.store.replace(placed(chunk("a.py"), chunk("b.py", "else"), vectors=[EAST, NORTH]))

    for alpha in (0, 0.5, 1):
        hits = await index.found("shared", EAST, alpha=alpha)

        found = {hit.chunk.path: (hit.keyword_score, hit.similarity) for hit in hits}
        assert found["a.py"][0] > 0, alpha
        assert found["a.py"][1] == pytest.approx(1, abs=1e-2), alpha
        assert found["b.py"] == (None, pytest.approx(0, abs=1e-2)), alpha


async def test_the_total_limit_keeps_the_best_hits_of_both_searches(index):
    worded = [chunk(f"w{i}.py", "shared " * (9 - i) + "pad " * i) for i in range(9)]
    turned = [np.array([np.cos(i / 9), np.sin(i / 9), 0, 0]) for i in range(9)]
    index.store.replace(placed(*worded, vectors=turned[6:] + turned[:6]))  # w3.py is the nearest

    hits = await index.found("shared", EAST, limit=4, total_limit=2)
    found = {hit.chunk.path: (hit.keyword_score, hit.similarity) for hit in hits}
    assert found.keys() == {"w3.py", "w0.py"}  # the last of one side and first of the other
    assert None not in found["w3.py"]
    assert found["w0.py"][1] is None  # the vector side did not bring it


async def test_at_the_limit_secondary_chunks_are_chosen_last(index):
    tests = [chunk(f"t{i}.py", "shared shared", category=Category.TEST) for i in range(5)]
    index.store.replace(placed(*tests, chunk("code.py", "shared and much else to say")))

    assert "code.py" not in await index.paths("shared", total_limit=3)
    secondary = frozenset({Category.TEST})
    assert "code.py" in await index.paths("shared", total_limit=3, secondary=secondary)
    assert len(await index.paths("shared", total_limit=9, secondary=secondary)) == 6


async def test_a_search_gets_as_many_candidates_as_it_asks_for(index):
    limit, total = MAX_WINDOW, Retrieve().max_chunks * MAX_WINDOW // Retrieve().window
    copies = [chunk(f"f{n}.py", f"shared text {n % 40}") for n in range(total + 50)]
    index.store.replace(placed(*copies))

    hits = await index.found("shared", EAST, limit=limit, total_limit=total)

    assert len({hit.chunk.id for hit in hits}) == len(hits) == total


async def test_a_limit_of_zero_returns_nothing(index):
    index.store.replace([file(chunk())])

    assert await index.found("shared", EAST, limit=0) == []


async def test_filters_apply_before_ranking(index):
    crowd = [chunk(f"crowd{i}.py", "shared shared shared") for i in range(120)]
    index.store.replace(
        placed(*crowd, chunk("deep/one.py", "shared and much else"), vectors=[EAST] * 120 + [NORTH])
    )

    hits = await index.found("shared", EAST, limit=2, paths=("deep/*",))
    assert [(hit.chunk.path, hit.similarity) for hit in hits] == [
        ("deep/one.py", pytest.approx(0, abs=1e-3))
    ]


async def test_names_and_content_both_count(index):
    index.store.replace(
        placed(
            chunk("plain.py", "parse the response"),
            chunk("named.py", "parse the response", symbol="parse_response"),
            chunk("other.py", "nothing here"),
        )
    )

    hits = {hit.chunk.path: hit.keyword_score for hit in await index.found("parseResponse")}
    assert hits["named.py"] > hits["plain.py"]
    assert "other.py" not in hits


async def test_the_text_before_a_chunk_is_searched_but_not_shown(index):
    index.store.replace([file(chunk(content="return it\n", line=7, overlap="parse(get"))])

    (hit,) = await index.found("parse")
    assert hit.chunk.content == "return it\n"
    assert (hit.chunk.start_line, hit.chunk.end_line) == (7, 8)
    assert len(await index.found("getreturn")) == 1  # a word that the cut divides is whole


async def test_summaries_are_searched(index):
    index.store.replace(
        placed(chunk(content="x = 1", summary="Reads the response"), chunk("b.py", "else"))
    )

    (hit,) = await index.found("response")
    assert hit.chunk.summary == "Reads the response"


async def test_the_summary_of_a_file_is_stored_with_its_first_chunk_and_not_searched(index):
    first = chunk(content="x = 1", file_summary="Reads the response")
    index.store.replace(placed(first, chunk("b.py", "else")))
    assert await index.found("response") == []
    assert [hit.chunk.file_summary for hit in await index.found("x")] == [first.file_summary]

    index.store.replace(
        placed(first._replace(file_summary="Says it otherwise"), chunk("b.py", "e"))
    )
    assert [hit.chunk.file_summary for hit in await index.found("x")] == ["Says it otherwise"]


async def test_the_summary_of_a_file_belongs_to_its_ref_even_if_the_first_chunk_is_shared(index):
    def parsed(end):
        pieces = [
            Piece(1, 1, 0, 9, "import os\n", Kind.BLOCK),
            Piece(2, 2, 9, 20, f"{end}\n", Kind.BLOCK),
        ]
        return ParsedFile("python", Category.SOURCE, FileHealth(HealthStatus.OK), tuple(pieces))

    def stored(ref, end, said):
        summaries = Summaries(("", ""), said)
        chunks = locate(parsed(end), repository=APP, path="a.py", refs=(ref,), summaries=summaries)
        index.store.replace([file(*chunks, refs=(ref,))])

    async def told(ref):
        found = await index.search.files([(APP, "a.py")], ref)
        return [chunk.file_summary for chunk in found[APP, "a.py"]]

    stored(MAIN, "x = 1", "Holds one.")
    stored(DEV, "x = 2", "Holds two.")
    assert (await told(MAIN), await told(DEV)) == (["Holds one.", ""], ["Holds two.", ""])
    stored(DEV, "x = 2", "")
    assert (await told(MAIN), await told(DEV)) == (["Holds one.", ""], ["", ""])
    stored(DEV, "x = 1", "Holds one.")
    assert (await told(MAIN), await told(DEV)) == (["Holds one.", ""],) * 2


async def test_identifiers_are_found_in_every_spelling(index):
    index.store.replace(placed(chunk(content="x = getUserById(1)"), chunk("b.py", "else")))

    for query in ("getUserById", "get_user_by_id", "user id", "GETUSERBYID"):
        assert await index.paths(query) == ["a.py"], query


async def test_terms_are_searched_as_they_are(index):
    """No stop words, no stemming, no folding, no limit on the length."""
    terms = ["the", "for", "running", "is", "ü", "日本", "x" * 100, "naïve"]
    index.store.replace(
        placed(*(chunk(term, content=term) for term in terms), chunk("b.py", "run naive u"))
    )

    for term in terms:
        assert await index.paths(term) == [term]


async def test_a_query_without_terms_searches_vectors_only(index):
    index.store.replace([file(chunk())])

    for query in ("", "   ", "()[]{}!?", "\"'", "\x00", "\ud800", "— → ∀", "🙂"):
        assert await index.found(query) == [], query
        assert await index.paths(query, EAST) == ["a.py"], query


async def test_operators_and_length_of_a_query_mean_nothing(index):
    index.store.replace(placed(chunk(content="shared a b"), chunk("other.py", "else")))

    for query in (
        '"shared',
        "shared' OR 1=1 --",
        "+shared -text",
        "shared:text^2~",
        "shared AND NOT",
        "a*b?",
        "shared " * 1_100,
        "shared " + " ".join(f"w{i}" for i in range(2_000)),
    ):
        assert await index.paths(query) == ["a.py"], query


# Filters


async def test_a_ref_limits_keyword_and_vector_results(index):
    index.store.replace([file(chunk("m.py"), refs=(MAIN,)), file(chunk("d.py"), refs=(DEV,))])

    assert await index.paths("shared", EAST, ref=DEV) == ["d.py"]
    assert await index.paths("shared", EAST, ref=RefName("ma")) == []


FIELDS = {
    "repositories": ({"repository": APP}, {"repository": LIB}, (APP,), ("x", APP), ("acme",)),
    "languages": ({"language": "go"}, {"language": "c"}, ("go",), ("x", "go"), ("g",)),
    "kinds": (
        {"kind": Kind.CLASS},
        {"kind": Kind.ENUM},
        (Kind.CLASS,),
        (Kind.TEXT, Kind.CLASS),
        (Kind.TEXT,),
    ),
    "categories": (
        {"category": Category.TEST},
        {"category": Category.DOCS},
        (Category.TEST,),
        (Category.SOURCE, Category.TEST),
        (Category.SOURCE,),
    ),
    "block_types": (
        {"block_type": "Deployment"},
        {"block_type": "resource"},
        ("Deployment",),
        ("job", "Deployment"),
        ("block", "deployment"),
    ),
}


@pytest.mark.parametrize("field", FIELDS)
async def test_a_field_admits_its_values_and_no_others(index, field):
    inside, outside, one, several, none = FIELDS[field]
    index.store.replace(placed(chunk("in.py", **inside), chunk("out.py", **outside)))

    assert await index.paths("shared", EAST, **{field: one}) == ["in.py"]
    assert await index.paths("shared", EAST, **{field: several}) == ["in.py"]
    assert await index.paths("shared", EAST, **{field: none}) == []


async def test_filters_on_several_fields_must_all_match(index):
    index.store.replace(placed(chunk("a.py", language="go"), chunk("b.py", language="c")))

    assert await index.paths(languages=("go",), paths=("b.py",)) == []
    assert await index.paths(languages=("go", "c"), paths=("b.py",)) == ["b.py"]


EXCLUDED = {
    "repositories": ({"repository": APP}, {"repository": LIB}, (APP,), (LIB, "x"), ("acme",)),
    "languages": ({"language": "go"}, {"language": "c"}, ("go",), ("x", "c"), ("g",)),
    "paths": ({}, {}, ("in.py",), ("x/**", "out.*"), ("in", "py")),
}


@pytest.mark.parametrize("field", EXCLUDED)
async def test_an_exclusion_leaves_out_its_values_and_no_others(index, field):
    inside, outside, one, other, none = EXCLUDED[field]
    index.store.replace(placed(chunk("in.py", **inside), chunk("out.py", **outside)))

    assert await index.paths("shared", EAST, **{f"not_{field}": one}) == ["out.py"]
    assert await index.paths("shared", EAST, **{f"not_{field}": other}) == ["in.py"]
    assert await index.paths("shared", EAST, **{f"not_{field}": none}) == ["in.py", "out.py"]
    assert await index.paths("shared", EAST, **{f"not_{field}": (*one, *other)}) == []


async def test_an_exclusion_narrows_the_other_filters(index):
    index.store.replace(
        placed(
            chunk("src/a.py"),
            chunk("src/a_test.py"),
            chunk("src/b.go", language="go"),
            chunk("src/c.py", repository=LIB),
        )
    )

    assert await index.paths(
        paths=("src/**",),
        not_paths=("**/*_test.py",),
        not_languages=("go",),
        not_repositories=(LIB,),
    ) == ["src/a.py"]
    assert await index.paths(repositories=(APP,), not_repositories=(APP,)) == []
    assert await index.paths(paths=("src/a.py",), not_paths=("src/*",)) == []


async def test_a_path_matches_a_glob_of_each_of_both_lists(index):
    index.store.replace(placed(*map(chunk, ("src/a.py", "src/b.go", "lib/a.py", "lib/b.go"))))

    assert await index.paths(within=("src/**", "docs/**")) == ["src/a.py", "src/b.go"]
    assert await index.paths(paths=("**/*.py",), within=("src/**", "docs/**")) == ["src/a.py"]
    assert await index.paths(paths=("src/*",), within=("**/a.*", "**/b.*")) == [
        "src/a.py",
        "src/b.go",
    ]
    assert await index.paths(paths=("src/**",), within=("lib/**",)) == []
    assert await index.paths(within=("**/?.py",), not_paths=("lib/**",)) == ["src/a.py"]
    assert await index.paths(within=("",)) == []


async def test_exclusions_are_applied_before_ranking(index):
    crowd = [chunk(f"tests/{number}.py", "shared shared") for number in range(150)]
    index.store.replace(placed(*crowd, chunk("src/a.py")))

    for glob in ("tests/**", "**/tests/**", "t*ts/**"):
        assert await index.paths("shared", EAST, limit=5, not_paths=(glob,)) == ["src/a.py"]


async def test_excluded_repositories_do_not_widen_what_is_visible(index):
    index.store.replace(placed(chunk("in.py"), chunk("out.py", repository=LIB)))
    visible = Visibility.of([APP])

    assert await index.paths(visible=visible, not_repositories=(LIB,)) == ["in.py"]
    assert await index.paths(visible=visible, not_repositories=(APP,)) == []


REPOSITORIES = [RepositoryName(f"team{number % 3}/r{number}") for number in range(24)]


ANN, THIRD = (group_of(["ann"]),), (group_of(["third"]),)

#: The groups of most repositories, which do not follow from their names.
GROUPS = {
    name: (group_of([str(at // 5)]), *(THIRD if at % 3 else ()))
    for at, name in enumerate(REPOSITORIES)
    if at % 8
}


@pytest.fixture
def many(index):
    """An index of many repositories, in which every chunk has a different score and vector."""
    angles = np.linspace(0.1, 1.4, 3 * len(REPOSITORIES))
    ordered = np.stack([np.cos(angles), np.sin(angles), 0 * angles, 0 * angles], axis=1)
    vectors = iter(np.random.default_rng(1).permutation(ordered).astype(np.float32))

    def words(at, line):
        return "shared " * (1 + (7 * at + 5 * line) % 11) + "filler " * (3 * at + line)

    index.store.replace(
        [
            file(
                chunk(f"{line}.py", words(at, line), repository=name),
                vectors=[next(vectors)],
                groups=GROUPS.get(name, ()),
            )
            for at, name in enumerate(REPOSITORIES)
            for line in (1, 2, 3)
        ]
    )
    return index


SOME = st.lists(st.sampled_from([*REPOSITORIES, RepositoryName("unknown/one")]), unique=True)


@settings(
    max_examples=examples(40, short=12),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    seen=SOME.map(Visibility.of),
    named=st.one_of(st.just([]), SOME),
    left_out=st.one_of(st.just([]), SOME),
    limit=st.sampled_from([1, 5, 100]),
)
async def test_filters_and_visibility_give_the_same_hits_as_filtering_afterwards(
    many, seen, named, left_out, limit
):
    def is_inside(hit):
        name = hit.chunk.repository
        return name in seen and (not named or name in named) and name not in left_out

    narrowed = {"repositories": tuple(named), "not_repositories": tuple(left_out)}
    for asked in (("shared", None), ("", NORTHEAST)):
        everything = await many.found(*asked, limit=200)
        found = await many.found(*asked, limit=limit, visible=seen, **narrowed)

        assert all(map(is_inside, found))
        assert scores(found) == scores(filter(is_inside, everything))[:limit]
    both = await many.found("shared", NORTHEAST, limit=200, visible=seen, **narrowed)
    assert by_id(both) == by_id(filter(is_inside, await many.found("shared", NORTHEAST, limit=200)))
    inside = [name for name in REPOSITORIES if name in seen]
    assert await many.search.count(seen) == 3 * len(inside)


FEW = st.lists(st.sampled_from(REPOSITORIES), unique=True, max_size=2).map(frozenset)


@settings(
    max_examples=examples(30, short=10),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    teams=st.sampled_from([(), (0,), (1, 2), (0, 1, 2)]),
    groups=st.frozensets(
        st.sampled_from(sorted({group for some in GROUPS.values() for group in some}))
    ),
    exceptions=FEW,
    suspended=FEW,
    registered_since=FEW,
    removed_since=st.sampled_from([(), (RepositoryName("team0/gone"),)]),
    limit=st.sampled_from([1, 5, 100]),
)
async def test_owners_and_groups_admit_what_is_visible_whatever_was_registered_since(
    many, teams, groups, exceptions, suspended, registered_since, removed_since, limit
):
    """Chunks of repositories with suspended groups have the former ones, and may get others."""
    inside = {name for name in REPOSITORIES if name.startswith(tuple(f"team{n}/" for n in teams))}
    inside |= {name for name, some in GROUPS.items() if groups.intersection(some)}
    known = frozenset({*REPOSITORIES, *removed_since} - registered_since)
    grouped = {name: Grouped(some) for name, some in GROUPS.items()}
    grouped |= {name: Grouped(THIRD, GROUPS.get(name, ())) for name in suspended}
    seen = Visibility.of((inside ^ exceptions) & known, known=Known(known, grouped))

    def is_inside(hit):
        return hit.chunk.repository in seen

    for asked in (("shared", None), ("", NORTHEAST)):
        everything = await many.found(*asked, limit=200)
        for globs in ((), ("*.py",)):
            found = await many.found(*asked, limit=limit, visible=seen, paths=globs)
            assert all(map(is_inside, found))
            assert scores(found) == scores(filter(is_inside, everything))[:limit]
    both = await many.found("shared", NORTHEAST, limit=200, visible=seen)
    assert by_id(both) == by_id(filter(is_inside, await many.found("shared", NORTHEAST, limit=200)))


async def test_a_repository_of_another_owner_is_visible_to_callers_who_see_that_owner(many):
    before, after = REPOSITORIES[0], RepositoryName("team1/moved")
    others = frozenset(REPOSITORIES) - {before}
    many.store.replace(placed(chunk("moved.py", "shared", repository=after)))
    many.store.remove_repository(before)

    for known in (others | {before}, others | {after}):
        for team in ("team0/", "team1/"):
            seen = Visibility.of([n for n in known if n.startswith(team)], known=Known(known))
            found = {hit.chunk.repository for hit in await many.found("shared", visible=seen)}
            assert found == seen.names - {before}


async def test_files_that_lose_a_ref_or_are_written_again_keep_their_groups(index):
    names = [RepositoryName(f"acme/r{number}") for number in range(4)]
    groups = dict.fromkeys(names, ANN)
    grouped = {name: Grouped(some) for name, some in groups.items()}
    known = Known(frozenset([*names, RepositoryName("acme/other")]), grouped)
    seen = Visibility.of(names, known=known)

    async def found(ref):
        return {hit.chunk.repository for hit in await index.found("shared", visible=seen, ref=ref)}

    both = (MAIN, DEV)
    index.store.replace(
        [file(chunk(repository=n, refs=both), refs=both, groups=groups[n]) for n in names]
    )
    assert await found(DEV) == await found(MAIN) == set(names)
    index.store.replace([FileChunks(name, "a.py", (DEV,)) for name in names])
    assert (await found(DEV), await found(MAIN)) == (set(), set(names))
    assert seen.cover() == (ANN, (), ())


async def test_a_chunk_written_with_other_groups_replaces_the_one_with_the_former_groups(index):
    """A late write of a removed repository may have left a chunk with the former groups."""
    names = [RepositoryName(f"acme/r{number}") for number in range(4)]
    elsewhere = RepositoryName("acme/other")
    for groups in ((), ANN, (*ANN, group_of(["*"])), (group_of(["bob"]),)):
        index.store.replace(
            [file(chunk(repository=name), groups=groups) for name in [*names, elsewhere]]
        )
        known = Known(frozenset([*names, elsewhere]), dict.fromkeys(names, Grouped(groups)))
        seen = Visibility.of(names, known=known)
        hits = await index.found("shared", visible=seen)
        assert sorted(hit.chunk.repository for hit in hits) == names
        assert len(index.ids(repository=names[0])) == 1


async def test_a_visibility_of_thousands_of_repositories_admits_exactly_these(many):
    elsewhere = [RepositoryName(f"team{number}/elsewhere") for number in range(5_000)]
    for inside in (REPOSITORIES[::2], REPOSITORIES[:1], []):
        seen = Visibility.of([*elsewhere, *inside])
        for asked in (("shared", None), ("", NORTHEAST), ("shared", NORTHEAST)):
            found = {hit.chunk.repository for hit in await many.found(*asked, visible=seen)}
            assert found == set(inside)
        assert await many.search.count(seen) == 3 * len(inside)


def scores(hits):
    """Return the scores, best first; chunks may share one."""
    found = [hit.similarity if hit.keyword_score is None else hit.keyword_score for hit in hits]
    return sorted((round(score, 3) for score in found), reverse=True)


PATHS = [
    "a.py",
    "src/a.py",
    "src/deep/er/a.py",
    "src/it's.py",
    "src/100%_x.py",
    "src/100a1x.py",
    "src/ünï/ß.py",
    "src/back\\slash.py",
    "src/[id]+(x){1}^$|.py",
    "src/new\nline.py",
    "src/with space.py",
    "srcs/a.py",
]


async def test_path_globs_match_the_whole_path(index):
    index.store.replace(placed(*map(chunk, PATHS)))

    for glob, expected in (
        ("a.py", ["a.py"]),
        ("src/a.py", ["src/a.py"]),
        ("*.py", ["a.py"]),
        ("**/a.py", ["a.py", "src/a.py", "src/deep/er/a.py", "srcs/a.py"]),
        ("src/**/a.py", ["src/a.py", "src/deep/er/a.py"]),
        ("src/deep/**", ["src/deep/er/a.py"]),
        ("src/*/ß.py", ["src/ünï/ß.py"]),
        ("src/?.py", ["src/a.py"]),
        ("src/*'*", ["src/it's.py"]),
        ("src/it's.py", ["src/it's.py"]),
        ("src/100%_x.py", ["src/100%_x.py"]),
        ("src/100%_?.py", ["src/100%_x.py"]),
        ("src/100*", ["src/100%_x.py", "src/100a1x.py"]),
        ("src/ü*/*", ["src/ünï/ß.py"]),
        ("src/back\\*.py", ["src/back\\slash.py"]),
        ("src/[id]+(x){1}^$|.p?", ["src/[id]+(x){1}^$|.py"]),
        ("src/new?line.py", ["src/new\nline.py"]),
        ("src/* space.py", ["src/with space.py"]),
        ("src", []),
        ("SRC/*", []),
        ("' OR 'a'='a", []),
        ("", []),
        ("**", PATHS),
    ):
        assert await index.paths(paths=(glob,)) == sorted(expected), glob
        assert await index.paths(not_paths=(glob,)) == sorted(set(PATHS) - set(expected)), glob
    assert await index.paths(paths=("a.py", "srcs/*")) == ["a.py", "srcs/a.py"]


NESTED = [
    *("a.py", "src/a.py", "src/ab.py", "src/x/a.py", "src/x/y/a.py", "src/x/y/b.go", "src/xy/a.py"),
    *("x/src/a.py", "lib/x/a.py", "lib/x/y/z/a.py", "lib/xa.py", "lib/y/x1/a.py", "lib/x/a/b.go"),
]


async def test_globs_match_folders_as_they_match_paths(index):
    index.store.replace(placed(*map(chunk, NESTED)))

    for glob in (
        *("src/*/**/a.py", "src/*/**", "src/**/y/*.py", "src/a**/*.py", "src/x**/*.py", "*/x/**"),
        *("**/*/a.py", "**/x/y*/**", "lib/**/x*/*.py", "lib/*/*/**", "*/**/**/a.py", "s*/x?/*"),
        *("lib/x**/a.py", "*/*/**b.go", "**/x/**/*.py", "l*b/**/z/**", "*/x/y/?.*", "**/**/a*/**"),
    ):
        assert await index.paths(paths=(glob,)) == sorted(filter(matches_path(glob), NESTED)), glob


async def test_a_path_is_excluded_by_the_globs_that_it_matches(index):
    paths = [*PATHS, "deep/a.py", "src/notdeep/a.py", "src/deep.py", "src/with\tspace.py"]
    index.store.replace(placed(*map(chunk, paths)))

    for glob in (
        *("**/deep/**", "**/src/**", "src/*.py", "**/*.py", "**/a?py"),
        *("src/with space.*", "src/w*␠*"),
    ):
        inside = await index.paths(paths=(glob,))
        assert await index.paths(not_paths=(glob,)) == sorted(set(paths) - set(inside)), glob


async def test_symbol_globs_match_names_and_qualified_names(index):
    index.store.replace(
        placed(
            chunk("user.py", symbol="User", symbols=("User", "main")),
            chunk("users.py", symbol="Users"),
            chunk("method.py", symbol="User.get", symbols=("get",)),
            chunk("odd.py", symbol="operator'%_"),
            chunk("none.py"),
        )
    )

    for glob, expected in (
        ("User", ["user.py"]),
        ("User.get", ["method.py"]),
        ("get", ["method.py"]),
        ("User*", ["method.py", "user.py", "users.py"]),
        ("*get", ["method.py"]),
        ("*.g?t", ["method.py"]),
        ("user*", []),
        ("User.*", ["method.py"]),
        ("operator'%_", ["odd.py"]),
        ("operator?%*", ["odd.py"]),
        ("*", ["method.py", "odd.py", "user.py", "users.py"]),
        ("", []),
    ):
        assert await index.paths(symbols=(glob,)) == expected, glob


async def test_maintenance_changes_no_answer(index):
    index.store.replace(
        placed(chunk(), chunk("b.py"), chunk("c.py", "else"), vectors=[EAST, NORTH, EAST])
    )
    before = await index.found("shared", EAST)
    index.store.maintain()

    assert ids(await index.found("shared", EAST)) == ids(before)
    index.store.replace([gone("a.py"), file(chunk("d.py"))])
    index.store.maintain()
    assert await index.paths("shared", EAST) == ["b.py", "c.py", "d.py"]


# Whole files and vectors


async def test_a_file_is_all_of_its_chunks_at_the_ref_in_file_order(index):
    first, second, third = (chunk(content=f"text {line}", line=line) for line in (1, 5, 9))
    other = chunk("b.py", "text b", repository=LIB)
    index.store.replace([file(third, first, second), file(other)])
    index.store.replace([file(chunk(content="elsewhere", line=3), refs=(DEV,))])

    places = [(APP, "a.py"), (LIB, "b.py"), (LIB, "a.py"), (APP, "gone.py")]
    found = await index.search.files(places, MAIN)

    assert found[APP, "a.py"] == (first, second, third)
    assert [one.path for one in found[LIB, "b.py"]] == ["b.py"]
    assert (found[LIB, "a.py"], found[APP, "gone.py"]) == ((), ())
    assert len(found) == 4


async def test_a_file_is_named_by_its_path_and_not_by_a_glob(index):
    alike = ["a b.py", "a\xa0b.py", "a␠b.py"]
    paths = ["pages/[id].tsx", "pages/x.tsx", *alike]
    index.store.replace(placed(*map(chunk, paths)))

    places = [(APP, path) for path in ("pages/[id].tsx", "pages/*", "a b.py", "a␠b.py", "a")]
    found = await index.search.files(places, MAIN)

    assert [len(found[place]) for place in places] == [1, 0, 1, 1, 0]
    assert {path for _, path in found} == {path for _, path in places}


async def test_chunks_of_no_files_are_empty_even_without_an_index(index):
    assert await index.search.files([], MAIN) == {}
    assert await index.search.files([(APP, "a.py")], MAIN) == {(APP, "a.py"): ()}


async def test_candidates_have_their_vectors_where_they_are_asked_for(index):
    index.store.replace(placed(chunk("a.py"), chunk("b.py", "other"), vectors=[NORTHEAST, NORTH]))
    query = HybridQuery(
        "shared", NORTH, Filters(ref=MAIN), 10, with_vectors=True, visible=EVERYTHING
    )

    found = {one.chunk.path: one.vector for one in await index.search.hybrid(query)}

    assert found["a.py"] == pytest.approx(NORTHEAST, abs=1e-3)
    assert found["b.py"] == pytest.approx(NORTH, abs=1e-3)


# Histories

LINES = st.integers(1, 3)
WORD = st.sampled_from(["alpha", "beta", "gamma"])
PIECES = st.lists(st.tuples(LINES, WORD), max_size=4, unique=True)
STEP = st.tuples(
    st.dictionaries(
        st.tuples(st.sampled_from([APP, LIB]), st.sampled_from(["a.py", "b.py"])),
        PIECES,
        min_size=1,
    ),
    st.sampled_from([(MAIN,), (DEV,), (DEFAULT_REF, MAIN), (DEFAULT_REF, DEV)]),
    st.booleans(),
)


@pytest.mark.slow
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@pytest.mark.parametrize("engine", ["local", pytest.param("weaviate", marks=pytest.mark.server)])
@given(history=st.lists(STEP, min_size=1, max_size=6))
async def test_after_any_history_the_store_equals_its_in_memory_twin(
    request, tmp_path_factory, engine, history
):
    twin = MemoryChunkStore(dim=DIM)
    folder = tmp_path_factory.mktemp("index")
    sides = local(folder) if engine == "local" else weaviate(request.getfixturevalue, folder.name)
    for files, refs, is_maintained in history:
        batch = [drawn(place, pieces, refs) for place, pieces in files.items()]
        twin.replace(batch)
        sides.store.replace(batch)
        if is_maintained:
            sides.store.maintain()
    await assert_same(sides, Sides(twin, twin))
    await sides.search.close()
    sides.store.close()


def drawn(place, pieces, refs):
    repository, path = place
    before = ["", *(word for _, word in pieces)]
    chunks = [
        chunk(path, word, repository=repository, line=line, overlap=f"{overlap}\n")
        for (line, word), overlap in zip(pieces, before, strict=False)
    ]
    return file(*chunks, path=path, refs=refs, repository=repository)


async def assert_same(sides, twin):
    for repository, ref in itertools.product((APP, LIB), (MAIN, DEV, DEFAULT_REF)):
        assert sides.ids(ref, repository) == twin.ids(ref, repository)
    count = await sides.search.count(EVERYTHING)
    assert count == await twin.search.count(EVERYTHING)
    for word, ref in itertools.product(("alpha", "beta"), (MAIN, DEV)):
        found = await sides.found(word, ref=ref)
        assert chunks(found) == chunks(await twin.found(word, ref=ref))
        near = await sides.found("", EAST, ref=ref)
        assert chunks(near) == chunks(await twin.found("", EAST, ref=ref))


def by_id(hits):
    return {hit.chunk.id: rounded(hit) for hit in hits}


def rounded(hit):
    return hit._replace(
        keyword_score=hit.keyword_score and round(hit.keyword_score, 4),
        similarity=hit.similarity and round(hit.similarity, 4),
    )


def chunks(hits):
    return {hit.chunk.id: hit.chunk for hit in hits}


def ids(hits):
    return {(hit.chunk.id, hit.keyword_score is None, hit.similarity is None) for hit in hits}
