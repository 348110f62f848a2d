"""Count the tokens that an agent reads until it has the relevant place, over MCP and with grep.

    python tests/bench/agent_tokens.py [--semble PROGRAM --semble-model FOLDER] [--json FILE]

The bundled judged queries are sent over HTTP to a temporary cluster that has indexed the packages
they are about. An agent reads whole answers, so each counts in full, up to the one with a relevant
place; if there is none, all answers count. The program compares:

- search: pages of five hits with their lines, at most four pages;
- compact: the same with signatures, and then `read` of the relevant hit;
- grep: the files with most of the query's words, each in full, at most ten;
- semble, if its program is given: five results with its usual ten lines each, and if none is
  relevant, the first twenty. `semble_model.py` makes a model for it if its own is not available.

A token is counted as four characters in all cases.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

import embedded
import httpx

from codelode.client import Client
from codelode.operations.evaluation import grep, judged
from codelode.operations.evaluation.judged import CHARS_PER_TOKEN, Query
from codelode.operations.evaluation.metrics import SourceLocation, target_ranks
from tests.agents import Agent
from tests.judged_packages import PACKAGES, QUERIES, commit_packages

PAGE, PAGES = 5, 4
SEMBLE_RESULTS = (PAGE, PAGE * PAGES)
INDEX_LIMIT_S = 600

#: `1. src/a.py:9-11 Client.retry (method)`
HIT = re.compile(r"^\d+\. (?P<path>.+):(?P<start>\d+)-(?P<end>\d+) ", re.MULTILINE)
NEXT = re.compile(r'^more: page="(.+)"$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Spent:
    """The tokens that one query took, and whether a relevant place was found."""

    tokens: int
    is_found: bool


class Tools:
    """The tools of the gateway, over HTTP."""

    def __init__(self, url: str, token: str) -> None:
        accepted = {"accept": "application/json, text/event-stream"}
        self._http = httpx.Client(
            base_url=url, headers={**accepted, "authorization": f"Bearer {token}"}, timeout=60
        )

    def described(self) -> int:
        """Return the tokens of the descriptions, which an agent reads once in a session."""
        return _tokens(json.dumps(self._asked("tools/list")["tools"]))

    def call(self, tool: str, **arguments: object) -> str:
        answer = self._asked("tools/call", name=tool, arguments=arguments)
        return str(answer["content"][0]["text"])

    def _asked(self, method: str, **params: object) -> dict[str, Any]:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = self._http.post("/mcp", json=body).raise_for_status().text
        (data,) = (line for line in answer.splitlines() if line.startswith("data: {"))
        result: dict[str, Any] = json.loads(data.removeprefix("data: "))["result"]
        return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", type=Path, help="write the figures here, with the machine")
    parser.add_argument("--semble", help="the program of semble with its extra `mcp`")
    parser.add_argument("--semble-model", type=Path, help="the folder of a model for it")
    options = parser.parse_args()
    queries = judged.read(QUERIES)
    with tempfile.TemporaryDirectory() as folder:
        sources = Path(folder) / "sources"
        commit_packages(sources)
        with embedded.running(Path(folder) / "data") as cluster:
            with Client(cluster.address) as client:
                for name in PACKAGES:
                    embedded.index(client, str(sources / name), name=name, limit_s=INDEX_LIMIT_S)
            facts = json.loads((cluster.data / "run" / "up.json").read_text())
            tools = Tools(facts["http"], (cluster.data / "run" / "token").read_text().strip())
            report = _report(queries, tools, sources)
        if options.semble:
            with _semble(options.semble, options.semble_model, sources) as way:
                report["ways"]["semble"] = _summary([way(query) for query in queries])
    print(json.dumps(report, indent=2))
    if options.json:
        options.json.write_text(json.dumps({**embedded.machine(), **report}, indent=2) + "\n")


def _report(queries: Sequence[Query], tools: Tools, sources: Path) -> dict[str, Any]:
    ways: dict[str, Callable[[Query], Spent]] = {
        "search": lambda query: _searched(tools, query),
        "compact": lambda query: _searched(tools, query, compact=True),
        "grep": _grepping(sources),
    }
    spent = {name: [way(query) for query in queries] for name, way in ways.items()}
    return {
        "queries": len(queries),
        "tokens_of_descriptions": tools.described(),
        "ways": {name: _summary(of) for name, of in spent.items()},
    }


def _summary(spent: Sequence[Spent]) -> dict[str, float]:
    tokens = [one.tokens for one in spent]
    return {
        "found": round(fmean(one.is_found for one in spent), 3),
        "tokens_mean": round(fmean(tokens)),
        "tokens_median": round(median(tokens)),
        "tokens_max": max(tokens),
    }


def _searched(tools: Tools, query: Query, *, compact: bool = False) -> Spent:
    """Read pages until one has a relevant place; with `compact`, then read the code there."""
    asked = {"query": query.text, "repositories": [query.repository], "top_k": PAGE}
    spent, page = 0, ""
    for _ in range(PAGES):
        text = tools.call("search", **asked, compact=compact, page=page)
        spent += _tokens(text)
        if place := _relevant(text, query):
            return Spent(spent + (_read(tools, query, place) if compact else 0), is_found=True)
        if not (more := NEXT.search(text)):
            break
        page = more[1]
    return Spent(spent, is_found=False)


def _relevant(text: str, query: Query) -> SourceLocation | None:
    """Return the first relevant place in an answer."""
    places = [
        SourceLocation(hit["path"], int(hit["start"]), int(hit["end"]))
        for hit in HIT.finditer(text)
    ]
    ranks = [rank for rank in target_ranks(places, query.targets) if rank is not None]
    return places[min(ranks) - 1] if ranks else None


def _read(tools: Tools, query: Query, place: SourceLocation) -> int:
    where = {"path": place.path, "repository": query.repository}
    lines = {"start_line": place.start_line, "end_line": place.end_line}
    return _tokens(tools.call("read", **where, **lines))


@contextmanager
def _semble(program: str, model: Path | None, sources: Path) -> Iterator[Callable[[Query], Spent]]:
    """Yield a function that sends a query to semble over MCP."""
    offline = {"SEMBLE_MODEL_NAME": str(model), "HF_HUB_OFFLINE": "1"} if model else {}
    with Agent({**os.environ, **offline}, command=(program,)) as agent:

        def asked(query: Query) -> Spent:
            spent, repository = 0, str(sources / query.repository)
            for most in SEMBLE_RESULTS:
                text = agent.call("search", query=query.text, repo=repository, top_k=most)
                spent += _tokens(text)
                places = [
                    SourceLocation(one["file_path"], one["start_line"], one["end_line"])
                    for one in json.loads(text).get("results", ())
                ]
                if any(rank is not None for rank in target_ranks(places, query.targets)):
                    return Spent(spent, is_found=True)
            return Spent(spent, is_found=False)

        yield asked


def _grepping(sources: Path) -> Callable[[Query], Spent]:
    files: dict[str, dict[str, grep.Text]] = {}

    def grepped(query: Query) -> Spent:
        if query.repository not in files:
            files[query.repository] = grep.read(sources / query.repository)
        shown = tuple(grep.search(query.text, files[query.repository]))
        answer = judged.Answer(query, shown, 0.0)
        is_found = any(rank is not None for rank in answer.ranks())
        return Spent(answer.tokens_to_first(), is_found)

    return grepped


def _tokens(text: str) -> int:
    return -(-len(text) // CHARS_PER_TOKEN)


if __name__ == "__main__":
    main()
