"""A call about a hidden repository does the work of the same call about an absent one.

How long a call takes would otherwise tell which names exist. Times are not compared, because they
depend on the machine: the backends must be asked the same, as often, and run the same functions, as
must what compares names of repositories with globs and scopes.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from codelode import backends, globs, repository_globs
from codelode.access import EVERYTHING, Principal, Role, Visibility
from codelode.errors import CodelodeError
from codelode.model import RepositoryName
from codelode.scopes import Scope
from codelode.settings import Settings
from gateway import service
from gateway.service.capabilities import CAPABILITIES, Capability
from gateway.service.requests import (
    ExplainRequest,
    FailuresRequest,
    FilesRequest,
    GivenFilters,
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
from tests.worlds import World

SEEN, HIDDEN, ABSENT = "acme/marmot", "acme/quokka", "acme/walrus"
FILES = {
    "lib/store.py": "class Store:\n    def load(self, key):\n        return key\n",
    "src/index.js": "export function draw() {\n  return 1\n}\n",
}
UNNAMED = Capability("", Role.READER, CAPABILITIES["watch"].kind).named
#: The code whose functions are counted.
COUNTED = (
    str(Path(backends.__file__).parent),
    globs.__file__,
    repository_globs.__file__,
    str(Path(service.__file__).with_name("scopes.py")),
)

#: What is asked about a repository, by the service function; the name is that of the repository.
CALLS = {
    "search": lambda name: SearchRequest("load", GivenFilters(repositories=(name,))),
    "search at a ref": lambda name: SearchRequest("load", GivenFilters(ref=f"release-{name}")),
    "search without": lambda name: SearchRequest("load", GivenFilters(not_repositories=(name,))),
    "search by a word": lambda name: SearchRequest(f"load repo:{name}"),
    "search in a scope": lambda name: SearchRequest("load", GivenFilters(scope=name)),
    "search in a scope by a word": lambda name: SearchRequest(f"load scope:{name}"),
    "context": lambda name: SearchRequest("load", GivenFilters(repositories=(name,))),
    "similar": lambda name: SimilarRequest(repository=name, path="lib/store.py", line=1),
    "grep": lambda name: GrepRequest("load", GivenFilters(repositories=(name,))),
    "grep by a word": lambda name: GrepRequest(f"repo:{name} load"),
    "symbols": lambda name: SymbolsRequest("Store", GivenFilters(repositories=(name,))),
    "references": lambda name: ReferencesRequest("Store", GivenFilters(repositories=(name,))),
    "read": lambda name: ReadRequest("lib/store.py", name),
    "files": lambda name: FilesRequest(name, "", "lib"),
    "explain": lambda name: ExplainRequest("lib/store.py", name),
    "graph": lambda name: GraphRequest("lib/store.py", name),
    "chunk_map": lambda name: MapRequest((name,)),
    "map_places": lambda name: MapPlacesRequest((name,)),
    "make_map": lambda name: MapRequest((name,)),
    "failures": lambda name: FailuresRequest(name),
    "start": lambda name: StartRequest(f"https://host.example/{name}"),
    "register": lambda name: StartRequest(f"https://host.example/{name}"),
    "start by name": lambda name: StartRequest("https://host.example/x/y", name=name),
    "retry_failures": lambda name: name,
    "enrich": lambda name: name,
    "set_default": lambda name: (name, "main"),
    "label": lambda name: (name, "internal"),
    "remove": lambda name: name,
}
#: Calls about a new name that succeed for a caller who sees everything.
NEW = ("start", "start by name", "register", "search without")


@pytest.fixture
def dependencies(tmp_path):
    world = World(Settings(data=tmp_path, language_model="ollama"))
    for name in (SEEN, HIDDEN):
        world.index(name, FILES, ref=f"release-{name}", failed={"bad/a.py": "no grammar"})
        world.map(name)
    declared = {name: Scope(name, repositories=(f"{name}*",)) for name in (SEEN, HIDDEN)}
    declared["marmots"] = Scope("marmots", repositories=("acme/mar*",))
    return replace(world.dependencies, scopes=lambda: declared)


def work(dependencies, principal, function, request):
    """Return how often each function of COUNTED ran, in any thread, and whether the call failed."""
    ran: Counter[str] = Counter()
    repository_globs.matcher.cache_clear()  # it keeps what callers gave, whatever it matched

    def count(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(COUNTED):
            ran[f"{Path(frame.f_code.co_filename).stem}.{frame.f_code.co_qualname}"] += 1

    async def ask():
        given = request if isinstance(request, tuple) else (request,) if request else ()
        call = getattr(service, function)(dependencies, principal, *given)
        return [one async for one in call] if function == "grep" else await call

    threading.setprofile(count)
    sys.setprofile(count)
    try:
        asyncio.run(ask())  # in threads of its own
        return ran, None
    except CodelodeError as error:
        return ran, type(error)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


@pytest.mark.parametrize("what", CALLS)
def test_a_hidden_name_costs_as_much_work_as_an_absent_one(dependencies, what):
    function = what.partition(" ")[0]
    somebody = Principal("somebody", Role.ADMIN, Visibility.of([SEEN]))

    def asked(name, principal=somebody):
        return work(dependencies, principal, function, CALLS[what](name))

    asked(ABSENT)  # fills caches
    assert asked(HIDDEN) == asked(ABSENT)
    if what not in NEW:
        everybody = Principal("everybody", Role.ADMIN, EVERYTHING)
        assert asked(HIDDEN, everybody) != asked(ABSENT, everybody)


def test_every_call_that_names_a_repository_is_compared():
    naming = {name for name, one in CAPABILITIES.items() if one.named is not UNNAMED}
    assert naming - {"create_key"} == {what.partition(" ")[0] for what in CALLS}


@pytest.mark.parametrize("text", ["{}", "the call that loads now {}"])
def test_a_scope_that_is_written_several_times_is_looked_up_once(dependencies, text):
    somebody = Principal("somebody", Role.READER, EVERYTHING)

    def asked(*names):
        word = "(" + " or ".join(f"scope:{name}" for name in names) + ")"
        return work(dependencies, somebody, "search", SearchRequest("load " + text.format(word)))

    once, _ = asked("marmots", "marmots")
    often, error = asked(*["marmots"] * 50)
    assert error is None
    assert often["ledger.MemoryLedger.names"] == once["ledger.MemoryLedger.names"] > 0
    unknown, _ = asked(*(f"scope-{number}" for number in range(50)))
    assert unknown["ledger.MemoryLedger.names"] <= once["ledger.MemoryLedger.names"]


def test_a_scope_without_refs_reads_none(dependencies):
    def read(filters):
        ran, _ = work(dependencies, somebody, "search", SearchRequest("load", filters))
        return ran["ledger.MemoryLedger.ref_counts"]

    somebody = Principal("somebody", Role.READER, EVERYTHING)
    assert read(GivenFilters(scope="marmots")) == 0
    assert read(GivenFilters(scope="marmots", ref=f"release-{SEEN}")) > 0


def test_only_new_names_and_scopes_are_compared_with_globs(tmp_path):
    world = World(Settings(data=tmp_path))
    for number in range(50):
        world.index(f"acme/number-{number}", {})
    declared = {f"s{number}": Scope(f"s{number}", "", (f"acme/*{number}*",)) for number in range(5)}
    dependencies = replace(world.dependencies, scopes=lambda: declared)
    somebody = Principal("somebody", Role.READER, EVERYTHING)

    def compared(function="scopes", request=None):
        ran, _ = work(dependencies, somebody, function, request)
        return sum(times for name, times in ran.items() if name.startswith("globs."))

    one = compared("search", SearchRequest("load", GivenFilters(scope="s0")))
    assert one >= 50
    assert compared() >= 3 * one  # the other scopes
    assert compared() == 0
    world.index("acme/new", {})
    new = compared()
    assert 0 < new < 50
    world.dependencies.ledger.unregister(RepositoryName("acme/new"))
    world.index("acme/newer", {})
    assert 0 < compared() < 50
    world.index("acme/new", {})
    assert compared() == new  # was forgotten
    declared = {**declared, "s0": Scope("s0", "described", ("acme/*0*",))}
    assert compared() == 0
    declared = {**declared, "s9": Scope("s9", "", ("acme/*9*",))}
    assert 0 < compared() < 2 * one
