"""Candidates: windows, synonyms, wordings, and files before chunks."""

import threading

import numpy as np
import pytest

from codelode.access import EVERYTHING
from codelode.model import (
    DEFAULT_REF,
    Candidate,
    Category,
    Edge,
    EdgeKind,
    Filters,
    RepositoryName,
)
from gateway import pipeline
from gateway.analyze import analyze
from gateway.options import Analyze, Mode, Options, Rank, Retrieve
from gateway.retrieve import embed, retrieve
from gateway.retrieve.hybrid import widened
from gateway.retrieve.staged import MAX_TOKENS, NO_VECTOR, near_files, too_much
from gateway.state import Backends, FoundFile, SearchQuery, SearchState

HTTP = RepositoryName("acme/http")


def query(text="retry a call", *, filters=None, analyze=None, rank=None, **options):
    chosen = Options(
        retrieve=Retrieve(**options), analyze=analyze or Analyze(), rank=rank or Rank()
    )
    return SearchQuery(text, filters=filters or Filters(), options=chosen, visible=EVERYTHING)


@pytest.fixture
def candidate(make_chunk):
    def make(path, keyword=None, similarity=None, content="x", **fields):
        return Candidate(make_chunk(path, content, **fields), keyword, similarity)

    return make


class Quick:
    """Return some vectors at once, and record the threads that make the others."""

    identity, dim = "quick", 2

    def __init__(self, at_once):
        self.at_once = at_once
        self.threads = []

    def embed_at_once(self, text):
        return self.at_once

    def embed_query(self, text):
        self.threads.append(threading.get_ident())
        return np.ones(2, np.float32)


async def test_a_quick_embedder_runs_without_a_thread():
    ready, wordless, asked = Quick(np.array([1, 0])), Quick(np.zeros(2)), Quick(None)

    assert await embed("retry", ready) == (ready.at_once, ())
    assert await embed("::::", wordless) == (None, ())
    vector, notices = await embed("retry " * 500, asked)

    assert (vector.tolist(), notices) == ([1, 1], ())
    assert ready.threads == wordless.threads == []
    assert threading.get_ident() not in asked.threads != []


async def test_filters_apply_before_the_candidates_are_counted(index, backends, make_chunk):
    index(*(make_chunk(f"src/{n}.py", f"retry a call {n}") for n in range(60)))
    index(make_chunk("docs/far.md", "call", language="markdown"))

    state = await retrieve(
        SearchState(query(window=10, filters=Filters(languages=("markdown",)))), backends
    )

    assert [one.chunk.path for one in state.candidates] == ["docs/far.md"]


async def test_the_window_bounds_keyword_and_vector_results_each(index, backends, make_chunk):
    index(*(make_chunk(f"{n}.py", f"retry a call {n}") for n in range(60)))

    narrow = await retrieve(SearchState(query(window=10)), backends)
    wide = await retrieve(SearchState(query(window=50)), backends)

    assert 10 <= len(narrow.candidates) <= 20
    assert len(wide.candidates) >= 50


async def test_copies_leave_room_for_other_texts(index, backends, make_chunk):
    """Thirty forks hold one file each of forty others."""
    forks = [RepositoryName(f"acme/fork{n}") for n in range(30)]
    index(
        *(
            make_chunk(f"src/{n}.py", f"retry a call {n} " + "again " * n, repository=fork)
            for fork in forks
            for n in range(40)
        )
    )

    apart = await retrieve(SearchState(query(rank=Rank(collapse_copies=False))), backends)
    state = await retrieve(SearchState(query()), backends)

    assert len({one.chunk.content for one in apart.candidates}) < 10
    assert len({one.chunk.content for one in state.candidates}) >= 36


async def test_candidates_of_one_repository_are_retrieved_once(index, backends, make_chunk):
    index(*(make_chunk(f"src/{n}.py", "retry a call") for n in range(200)))

    state = await retrieve(SearchState(query()), backends)

    assert len(state.candidates) == Retrieve().max_chunks


@pytest.mark.parametrize(
    ("text", "options", "paths", "limits"),
    [
        ("how is a call retried", {}, (), (200, 115)),
        ("How does retrying work?", {}, (), (200, 115)),
        ("where is a call retried", {}, (), (100, 72)),
        ("howto", {}, (), (100, 72)),
        ("how is a call retried", {}, ("src/**",), (100, 72)),
        ("how is a call retried", {"window": 50}, (), (50, 72)),
        ("how is a call retried", {"max_chunks": 50}, (), (100, 50)),
    ],
)
async def test_asking_how_something_works_ranks_more_candidates(
    backends, text, options, paths, limits
):
    asked = []

    async def hybrid(query):
        asked.append((query.limit, query.total_limit))
        return []

    backends.chunks.hybrid = hybrid
    given = query(text, filters=Filters(paths=paths), **options)
    state = await analyze(SearchState(given), backends)
    await retrieve(state, backends)

    assert asked[0] == limits


