"""Copies in other repositories: one entry of the ranking, with the places of the others."""

from dataclasses import replace

import pytest

from codelode.access import EVERYTHING, Principal, Role, Visibility
from codelode.model import Candidate
from codelode.settings import Settings
from gateway import service
from gateway.analyze.query import analysis
from gateway.options import Options, Rank
from gateway.rank import rank
from gateway.rank.linear import ranked
from gateway.service.requests import GivenFilters, SearchRequest
from gateway.state import SearchQuery, SearchState
from tests.worlds import World

CODE = "def retry(call):\n    for n in range(3):\n        call(n)\n    pause()\n"
CHANGED = CODE.replace("pause()", "pause(1)")
OTHER = "def retry(call):\n    return call()\n"


@pytest.fixture
def candidate(make_chunk):
    def make(repository, path="src/retry.py", content=CODE, *, keyword=5.0, **fields):
        return Candidate(make_chunk(path, content, repository=repository, **fields), keyword, 0.5)

    return make


class Times:
    """The times of commits, by repository."""

    def __init__(self, **times):
        self.times = times

    async def commit_times(self, names, ref):
        return {name: self.times.get(name, 0.0) for name in names}


def dated(backends, **times):
    return replace(backends, history=Times(**times))


async def ordered(backends, candidates, text="retry", **options):
    query = SearchQuery(text, options=Options(rank=Rank(**options)), visible=EVERYTHING)
    state = SearchState(query, analysis=analysis(text), candidates=tuple(candidates))
    return await rank(state, backends)


def entries(state):
    """Return each entry with the repositories that have copies of it."""
    chunks = [entry.candidate.chunk for entry in state.ranking]
    return [
        (chunk.repository, chunk.path, [one.chunk.repository for one in copies])
        for chunk in chunks
        for copies in [state.copies.get(chunk.id, ())]
    ]


async def test_equal_texts_of_several_repositories_are_one_entry(backends, candidate):
    given = [candidate("a"), candidate("b", "vendor/retry.py", keyword=9.0), candidate("c")]

    state = await ordered(backends, [*given, candidate("c", "other.py", OTHER, keyword=None)])

    assert entries(state) == [
        ("b", "vendor/retry.py", ["a", "c"]),
        ("c", "other.py", []),
    ]
    assert [one.similarity for (one, *_) in state.copies.values()] == [1.0]


async def test_all_copies_are_ranked_if_collapsing_is_off(backends, candidate):
    given = [candidate("a"), candidate("b")]

    state = await ordered(backends, given, collapse_copies=False)

    assert (state.ranking, state.copies) == (ranked(analysis("retry"), given), {})


async def test_copies_within_one_repository_stay_separate_entries(backends, candidate):
    paths = ("one/retry.py", "two/retry.py")
    given = [candidate(name, path) for path in paths for name in ("a", "b")]

    state = await ordered(backends, given)

    assert sorted(entries(state)) == [("a", path, ["b"]) for path in paths]
    alone = await ordered(backends, [candidate("a", path) for path in paths])
    assert (len(alone.ranking), alone.copies) == (2, {})


async def test_texts_that_share_most_lines_are_copies_if_name_and_symbol_agree(backends, candidate):
    given = [
        candidate("a", symbol="retry", keyword=9.0),
        candidate("b", "lib/retry.py", CHANGED, symbol="retry"),
        candidate("c", "lib/again.py", CHANGED, symbol="retry"),
        candidate("d", content=CHANGED, symbol="again"),
        candidate("e", content=OTHER, symbol="retry"),
    ]

    state = await ordered(backends, given)

    found = {name: copies for name, _, copies in entries(state)}
    assert found == {"a": ["b"], "c": ["d"], "e": []}
    [near] = state.copies[given[0].chunk.id]
    assert near.similarity == pytest.approx(3 / 5)


async def test_texts_that_differ_in_white_space_or_line_order_are_copies(backends, candidate):
    lines = CODE.splitlines()
    spaced = "\r\n\r\n".join(f"\t{line}" for line in (*lines[2:], *lines[:2]))

    state = await ordered(backends, [candidate("a"), candidate("b", content=spaced, keyword=1.0)])

    assert entries(state) == [("a", "src/retry.py", ["b"])]


