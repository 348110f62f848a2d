"""`codelode graph` and `Client.graph` send the right request and show the answer."""

# ruff: noqa: N802  the methods have gRPC's names
from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from codelode.client import Client, GraphLink, GraphNode
from codelode.errors import InvalidQuery
from codelode.v1 import graph_pb2, graph_pb2_grpc


def link(relation, source, target, *, depth=1, confidence="exact"):
    return graph_pb2.GraphLink(
        relation=relation, source=source, target=target, depth=depth, confidence=confidence
    )


def place(path="", symbol="", line=0, repository="acme/http"):
    return graph_pb2.GraphPlace(repository=repository, path=path, symbol=symbol, line=line)


LINKS = [
    link("definitions", place("a.py", "run", 4), place("a.py", "run", 4)),
    link("imports", place("a.py"), place("b.py")),
    link("imports", place("b.py"), place("c\x1b.py"), depth=2),
    link("imports", place("a.py"), place(symbol="requests", repository="")),
    link("calls", place("a.py", "run", 4), place("b.py", "load", 9), confidence="name"),
    link("cross_repository", place("a.py"), place("ui", "npm:ui", repository="acme/ui")),
]


class Canned(graph_pb2_grpc.GraphServiceServicer):
    def __init__(self):
        self.requests = []
        self.links = LINKS
        self.notices = ["cut"]

    def GetGraph(self, request, context):
        self.requests.append(request)
        return graph_pb2.GetGraphResponse(
            subject_kind="file", repository="acme/http", links=self.links, notices=self.notices
        )


@pytest.fixture
def service():
    return Canned()


@pytest.fixture
def address(service):
    server = grpc.server(ThreadPoolExecutor(2))
    graph_pb2_grpc.add_GraphServiceServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(0).wait()


def test_links_are_lines_indented_by_their_distance(address, codelode):
    answer = codelode("graph", "a.py", "--server", address)

    assert answer.status == 0
    assert answer.out.splitlines() == [
        "definitions      a.py:4 run",
        "imports          a.py → b.py",
        "imports            b.py → 'c\\x1b.py'",
        "imports          a.py → requests (external)",
        "calls            a.py:4 run → b.py:9 load  (name)",
        "cross_repository a.py → acme/ui ui npm:ui",
    ]
    assert answer.err.splitlines() == ["note: cut", "6 links around a file"]


def test_options_reach_the_gateway(address, codelode, service):
    codelode(
        *("graph", "a.py", "--server", address, "--repo", "acme/http", "--depth", "2"),
        *("--reverse", "--relation", "importers", "--limit", "7", "--ref", "next"),
    )

    assert service.requests == [
        graph_pb2.GetGraphRequest(
            repository="acme/http",
            subject="a.py",
            depth=2,
            reverse=True,
            relations=["importers"],
            limit=7,
            ref="next",
        )
    ]


def test_json_has_every_link(address, codelode):
    found = json.loads(codelode("graph", "a.py", "--json", "--server", address).out)

    assert list(found) == ["subject_kind", "repository", "links", "notices", "coverage"]
    assert found["links"][1] == {
        "relation": "imports",
        "source": {"repository": "acme/http", "path": "a.py", "symbol": "", "line": 0},
        "target": {"repository": "acme/http", "path": "b.py", "symbol": "", "line": 0},
        "depth": 1,
        "confidence": "exact",
        "files": 0,
    }


def test_without_links_the_status_is_one(address, codelode, service):
    service.links = []

    answer = codelode("graph", "a.py", "--server", address)
    assert (answer.status, answer.out) == (1, "")


@pytest.mark.parametrize("depth", ["0", "x"])
def test_a_wrong_depth_exits_with_status_two(address, codelode, depth):
    answer = codelode("graph", "a.py", "--depth", depth, "--server", address)

    assert answer.status == 2
    assert "depth" in answer.err


def test_the_error_for_an_unknown_relation_names_the_known_ones(address, codelode):
    answer = codelode("graph", "a.py", "--relation", "cals", "--server", address)

    assert answer.status == 2
    assert "callers" in answer.err


def test_the_client_returns_values(address, service):
    with Client(address) as client:
        found = client.graph("a.py", relations=["imports"])

        assert found.links[1] == GraphLink(
            "imports", GraphNode("acme/http", "a.py"), GraphNode("acme/http", "b.py"), 1, "exact"
        )
        assert found.notices == ("cut",)
        with pytest.raises(InvalidQuery, match="relations"):
            client.graph("a.py", relations="imports")


def test_a_notice_names_the_option_of_the_command(address, codelode, service):
    service.notices = ["only the first 7 are shown; raise `limit`", "choose one with `repository`"]

    said = codelode("graph", "a.py", "--server", address).err
    assert "raise --limit" in said
    assert "choose one with --repo" in said