@pytest.mark.parametrize(
    ("text", "chosen", "alpha"),
    [("RetryPolicy", None, 0.3), ("retry a call", None, 0.7), ("retry", 0.1, 0.1)],
)
async def test_the_weight_of_vectors_depends_on_the_kind_of_query_unless_given(
    backends, text, chosen, alpha
):
    asked = []

    async def hybrid(query):
        asked.append(query.alpha)
        return []

    backends.chunks.hybrid = hybrid
    state = await analyze(SearchState(query(text, alpha=chosen)), backends)
    await retrieve(state, backends)

    assert asked == [alpha]


async def test_vectors_come_with_candidates_only_where_they_are_needed(index, backends, make_chunk):
    index(make_chunk("a.py", "retry a call"))

    plain = await retrieve(SearchState(query()), backends)
    collapsing = await retrieve(SearchState(query(rank=Rank(duplicate_similarity=0.9))), backends)

    assert plain.candidates[0].vector is None
    assert collapsing.candidates[0].vector is not None


def test_a_synonym_alone_scores_below_every_word_of_the_query(candidate):
    own = [candidate("a.py", 9.0), candidate("b.py", 0.4)]
    others = [candidate("c.py", 50.0), candidate("a.py", 30.0)]

    found = {one.chunk.path: one.keyword_score for one in widened(own, others)}

    assert found["a.py"] > found["b.py"] > found["c.py"] > 0


def test_synonyms_count_in_full_where_the_words_found_nothing(candidate):
    [found] = widened([], [candidate("c.py", 50.0)])

    assert found.keyword_score == pytest.approx(15.0)


async def test_a_synonym_finds_what_the_words_do_not(index, chunks, make_chunk, away_embedder):
    index(make_chunk("a.py", "def login(): ..."), make_chunk("b.py", "def signin(): ..."))
    backends = Backends(chunks, away_embedder)

    without, _ = await pipeline.search(query("login"), backends)
    wider, _ = await pipeline.search(query("login", analyze=Analyze(synonyms=True)), backends)

    assert [hit.chunk.path for hit in without.hits] == ["a.py"]
    assert [hit.chunk.path for hit in wider.hits] == ["a.py", "b.py"]


async def test_alternates_are_searched_and_merged_by_reciprocal_rank(
    index, backends, model, make_chunk
):
    index(make_chunk("a.py", "def retry(): ..."), make_chunk("b.py", "def zigzag(): ..."))
    model.answers = ["zigzag\nanother thing"]

    state, _ = await pipeline.search(query("retry", analyze=Analyze(rewrite=True)), backends)

    first = state.ranking[0]
    assert first.score == pytest.approx(sum(first.parts))
    assert first.names == ("rank.query", "rank.alternate_1", "rank.alternate_2")
    assert {hit.chunk.path for hit in state.hits} == {"a.py", "b.py"}


STAGED = {"mode": Mode.STAGED, "file_similarity": 0.2, "chunk_similarity": 0.2}


@pytest.fixture
def project(index, make_chunk, graph):
    index(
        make_chunk("src/retry.py", '"""Retry a call with back-off."""\n', symbol=""),
        make_chunk("src/retry.py", "def retry(call): ...", start_line=9, symbol="retry"),
        make_chunk("src/retry.py", "unrelated = 1", start_line=20),
        make_chunk("src/page.py", "def render(page): ...", symbol="render"),
    )
    graph.replace(
        HTTP,
        [DEFAULT_REF],
        {"src/retry.py": [Edge("src/retry.py", "src/clock.py", EdgeKind.IMPORTS)]},
    )


@pytest.mark.usefixtures("project")
async def test_staged_finds_files_by_their_summaries_then_chunks_inside_them(backends):
    state = await retrieve(SearchState(query(**STAGED)), backends)

    best = state.files[0]
    assert (best.path, best.symbols) == ("src/retry.py", ("retry",))
    assert "Retry a call with back-off." in best.summary
    assert "Imports src/clock.py." in best.summary
    assert {one.chunk.path for one in state.candidates} <= {file.path for file in state.files}
    assert all(one.similarity >= 0.2 for one in state.candidates)


@pytest.mark.usefixtures("project")
async def test_the_thresholds_are_cosines_and_not_fused_scores(backends):
    """A fused score is at most 2/61, so that a threshold of 0.3 would drop everything."""
    threshold = {"mode": Mode.STAGED, "file_similarity": 0.3, "chunk_similarity": 0.3}

    state, _ = await pipeline.search(query(**threshold), backends)

    assert state.files
    assert state.hits


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("option", ["file_similarity", "chunk_similarity"])
async def test_a_missed_threshold_is_reported_with_the_best_similarity(backends, option):
    state = await retrieve(SearchState(query(**{**STAGED, option: 0.99})), backends)

    assert not state.candidates
    [notice] = state.remarks
    assert f"options.retrieve.{option}" in notice
    assert "0.99" in notice


@pytest.mark.usefixtures("project")
async def test_staged_search_without_vectors_searches_chunks_and_adds_a_notice(
    chunks, away_embedder
):
    state = await retrieve(SearchState(query(**STAGED)), Backends(chunks, away_embedder))

    assert state.candidates
    assert NO_VECTOR in state.notices


def found_file(path, similarity, tokens=10):
    return FoundFile(HTTP, path, similarity, "", (), tokens)