async def test_the_newest_repository_comes_first_among_copies_of_equal_rank(backends, candidate):
    backends = dated(backends, stale=1.0, upstream=3.0, fork=2.0)
    given = [candidate(name) for name in ("fork", "stale", "upstream")]

    state = await ordered(backends, given)

    assert entries(state) == [("upstream", "src/retry.py", ["fork", "stale"])]


async def test_a_newer_copy_that_ranks_lower_stays_behind(backends, candidate):
    backends = dated(backends, app=9.0, lib=1.0)
    given = [candidate("app", "vendor/retry.py", category="vendored"), candidate("lib")]

    state = await ordered(backends, given)

    assert entries(state) == [("lib", "src/retry.py", ["app"])]


async def test_the_canonical_entry_gets_the_score_of_the_best_copy_and_explains_it(
    backends, candidate
):
    backends = dated(backends, fork=1.0, upstream=2.0)
    given = [
        candidate("fork", content=CHANGED, symbol="retry", keyword=5.1),
        candidate("upstream", symbol="retry", keyword=5.0),
        candidate("z", "other.py", OTHER),
    ]

    state = await ordered(backends, given)

    best, *_ = ranked(analysis("retry"), given)
    first = state.ranking[0]
    assert first.candidate.chunk.repository == "upstream"
    assert first.score == best.score == pytest.approx(sum(first.parts))
    assert first.names[-1] == "rank.canonical"
    assert [one.similarity for one in state.copies[first.candidate.chunk.id]] == [0.6]


async def test_a_place_in_the_query_leads_to_the_copy_that_has_it(backends, candidate):
    """The text is at other lines in the fork, which is the newer one."""
    backends = dated(backends, fork=2.0, old=1.0)
    given = [candidate("fork", start_line=1), candidate("old", start_line=101)]

    state = await ordered(backends, given, "src/retry.py:102")

    assert entries(state) == [("old", "src/retry.py", ["fork"])]


# Through the service


FILES = {f"src/part{n}.py": f"def part{n}(call):\n    return retry(call, {n})\n" for n in range(7)}
NAMES = ("acme/app", "acme/fork", "acme/secret", "acme/web")


@pytest.fixture
def forks(tmp_path):
    """Four repositories with the same files."""
    world = World(Settings(data=tmp_path))
    for name in NAMES:
        world.index(name, FILES)
    return world.dependencies


def sees(*names):
    return Principal("someone", Role.READER, Visibility(frozenset(names)))


async def test_only_visible_copies_are_counted_and_named(forks):
    admin = Principal("admin", Role.ADMIN, EVERYTHING)
    for principal, seen in ((admin, NAMES), (sees(*NAMES[:2]), NAMES[:2]), (sees("acme/web"), ())):
        answer = await service.search(forks, principal, SearchRequest("retry part3"))

        first = answer.hits[0]
        assert {first.repository, *(copy.repository for copy in first.copies)} >= set(seen)
        assert len(first.copies) == max(len(seen) - 1, 0)
        assert all(copy.ref == "main" and copy.revision for copy in first.copies)


async def test_a_page_has_as_many_different_hits_as_are_asked_for(forks):
    pages, token = [], ""
    while token or not pages:
        request = SearchRequest("retry part", top_k=3, page_token=token)
        answer = await service.search(forks, sees(*NAMES), request)
        pages.append([(hit.path, len(hit.copies)) for hit in answer.hits])
        token = answer.next_page_token

    assert [len(page) for page in pages] == [3, 3, 1]
    assert sorted(hit for page in pages for hit in page) == [(path, 3) for path in sorted(FILES)]


async def test_copies_are_looked_up_at_the_ref_of_the_search(forks):
    request = SearchRequest("retry part3", GivenFilters(ref="main"))

    answer = await service.search(forks, sees(*NAMES), request)

    assert len(answer.hits[0].copies) == 3


async def test_a_context_shows_copied_code_once_and_names_the_other_copies(forks):
    answer = await service.context(forks, sees(*NAMES), SearchRequest("retry part3"))

    assert answer.text.count("def part3(call)") == 1
    assert "### src/part3.py:1-2 (acme/app, part3, also in 3 repositories)" in answer.text
