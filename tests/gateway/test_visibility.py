"""No service function returns anything of a repository that its principal may not see.

Two worlds are asked the same: one in which some repositories are hidden, and one in which they were
never indexed. The answers, errors and log facts must be equal, so no hit, notice, count, message,
suggestion or token can say anything of what is hidden. Each read is first asked by somebody who
sees everything, so that the query cache holds answers that must not be given on.

One thing may differ: BM25 weighs a word by how many stored chunks hold it, and a store counts those
of all repositories. Scores, and the order that follows from them, are therefore left out. So is the
digest of that order in a page token.
"""

from __future__ import annotations

import asyncio
import base64
import json
from dataclasses import asdict, fields, replace
from functools import cache
from types import SimpleNamespace

import pytest
import structlog
from hypothesis import example, given, settings
from hypothesis import strategies as st

from codelode.access import EVERYTHING, Principal, Role, Visibility
from codelode.errors import CodelodeError
from codelode.scopes import Scope
from codelode.settings import Settings
from gateway import service
from gateway.retrieve.occurrence import NO_WORD
from gateway.service.requests import (
    ExplainRequest,
    FailuresRequest,
    FilesRequest,
    GivenFilters,
    GivenOptions,
    GraphRequest,
    GrepRequest,
    MapPlacesRequest,
    MapRequest,
    ReadRequest,
    ReferencesRequest,
    SearchRequest,
    SimilarRequest,
    StartRequest,
    SymbolsRequest,
)
from gateway.service.results import ContextAnswer
from tests.examples import examples
from tests.worlds import World

#: A word for each repository that only its own files hold.
MARKS = ("quokka", "marmot", "zebra")
NAMES = tuple(f"acme/{mark}" for mark in MARKS)


def files(number):
    """Return a repository whose package imports those of the others, and a file of them all."""
    mark, (one, other) = MARKS[number], [n for n in range(len(MARKS)) if n != number]
    return {
        "package.json": json.dumps({"name": f"@acme/part{number}"}),
        "src/index.js": f"import {{ draw }} from '@acme/part{one}'\n"
        f"import {{ paint }} from '@acme/part{other}'\nimport {{ {mark}Base }} from './{mark}'\n\n"
        f"export function draw() {{\n  return paint(new {mark}Base())\n}}\n\n"
        f"export function paint(canvas) {{\n  return draw(canvas)\n}}\n",
        f"src/{mark}.js": f"export class {mark}Base {{\n  load() {{\n    return 1\n  }}\n}}\n",
        f"src/{mark}.test.js": f"import {{ {mark}Base }} from './{mark}'\n\n"
        f"test('loads', () => new {mark}Base().load())\n",
        "lib/store.py": "class Store:\n    def load(self, key):\n        return key\n\n\n"
        f"def {mark}_load(store):\n    # Loads from the {mark} store.\n    return store.load(1)\n",
        "lib/shared.py": "def draw_together(canvas):\n    return canvas.load().paint()\n",
        "docs/guide.md": f"# Guide to the {mark}\n\nHow to load and draw with the {mark}.\n",
        f"deploy/{mark}.tf": f'resource "{mark}_bucket" "store" {{\n  name = "{mark}"\n}}\n',
    }


@cache  # worlds are made for every example
def settings_of(folder):
    return Settings(data=folder, local_paths=str(folder), language_model="ollama")


def world(folder, shown):
    """Return the repositories of these numbers. Each is indexed alike, whatever others exist."""
    made = World(settings_of(folder))
    made.dependencies = replace(made.dependencies, scopes=lambda: SCOPES)
    made.runs = {
        number: made.index(
            NAMES[number],
            files(number),
            ref=f"release-{MARKS[number]}",
            failed={f"bad/{MARKS[number]}.py": f"no grammar reads a {MARKS[number]}"},
            skipped={f"{MARKS[number]}.bin": f"binary {MARKS[number]}"},
        )
        for number in range(len(MARKS))
        if number in shown
    }
    return made


# What is asked

