"""GetGraph over gRPC: what is around files, symbols and repositories in the twins of every port."""

from __future__ import annotations

from dataclasses import replace

import grpc
import pytest
from grpc import aio

from codelode.backends.memory.packages import MemoryPackageIndex
from codelode.backends.memory.references import MemoryReferences
from codelode.model import DEFAULT_REF, Edge, EdgeKind, Kind, Repository, Symbol
from codelode.ports import PublishedPackages
from codelode.v1 import graph_pb2, graph_pb2_grpc, search_pb2, search_pb2_grpc

HERE, THERE = "acme/http", "acme/web"

FILES = {
    "src/app.py": "from store import load\nimport requests\n\ndef run():\n    return load(1)\n",
    "src/store.py": "class Store(Base):\n    def get(self):\n        return load(2)\n\n"
    "def load(key):\n    return parse(key)\n",
    "src/base.py": "class Base:\n    pass\n",
    "src/other.py": "def load(key):\n    return key\n\ndef parse(text):\n    return text\n",
    "tests/test_store.py": "from store import load\n\ndef test_load():\n    assert load(3)\n",
}
SYMBOLS = {
    "src/app.py": [("run", Kind.FUNCTION, 4, 5)],
    "src/store.py": [
        *(("Store", Kind.CLASS, 1, 3), ("Store.get", Kind.METHOD, 2, 3)),
        ("load", Kind.FUNCTION, 5, 6),
    ],
    "src/base.py": [("Base", Kind.CLASS, 1, 2)],
    "src/other.py": [("load", Kind.FUNCTION, 1, 2), ("parse", Kind.FUNCTION, 4, 5)],
    "tests/test_store.py": [("test_load", Kind.FUNCTION, 3, 4)],
}
EDGES = {
    "src/app.py": ["src/store.py", "!requests"],
    "src/store.py": ["src/base.py", "src/other.py"],
    "tests/test_store.py": ["src/store.py"],
}
NAMES = {
    "src/app.py": ["c load\x005", "p npm:ui"],
    "src/store.py": ["c load\x003", "c parse\x006", "i Base\x001"],
    "tests/test_store.py": ["c load\x004"],
}


def symbol(qualified, kind, start, end):
    name = qualified.rpartition(".")[2]
    return Symbol(name, qualified, kind, f"def {name}", start, end, is_exported=True)


def edges(path, targets):
    found = [
        Edge(path, target.removeprefix("!"), EdgeKind.IMPORTS, is_external=target[0] == "!")
        for target in targets
    ]
    return found + ([Edge(path, targets[0], EdgeKind.TESTS)] if path.startswith("tests/") else [])


@pytest.fixture
def backends(backends):
    return replace(backends, references=MemoryReferences(), packages=MemoryPackageIndex())


@pytest.fixture
def ask(backends, ledger, index, make_chunk, channel):
    """`ask(subject, relation)`: source → target (confidence, depth) of each link."""
    for name in (HERE, THERE):
        ledger.register(Repository(name, f"https://example.com/{name}"))
    index(*(make_chunk(path, text) for path, text in FILES.items()))
    index(make_chunk("app.js", "ui()\n", repository=THERE))
    for path in FILES:
        backends.graph.replace(HERE, [DEFAULT_REF], {path: edges(path, EDGES.get(path, []))})
        backends.symbols.replace(
            HERE, [DEFAULT_REF], {path: [symbol(*row) for row in SYMBOLS[path]]}
        )
        backends.references.replace(HERE, [DEFAULT_REF], {path: NAMES.get(path, [])})
    backends.packages.publish(THERE, [DEFAULT_REF], PublishedPackages({"npm:ui": ""}, {}))

    async def asked(subject, relation, **fields):
        request = graph_pb2.GetGraphRequest(subject=subject, relations=[relation], **fields)
        response = await graph_pb2_grpc.GraphServiceStub(channel).GetGraph(request)
        return [shown(link) for link in response.links]

    return asked


def shown(link):
    source, target = (at.symbol or at.path for at in (link.source, link.target))
    return f"{source} → {target} {link.confidence} {link.depth}"


