"""The contract of the port SymbolTable, over every implementation."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codelode.backends.memory.symbols import MemorySymbols
from codelode.backends.redis.symbols import RedisSymbols
from codelode.model import Kind, LocatedSymbol, Symbol

REPO = "acme/app"
MAIN, TOPIC = "main", "topic"


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.server)])
def table(request):
    if request.param == "memory":
        return MemorySymbols()
    return RedisSymbols(request.getfixturevalue("redis"))


def symbol(name, line=1, **changes):
    fields = {
        "qualified_name": f"Outer.{name}",
        "kind": Kind.METHOD,
        "signature": f"def {name}(self, text: str = 'ü') -> None",
        "end_line": line + 3,
        "is_exported": True,
        "doc": "What it is for.",
    }
    return Symbol(name=name, start_line=line, **{**fields, **changes})


def test_a_definition_is_found_as_it_was_stored(table):
    stored = symbol("parse", 7, kind=Kind.FUNCTION, qualified_name="parse", is_exported=False)
    table.replace(REPO, [MAIN], {"src/a.py": [stored]})

    assert table.lookup("parse", repositories=[REPO], ref=MAIN) == (
        LocatedSymbol(REPO, "src/a.py", stored),
    )


def test_results_are_ordered_by_repository_path_and_line(table):
    table.replace("b", [MAIN], {"a.py": [symbol("parse", 1)]})
    table.replace(
        "a", [MAIN], {"z.py": [symbol("parse", 9), symbol("other", 2), symbol("parse", 3)]}
    )
    table.replace("a", [MAIN], {"b.py": [symbol("parse", 5)]})

    places = [
        (found.repository, found.path, found.symbol.start_line)
        for found in table.lookup("parse", repositories=["b", "a"], ref=MAIN)
    ]
    assert places == [("a", "b.py", 5), ("a", "z.py", 3), ("a", "z.py", 9), ("b", "a.py", 1)]


@pytest.mark.parametrize("name", ["Parse", "pars", "parser", "Outer.parse", "", "par*"])
def test_only_the_exact_name_is_found(table, name):
    table.replace(REPO, [MAIN], {"a.py": [symbol("parse")]})

    assert table.lookup(name, repositories=[REPO], ref=MAIN) == ()


def test_only_the_named_repositories_are_searched(table):
    for repository in ("one", "two", "{one}"):
        table.replace(repository, [MAIN], {"a.py": [symbol("parse")]})

    found = table.lookup("parse", repositories=["two", "unknown", "two"], ref=MAIN)
    assert [located.repository for located in found] == ["two"]
    assert table.lookup("parse", repositories=[], ref=MAIN) == ()


def test_replacing_a_file_forgets_what_it_no_longer_defines(table):
    table.replace(REPO, [MAIN], {"a.py": [symbol("old"), symbol("kept", 1)]})
    table.replace(REPO, [MAIN], {"b.py": [symbol("old")]})
    table.replace(REPO, [MAIN], {"a.py": [symbol("kept", 2), symbol("new")]})

    assert [at.path for at in table.lookup("old", repositories=[REPO], ref=MAIN)] == ["b.py"]
    assert [at.symbol.start_line for at in table.lookup("kept", repositories=[REPO], ref=MAIN)] == [
        2
    ]
    assert [at.path for at in table.lookup("new", repositories=[REPO], ref=MAIN)] == ["a.py"]


def test_a_file_without_definitions_is_forgotten(table):
    table.replace(REPO, [MAIN], {"a.py": [symbol("parse")]})
    table.replace(REPO, [MAIN], {"a.py": []})
    table.replace(REPO, [MAIN], {"never-seen.py": []})

    assert table.lookup("parse", repositories=[REPO], ref=MAIN) == ()


def test_removing_a_repository_leaves_the_others(table):
    for repository in ("gone", "kept"):
        table.replace(repository, [MAIN], {"a.py": [symbol("parse")]})
    table.remove_repository("gone")
    table.remove_repository("never-seen")

    found = table.lookup("parse", repositories=["gone", "kept"], ref=MAIN)
    assert [located.repository for located in found] == ["kept"]


def test_a_name_that_many_files_define_loses_and_gains_them_one_by_one(table):
    for number in range(600):
        table.replace(REPO, [MAIN], {f"{number:03}.py": [symbol("parse"), symbol("other")]})
    for number in range(400):
        table.replace(REPO, [MAIN], {f"{number:03}.py": [symbol("other")]})
    table.replace(REPO, [MAIN], {"000.py": [symbol("parse", 5)]})

    paths = [located.path for located in table.lookup("parse", repositories=[REPO], ref=MAIN)]
    assert paths == ["000.py", *(f"{number}.py" for number in range(400, 600))]


def test_a_large_repository_is_removed_whole(table):
    for number in range(2500):
        table.replace(REPO, [MAIN], {f"{number}.py": [symbol("parse")]})
    assert len(table.lookup("parse", repositories=[REPO], ref=MAIN)) == 2500

    table.remove_repository(REPO)
    assert table.lookup("parse", repositories=[REPO], ref=MAIN) == ()
    table.replace(REPO, [MAIN], {"again.py": [symbol("parse")]})
    assert [at.path for at in table.lookup("parse", repositories=[REPO], ref=MAIN)] == ["again.py"]


def test_an_emptied_or_removed_repository_leaves_no_keys_in_redis(redis):
    table = RedisSymbols(redis)
    for number in range(1200):
        table.replace(REPO, [MAIN], {f"{number}.py": [symbol("parse"), symbol(f"f{number}")]})
    for number in range(100):
        table.replace(REPO, [MAIN], {f"{number}.py": []})
    assert not redis.hexists("codelode:symbols:{acme/app}:name", "f7")

    table.remove_repository(REPO)
    assert list(redis.scan_iter()) == []


names = st.sampled_from(["a", "b", "/", "", "=a", "ü\0"]) | st.text(max_size=3)
symbols = st.builds(
    Symbol,
    name=names,
    qualified_name=st.text(max_size=9),
    kind=st.sampled_from(Kind),
    signature=st.text(max_size=9),
    start_line=st.integers(1, 9),
    end_line=st.integers(1, 10**6),
    is_exported=st.booleans(),
    doc=st.text(max_size=9),
)
changes = st.lists(st.tuples(names, st.lists(symbols, max_size=6)), max_size=10)
prefixes = (f"property{number}:" for number in itertools.count())


@given(changes=changes)
@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_sequence_of_changes_ends_alike_in_redis_and_in_memory(redis, changes):
    memory, server = MemorySymbols(), RedisSymbols(redis, prefix=next(prefixes))
    for path, definitions in changes:
        memory.replace(REPO, [MAIN], {path: definitions})
        server.replace(REPO, [MAIN], {path: definitions})

    for name in {symbol.name for _, definitions in changes for symbol in definitions}:
        found = server.lookup(name, repositories=[REPO], ref=MAIN)
        assert found == memory.lookup(name, repositories=[REPO], ref=MAIN)


def test_many_names_are_looked_up_at_once(table):
    table.replace(
        REPO, [MAIN], {"a.py": [symbol("load", 3), symbol("load", 1)], "b.py": [symbol("run", 2)]}
    )

    found = table.lookup_all(["load", "run", "none"], repository=REPO, ref=MAIN)
    assert {
        name: [(at.path, at.symbol.start_line) for at in some] for name, some in found.items()
    } == {
        **{"load": [("a.py", 1), ("a.py", 3)], "run": [("b.py", 2)]},
        "none": [],
    }
    assert table.lookup_all([], repository=REPO, ref=MAIN) == {}


def test_the_definitions_of_a_file_are_listed_by_line(table):
    table.replace(
        REPO, [MAIN], {"a.py": [symbol("run", 9), symbol("load", 1)], "b.py": [symbol("load", 2)]}
    )

    found = table.defined_in(REPO, MAIN, ["a.py", "none.py"])
    assert [(at.symbol.name, at.symbol.start_line) for at in found["a.py"]] == [
        *(("load", 1), ("run", 9))
    ]
    assert found["none.py"] == ()
    assert table.defined_in(REPO, MAIN, []) == {}