def test_the_best_files_are_kept_and_their_number_is_bounded():
    compared = [found_file(f"{n}.py", n / 100) for n in range(100)]

    files, notices = near_files(compared, least=0.7, limit=15)

    assert [file.path for file in files[:2]] == ["99.py", "98.py"]
    assert (len(files), notices) == (15, ())


class Renamed:
    """Embed under another identity."""

    def __init__(self, embedder, identity):
        self._embedder = embedder
        self.identity = identity

    def __getattr__(self, name):
        return getattr(self._embedder, name)


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("identity", "asked", "is_found"),
    [
        ("codelode-static-2-256-abc", {}, True),
        ("some-transformer", {}, False),
        ("codelode-static-2-256-abc", {"file_similarity": 0.99}, False),
        ("some-transformer", {"file_similarity": 0.1, "chunk_similarity": 0.1}, True),
    ],
)
async def test_thresholds_are_the_embedders_unless_the_request_sets_its_own(
    chunks, embedder, identity, asked, is_found
):
    backends = Backends(chunks, Renamed(embedder, identity))

    state = await retrieve(SearchState(query(mode=Mode.STAGED, **asked)), backends)

    assert bool(state.candidates) is is_found


def test_too_many_tokens_are_warned_of_with_a_number_of_files_that_fits():
    files = [found_file(f"{n}.py", 0.9, tokens=30_000) for n in range(5)]

    [notice] = too_much(files)

    assert f"{MAX_TOKENS:,}" in notice
    assert "150,000" in notice
    assert "max_files to 3" in notice
    assert too_much(files[:3]) == ()


async def test_a_path_that_two_repositories_have_is_kept_apart(index, backends, make_chunk):
    text = '"""Retry a call with back-off."""'
    index(
        make_chunk("x.py", text),
        make_chunk("x.py", "zig zag zug", repository="acme/other"),
        make_chunk("y.py", text, repository="acme/other"),
    )

    options = {**STAGED, "file_similarity": 0.5, "chunk_similarity": 0.0}
    state = await retrieve(SearchState(query(**options)), backends)

    found = {(one.chunk.repository, one.chunk.path) for one in state.candidates}
    assert found == {("acme/http", "x.py"), ("acme/other", "y.py")}


async def test_the_source_of_a_message_is_found_among_many_chunks_with_its_words(
    index, backends, make_chunk
):
    words = "unknown command foo for app"
    index(*(make_chunk(f"src/{n}.go", f"{words} {words} {n}") for n in range(40)))
    index(make_chunk("args.go", 'Errorf("unknown command %q for %q", name, path) // ' + "x " * 500))
    index(make_chunk("docs/a.md", 'unknown command "foo" for "app"', category=Category.DOCS))
    asked = query('unknown command "foo" for "app"', window=10, max_chunks=10)

    state = await retrieve(await analyze(SearchState(asked), backends), backends)

    assert "args.go" in {one.chunk.path for one in state.candidates}


async def test_the_source_of_a_message_is_found_inside_the_filters_alone(
    index, backends, make_chunk
):
    index(make_chunk("args.go", 'Errorf("unknown command %q for %q", name, path)'))
    index(make_chunk("src/a.go", "unknown command"))
    asked = query('unknown command "foo" for "app"', filters=Filters(paths=("src/**",)))

    state = await retrieve(await analyze(SearchState(asked), backends), backends)

    assert [one.chunk.path for one in state.candidates] == ["src/a.go"]


async def test_the_route_of_a_url_path_is_found_among_many_chunks_with_its_words(
    index, backends, make_chunk
):
    index(*(make_chunk(f"src/{n}.rb", f"orders pause orders pause {n}") for n in range(40)))
    index(make_chunk("routes.rb", "resources :orders do\n  post :pause\nend\n" + "# x " * 500))
    index(make_chunk("docs/a.md", "/orders/1/pause", category=Category.DOCS))
    asked = query("POST /api/v3/orders/f618072a/pause", window=10, max_chunks=10)

    state = await retrieve(await analyze(SearchState(asked), backends), backends)

    assert "routes.rb" in {one.chunk.path for one in state.candidates}


async def test_the_last_word_of_a_url_path_may_be_a_value(index, backends, make_chunk):
    index(*(make_chunk(f"src/{n}.rb", f"profiles of jake {n}") for n in range(40)))
    index(make_chunk("routes.rs", '.route("/api/profiles/:name", get(show))' + " // x" * 500))
    asked = query("/api/profiles/jake", window=10, max_chunks=10)

    state = await retrieve(await analyze(SearchState(asked), backends), backends)

    assert "routes.rs" in {one.chunk.path for one in state.candidates}


async def test_the_route_of_a_url_path_is_found_inside_the_filters_alone(
    index, backends, make_chunk
):
    index(make_chunk("routes.rb", "resources :orders"))
    index(make_chunk("src/a.rb", "all orders"))
    asked = query("/orders/1", filters=Filters(paths=("src/**",)))

    state = await retrieve(await analyze(SearchState(asked), backends), backends)

    assert [one.chunk.path for one in state.candidates] == ["src/a.rb"]