WORDS = (
    *("load", "draw", "paint", "Store", "how to load and draw", "quokka", "marmotBase", "guide"),
    *("marmot_laod", "zebrBase", "Stroe", "quokaBase", "nowhereAtAll", "where is the zebr"),
)
#: Queries with filters in their words.
WRITTEN = (
    "repo:acme/zebra load",
    "repo:acme/* draw",
    "repo:acme/q* load",
    "load -repo:acme/marmot",
    *("load scope:zebras", "scope:several draw", "draw scope:most repo:acme/q*"),
    "load scope:marmt",
)
#: Scopes of one repository, of several with the refs of each, and of all but one.
SCOPES = {
    one.name: one
    for one in (
        Scope("zebras", "Of zebras", ("acme/zebra",), (), ("src/*", "lib/*")),
        Scope("quokkas", "Of quokkas", ("acme/quokka",)),
        Scope(
            "several",
            repositories=("acme/zebra", "acme/m*"),
            refs=("release-zebra", "release-marmot", "HEAD"),
        ),
        Scope("most", repositories=("!acme/zebra", "acme/*"), paths=("!deploy/*", "**")),
        Scope("sources", paths=("src/*",)),
        Scope("released", refs=("release-quokka",)),
    )
}
PATHS = ("lib/store.py", "src/index.js", "src/quokka.js", "deploy/zebra.tf", "docs/guide.md")
POSITIONS = tuple(
    f"{path}:{line}:{column}" for path in PATHS for line in (1, 2) for column in (5, 8)
)
SUBJECTS = (*PATHS, "load", "draw", "Store.load", "zebraBase", "marmot_load")
OPTIONS = (
    {},
    {"expand.related": 20, "expand.imports": 5, "expand.enclosing": True},
    {"retrieve.mode": "staged", "retrieve.file_similarity": 0.0, "retrieve.chunk_similarity": 0.0},
    {"rank.centrality": "blend"},
    {"rank.collapse_copies": False},
    {"analyze.synonyms": True, "analyze.infer_filters": True},
)

names = st.sampled_from(("", *NAMES, "acme/quoka", "acme"))
refs = st.sampled_from(("", "main", *(f"release-{mark}" for mark in MARKS), "release-zebr"))
some_filters = st.builds(
    GivenFilters,
    repositories=st.lists(st.sampled_from((*NAMES, "acme/zebr")), max_size=2).map(tuple),
    languages=st.sampled_from(((), (), ("python",), ("terraform",))),
    paths=st.sampled_from(((), (), ("src/*",), ("**/*zebra*",))),
    block_types=st.sampled_from(((), (), ("zebra_bucket",))),
    ref=refs,
    not_repositories=st.lists(st.sampled_from(NAMES), max_size=2).map(tuple),
    not_paths=st.sampled_from(((), (), ("src/*",), ("deploy/zebra.tf",))),
    scope=st.sampled_from(("", "", "", *SCOPES, "zebrs")),
)
options = st.sampled_from(OPTIONS).map(lambda values: GivenOptions(values=values))
searches = st.builds(
    SearchRequest,
    query=st.sampled_from((*WORDS, *WRITTEN)),
    filters=st.one_of(st.just(GivenFilters()), some_filters),
    top_k=st.just(200),
    explain=st.booleans(),
    skip_cache=st.booleans(),
    options=options,
)
similars = st.one_of(
    st.builds(
        SimilarRequest,
        repository=names,
        path=st.sampled_from(PATHS),
        line=st.integers(1, 12),
        ref=refs,
        top_k=st.just(200),
    ),
    st.builds(SimilarRequest, snippet=st.sampled_from(WORDS), filters=some_filters),
).map(lambda one: replace(one, top_k=200))
reads = st.builds(
    ReadRequest,
    path=st.sampled_from(PATHS),
    repository=names,
    ref=refs,
    start_line=st.integers(0, 4),
    end_line=st.integers(0, 8),
)
graphs = st.builds(
    GraphRequest,
    subject=st.sampled_from(SUBJECTS),
    repository=names,
    ref=refs,
    relations=st.sampled_from(((), ("cross_repository",), ("callers", "references"))),
    reverse=st.booleans(),
)
failing = st.builds(
    FailuresRequest,
    repository=names,
    include_skipped=st.booleans(),
    include_partial=st.booleans(),
    page_size=st.integers(0, 3),
)
starts = st.builds(
    StartRequest,
    url=st.sampled_from([f"https://host.example/{name}" for name in (*NAMES, "acme/new")]),
    name=names,
    ref=refs,
)
greps = st.builds(
    GrepRequest,
    pattern=st.sampled_from((*WORDS, *WRITTEN, "o", r"\w+Base\b", "load|draw", "(")),
    filters=st.one_of(st.just(GivenFilters()), some_filters),
    ignore_case=st.booleans(),
    limit=st.sampled_from((None, 2)),
    without_lines=st.booleans(),
)
symbols = st.builds(
    SymbolsRequest,
    name=st.sampled_from((*WORDS, "*", "*oad", "marmot*", "qu*Base", *POSITIONS)),
    literal=st.booleans(),
    filters=st.one_of(st.just(GivenFilters()), some_filters),
    limit=st.sampled_from((None, 2)),
)
references = st.builds(
    ReferencesRequest,
    name=st.sampled_from((*WORDS, "Store.load", "zebraBase", *POSITIONS)),
    filters=st.one_of(st.just(GivenFilters()), some_filters),
    limit=st.sampled_from((None, 2)),
)
run_numbers = st.integers(0, len(MARKS) - 1)


