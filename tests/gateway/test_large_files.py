"""Questions about a file of thousands of definitions are answered in linear time."""

from __future__ import annotations

import time

import pytest

from codelode.access import EVERYTHING, Principal, Role
from codelode.model import Kind, LocatedSymbol, RepositoryName, Symbol
from gateway import service
from gateway.expand.callers import exported
from gateway.expand.subject import innermost
from gateway.service.requests import GraphRequest
from tests.processor_time import processor_time_below
from tests.worlds import World

HERE = "acme/app"
ASKING = Principal("ann", Role.READER, EVERYTHING)


def at(name, first, last):
    symbol = Symbol(name, name, Kind.CLASS, name, first, last, is_exported=True)
    return LocatedSymbol(RepositoryName(HERE), "a.py", symbol)


def test_the_innermost_definition_around_each_line_is_found():
    defined = [at("Outer", 1, 20), at("Inner", 2, 5), at("deep", 3, 3), at("Across", 4, 8)]
    found = innermost([("a.py", line) for line in (1, 2, 3, 4, 6, 9, 20, 21)], {"a.py": defined})

    assert {line: one.symbol.name for (_, line), one in found.items()} == {
        1: "Outer", 2: "Inner", 3: "deep", 4: "Across", 6: "Across", 9: "Outer", 20: "Outer",
    }  # fmt: skip


def look_up(defined):
    innermost((("a.py", one.symbol.start_line) for one in defined), {"a.py": defined})


@pytest.mark.slow
@pytest.mark.parametrize("work", [look_up, exported])
def test_definitions_of_one_name_are_read_in_linear_time(work):
    defined = [at("A", number, number) for number in range(50_000)]

    with processor_time_below(1):  # linear: 0.05 s; quadratic: 10 s
        work(defined)


async def test_the_bases_of_a_class_among_thousands_are_those_on_its_lines(settings):
    world = World(settings)
    bases = "".join(f"class B{number}: pass\n" for number in range(500))
    classes = "".join(f"class A{number}(B{number % 500}): pass\n" for number in range(3_000))
    world.index(HERE, {"app.py": bases + classes})

    request = GraphRequest(subject="A1234", relations=("inherits",), depth=1)
    answer = await service.graph(world.dependencies, ASKING, request)

    assert [(link.source.symbol, link.target.symbol) for link in answer.links] == [
        ("A1234", "B234")
    ]


async def test_the_calls_of_a_function_of_long_lines_take_a_second_at_most(settings):
    world = World(settings)
    lines = f"    {'a' * 2_000}\n" * 440
    world.index(HERE, {"app.py": f"def called(): pass\n\n\ndef long():\n{lines}    called()\n"})

    request = GraphRequest(subject="long", relations=("calls", "references"), depth=1)
    started = time.process_time()
    answer = await service.graph(world.dependencies, ASKING, request)

    assert time.process_time() - started < 1
    assert ("long", "called") in [(link.source.symbol, link.target.symbol) for link in answer.links]