CASES = [
    ("src/app.py", "imports", {}, [
        "src/app.py → requests exact 1", "src/app.py → src/store.py exact 1",
        "src/store.py → src/base.py exact 2", "src/store.py → src/other.py exact 2"]),
    ("src/app.py", "imports", {"depth": 1}, [
        "src/app.py → requests exact 1", "src/app.py → src/store.py exact 1"]),
    ("src/base.py", "importers", {}, [
        "src/store.py → src/base.py exact 1", "src/app.py → src/store.py exact 2",
        "tests/test_store.py → src/store.py exact 2"]),
    ("src/store.py", "tests", {}, ["tests/test_store.py → src/store.py exact 1"]),
    ("src/app.py", "calls", {}, ["src/app.py → load imported 1"]),
    ("run", "calls", {}, ["run → load imported 1", "load → parse exact 2"]),
    ("Store.get", "calls", {"depth": 1}, ["Store.get → load exact 1"]),
    ("parse", "callers", {}, ["load → parse exact 1"]),
    ("src/other.py", "callers", {}, ["load → parse exact 1"]),
    ("Store", "inherits", {}, ["Store → Base exact 1"]),
    ("Base", "subclasses", {}, ["Store → Base exact 1"]),
    ("Base", "references", {}, ["Store → Base exact 1"]),
    ("get", "definitions", {}, ["Store.get → Store.get exact 1"]),
    ("src/app.py", "cross_repository", {}, ["src/app.py → npm:ui name 1"]),
    ("run", "cross_repository", {}, ["src/app.py → npm:ui name 1"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("subject", "relation", "fields", "expected"), CASES, ids=[f"{c[0]} {c[1]}" for c in CASES]
)
async def test_links_lead_from_what_depends_to_what_it_depends_on(
    ask, subject, relation, fields, expected
):
    assert await ask(subject, relation, **fields) == expected


async def test_imports_distinguish_the_callers_of_two_definitions_with_one_name(ask):
    assert await ask("load", "callers") == [
        "Store.get → load exact 1",
        "run → load imported 1",
        "test_load → load imported 1",
    ]


ALIASED = {
    "src/reader.py": (
        "from other import load as read\nfrom store import load as fetch\nimport base as b\n\n"
        "def load():\n    return read(1)\n\ndef take():\n    return fetch(1)\n\n"
        "class Parent(b.Base):\n    pass\n\ndef again():\n    return load()\n",
        [("load", Kind.FUNCTION, 5, 6), ("take", Kind.FUNCTION, 8, 9),
         ("Parent", Kind.CLASS, 11, 12), ("again", Kind.FUNCTION, 14, 15)],
        ["src/other.py", "src/store.py", "src/base.py"],
        ["c load\x0015", "C load", "= c load read\x006", "= c load fetch\x009",
         "@ read src/other.py", "@ fetch src/store.py", "I Base", "= i Base b.Base\x0011",
         "@ b src/base.py"],
    ),
    "src/child.py": (
        "from base import Base as Root\n\nclass Child(Root):\n    pass\n",
        [("Child", Kind.CLASS, 3, 4)],
        ["src/base.py"],
        ["I Base", "= i Base Root\x003", "@ Root src/base.py"],
    ),
    "ui/view.js": (
        "import draw from './shape'\n\nfunction show() {\n  draw()\n}\n",
        [("show", Kind.FUNCTION, 3, 5)],
        ["ui/shape.js"],
        ["c draw\x004", "C default", "= c default draw\x004", "@ draw ui/shape.js"],
    ),
    "ui/shape.js": (
        "export default function paint() {\n}\n",
        [("paint", Kind.FUNCTION, 1, 2)],
        [],
        ["d paint"],
    ),
}  # fmt: skip


@pytest.fixture
def aliased(ask, backends, index, make_chunk):
    index(*(make_chunk(path, text) for path, (text, *_) in ALIASED.items()))
    for path, (_, symbols, targets, names) in ALIASED.items():
        backends.graph.replace(HERE, [DEFAULT_REF], {path: edges(path, targets)})
        backends.symbols.replace(HERE, [DEFAULT_REF], {path: [symbol(*row) for row in symbols]})
        backends.references.replace(HERE, [DEFAULT_REF], {path: names})
    return ask


async def test_callers_under_an_alias_are_distinguished_by_its_origin(aliased):
    assert await aliased("src/other.py", "callers") == [
        "load → parse exact 1",
        "load → load imported 1",
    ]
    assert "take → load imported 1" in await aliased("src/store.py", "callers")


async def test_calls_have_the_resolved_name_instead_of_the_written_one(aliased):
    assert await aliased("take", "calls", depth=1) == ["take → load imported 1"]
    assert await aliased("again", "calls", depth=1) == ["again → load exact 1"]


async def test_bases_under_another_name_are_inherited(aliased):
    assert await aliased("Child", "inherits") == ["Child → Base exact 1"]
    assert await aliased("Parent", "inherits") == ["Parent → Base exact 1"]
    assert await aliased("Base", "subclasses") == [
        *("Child → Base exact 1", "Parent → Base exact 1", "Store → Base exact 1"),
    ]


async def test_a_default_export_is_resolved_under_any_name(aliased):
    assert await aliased("paint", "callers") == ["show → paint exact 1"]
    assert await aliased("show", "calls") == ["show → paint exact 1"]


async def test_the_users_of_a_package_are_found_from_its_repository(ask):
    found = await ask("app.js", "cross_repository", repository=THERE, reverse=True)

    assert found == ["src/app.py → npm:ui name 1"]


async def test_calls_of_a_removed_definition_are_no_longer_resolved(ask, backends):
    backends.symbols.replace(HERE, [DEFAULT_REF], {"src/store.py": []})

    assert await ask("run", "calls") == ["run → load name 1"]


async def test_files_that_the_ref_lacks_are_left_out(ask, backends):
    backends.graph.replace(
        HERE, [DEFAULT_REF], {"src/base.py": edges("src/base.py", ["src/gone.py"])}
    )

    assert await ask("src/base.py", "imports") == []


async def test_the_answer_says_what_the_subject_is_and_what_was_cut(ask, channel):
    stub = graph_pb2_grpc.GraphServiceStub(channel)
    whole = await stub.GetGraph(graph_pb2.GetGraphRequest(subject="./src/app.py"))
    part = await stub.GetGraph(graph_pb2.GetGraphRequest(subject="run", limit=1))

    assert (whole.subject_kind, whole.repository, list(whole.notices)) == ("file", HERE, [])
    assert {link.relation for link in whole.links} == {"imports", "calls", "cross_repository"}
    assert part.subject_kind == "symbol"
    assert any("imports: only the first 1" in notice for notice in part.notices)


SHARED = [
    ("README.md", f"1 other repository has README.md too, and only that of {HERE} is shown"),
    ("main", f"1 other repository has main too, and only that of {HERE} is shown"),
]


@pytest.fixture
def twice(ask, backends, index, make_chunk):
    """Have the same file, with the same symbol, in two repositories."""
    for name in (HERE, THERE):
        index(make_chunk("README.md", "main\n", repository=name))
        main = symbol("main", Kind.FUNCTION, 1, 1)
        backends.symbols.replace(name, [DEFAULT_REF], {"README.md": [main]})


@pytest.mark.parametrize(("subject", "said"), SHARED, ids=["file", "symbol"])
@pytest.mark.usefixtures("twice")
async def test_a_subject_in_several_repositories_means_the_first_and_adds_a_notice(
    channel, subject, said
):
    stub = graph_pb2_grpc.GraphServiceStub(channel)
    answer = await stub.GetGraph(graph_pb2.GetGraphRequest(subject=subject))
    named = await stub.GetGraph(graph_pb2.GetGraphRequest(subject=subject, repository=THERE))

    assert answer.repository == HERE
    assert list(answer.notices) == [f"{said}; choose one with `repository`"]
    assert (named.repository, list(named.notices)) == (THERE, [])


@pytest.mark.usefixtures("twice")
async def test_an_explanation_says_how_many_repositories_have_its_subject(channel):
    stub = search_pb2_grpc.SearchServiceStub(channel)
    file = await stub.Explain(search_pb2.ExplainRequest(subject="README.md"))
    name = await stub.Explain(search_pb2.ExplainRequest(subject="main"))
    named = await stub.Explain(search_pb2.ExplainRequest(subject="main", repository=HERE))

    assert file.notices[0] == f"{SHARED[0][1]}; choose one with `repository`"
    assert {one.repository for one in file.definitions} == {HERE}
    assert name.notices[0] == (
        "1 other repository has main too, and all are listed; choose one with `repository`"
    )
    assert [one.repository for one in name.definitions] == [HERE, THERE]
    assert not any("repository" in notice for notice in named.notices)


async def test_a_name_that_many_files_define_is_answered_for_the_first_of_them(
    ask, backends, index, make_chunk, channel
):
    for number in range(25):
        path = f"src/part_{number:02}.py"
        index(make_chunk(path, "class Part(Base):\n    pass\n"))
        backends.symbols.replace(HERE, [DEFAULT_REF], {path: [symbol("Part", Kind.CLASS, 1, 2)]})
        backends.references.replace(HERE, [DEFAULT_REF], {path: ["i Base\x001"]})

    request = graph_pb2.GetGraphRequest(subject="Part", relations=["inherits", "definitions"])
    response = await graph_pb2_grpc.GraphServiceStub(channel).GetGraph(request)

    found = [link.relation for link in response.links]
    assert (found.count("definitions"), found.count("inherits")) == (25, 20)
    assert any("25 files define Part" in notice for notice in response.notices)


WRONG = [
    ({"subject": " "}, "subject: is empty; give the path of a file, or the name of a symbol"),
    ({"subject": "x" * 9_000}, "subject"),
    ({"subject": "run", "relations": ["cals"]}, "relations"),
    ({"subject": "run", "relations": ["calls"] * 1_001}, "relations"),
    ({"subject": "run", "depth": 6}, "depth"),
    ({"subject": "run", "depth": -1}, "depth"),
    ({"subject": "run", "limit": 1_001}, "limit"),
    ({"subject": "run", "repository": "acme/htp"}, "repository"),
    ({"subject": "run", "ref": "nowhere"}, "ref"),
]


@pytest.mark.parametrize(
    ("fields", "field"), WRONG, ids=[f"{w[1]} {i}" for i, w in enumerate(WRONG)]
)
async def test_a_wrong_field_is_named(ask, channel, fields, field):
    with pytest.raises(aio.AioRpcError) as raised:
        await graph_pb2_grpc.GraphServiceStub(channel).GetGraph(graph_pb2.GetGraphRequest(**fields))
    assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert field in raised.value.details()


async def test_an_unknown_subject_is_not_found(ask):
    with pytest.raises(aio.AioRpcError) as raised:
        await ask("nowhere", "imports")
    assert raised.value.code() is grpc.StatusCode.NOT_FOUND