def calls(function, requests):
    return st.tuples(st.just(function), requests)


READS = st.one_of(
    calls("search", searches),
    calls("context", searches),
    calls("similar", similars),
    calls("grep", greps),
    calls("symbols", symbols),
    calls("references", references),
    calls("read", reads),
    calls("files", st.builds(FilesRequest, names, refs, st.sampled_from(["", "src"]))),
    calls("explain", st.builds(ExplainRequest, st.sampled_from(SUBJECTS), names, refs)),
    calls("graph", graphs),
    calls("chunk_map", st.builds(MapRequest, st.lists(names, max_size=3))),
    calls("map_places", st.builds(MapPlacesRequest, st.lists(names, max_size=3))),
    calls("repositories", st.none()),
    calls("scopes", st.none()),
    calls("status", st.none()),
    calls("failures", failing),
    calls("watch", run_numbers),
)
WRITES = st.one_of(
    calls("start", starts),
    calls("register", starts),
    calls("cancel", run_numbers),
    calls("retry_failures", names),
    calls("enrich", names),
    calls("remove", names),
)


#: The functions that answer with several values, one after the other.
STREAMS = ("watch", "grep")


# What came back


async def outcome(asked, principal, function, request, ids):
    """Return the answer or the error, and the facts of the log line, as comparable values."""
    structlog.contextvars.clear_contextvars()
    request = ids[request] if function in ("watch", "cancel") else request
    args = () if request is None else (request,)
    try:
        call = getattr(service, function)(asked.dependencies, principal, *args)
        answer = [one async for one in call] if function in STREAMS else await call
    except CodelodeError as error:
        answer = (type(error).__name__, str(error))
    return answer, structlog.contextvars.get_contextvars()


#: What differs from call to call, or follows from the statistics of BM25.
PASSING = (
    *("took_ms", "score", "keyword_score", "explain", "stages"),
    *("started_at", "finished_at", "indexed_at"),
)


def comparable(value, runs):
    """Return a value without parts that may differ; rankings as sets. `runs`: id → repository."""
    if isinstance(value, str) and value in runs:
        return runs[value]
    if isinstance(value, (list, tuple)):
        return sorted(map(repr, (comparable(one, runs) for one in value)))
    if isinstance(value, dict):
        return {name: comparable(one, runs) for name, one in sorted(value.items())}
    if hasattr(value, "__dataclass_fields__"):
        shown = {one.name: getattr(value, one.name) for one in fields(value)}
        kept = {name: one for name, one in shown.items() if name not in PASSING}
        if "ranking" in kept:
            kept |= {"ranking": "", "next_page_token": _read(kept["next_page_token"])[:1]}
        if isinstance(value, ContextAnswer):
            kept["text"] = sorted(kept["text"].splitlines())
        return comparable(kept, runs)
    return value


def _read(token):
    return json.loads(base64.urlsafe_b64decode(token)) if token else []


def ids_of(full):
    """Return a run id of each repository, also of those that another world lacks."""
    return {number: run.id for number, run in full.runs.items()}


def run_names(*worlds):
    return {
        run.id: f"run of {run.repository} at {run.ref}"
        for one in worlds
        for run in one.ledger.recent(EVERYTHING, limit=1_000)
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("worlds")


shown = st.sets(st.integers(0, len(MARKS) - 1), max_size=len(MARKS) - 1)


def asked_of_both(folder, seen, call):
    """Return the outcome if the others are hidden, and if they were never indexed."""
    function, request = call
    full, bare = world(folder, range(len(MARKS))), world(folder, seen)
    visible = Visibility.of([NAMES[number] for number in seen])
    principal = Principal("somebody", Role.ADMIN, visible)
    everybody = Principal("everybody", Role.ADMIN, EVERYTHING)
    ids = ids_of(full)

    async def both():
        found = []
        for one in (full, bare):
            if function not in ("start", "register", "cancel", "remove") and (
                function not in ("retry_failures", "enrich")
            ):  # fills caches with what another principal may see
                await outcome(one, everybody, function, request, ids)
            own = ids if one is full else {**ids, **ids_of(bare)}
            found.append(await outcome(one, principal, function, request, own))
        return found

    hidden, absent = asyncio.run(both())
    return SimpleNamespace(full=full, bare=bare, hidden=hidden, absent=absent, runs=run_names)


@settings(max_examples=examples(150, short=40))
@given(seen=shown, call=READS)
@example(seen={0, 1}, call=("graph", GraphRequest("src/index.js", reverse=True)))
@example(seen={0}, call=("explain", ExplainRequest("load")))
@example(seen={0}, call=("status", None))
@example(seen=set(), call=("search", SearchRequest("load")))
@example(seen={1}, call=("similar", SimilarRequest(path="lib/store.py", line=1)))
@example(seen={1, 2}, call=("failures", FailuresRequest(page_size=1, include_skipped=True)))
def test_reading_something_hidden_answers_as_if_it_was_never_indexed(folder, seen, call):
    """The answer has a word of something hidden only if the request, which it may repeat, does."""
    found = asked_of_both(folder, seen, call)

    runs = run_names(found.full, found.bare)
    assert comparable(found.hidden, runs) == comparable(found.absent, runs)
    for number in set(range(len(MARKS))) - set(seen):
        if not holds(call[1], MARKS[number]) and call[0] != "watch":
            assert not holds(found.hidden, MARKS[number])


@settings(max_examples=examples(80, short=25))
@given(seen=shown, call=WRITES)
def test_writing_to_something_hidden_answers_as_if_it_was_never_indexed(folder, seen, call):
    found = asked_of_both(folder, seen, call)

    runs = run_names(found.full, found.bare)
    assert comparable(found.hidden, runs) == comparable(found.absent, runs)
    untouched = world(folder, range(len(MARKS)))
    for number in set(range(len(MARKS))) - set(seen):
        name = NAMES[number]
        assert found.full.ledger.get(name) == untouched.ledger.get(name)
        mine = Visibility.of([name])
        assert len(found.full.ledger.recent(mine)) == 1


def holds(value, mark):
    return mark in repr(value).lower()


@given(seen=shown, top_k=st.integers(1, 4), query=st.sampled_from(WORDS))
@settings(max_examples=examples(60, short=20))
def test_pages_of_another_visibility_are_refused_and_own_ones_hold_nothing_hidden(
    folder, seen, top_k, query
):
    full = world(folder, range(len(MARKS)))
    visible = Visibility.of([NAMES[number] for number in seen])
    everybody, somebody = (Principal("p", Role.READER, what) for what in (EVERYTHING, visible))
    request = SearchRequest(query, top_k=top_k)

    async def walked():
        given = full.dependencies
        foreign = (await service.search(given, everybody, request)).next_page_token
        answer = await service.search(given, somebody, request)
        pages = [answer]
        while answer.next_page_token:
            page = replace(request, page_token=answer.next_page_token)
            answer = await service.search(given, somebody, page)
            pages.append(answer)
        refused = None
        if foreign:
            try:
                await service.search(given, somebody, replace(request, page_token=foreign))
            except CodelodeError as error:
                refused = str(error)
        return bool(foreign), refused, pages

    was_given, refused, pages = asyncio.run(walked())
    assert not was_given or "belongs to another search" in refused
    hits = [hit for page in pages for hit in page.hits]
    assert {hit.repository for hit in hits} <= set(visible.names)
    assert len({(hit.repository, hit.path, hit.start_line) for hit in hits}) == len(hits)
    for page in pages:
        told = [one for one in page.notices if one != NO_WORD and "no definition" not in one]
        assert not told or not seen
        for number in set(range(len(MARKS))) - set(seen):
            read = [asdict(page), _read(page.next_page_token)]
            assert holds(query, MARKS[number]) or not holds(read, MARKS[number])


def test_a_name_that_is_not_visible_is_denied_whether_or_not_it_is_taken(folder):
    full = world(folder, [0])
    principal = Principal("p", Role.INDEXER, Visibility.of([NAMES[1]]))

    def refusal(name):
        request = StartRequest("https://host.example/x/y", name=name)
        with pytest.raises(CodelodeError) as caught:
            asyncio.run(service.register(full.dependencies, principal, request))
        return type(caught.value), str(caught.value).replace(name, "NAME")

    assert refusal(NAMES[0]) == refusal("acme/nowhere")
