"""Every face gives the answers and errors of the service layer, in its own format.

A face is a class whose methods take the service's requests and return what it shows as plain JSON
values. It may leave fields out, but what it shows must equal what the service says. To add a face,
add a row to FACES.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import cached_property, partial
from html.parser import HTMLParser
from urllib.parse import parse_qsl, urlsplit

import click
import httpx
import pytest
import structlog

from codelode import scopes
from codelode.cli import main
from codelode.cli.command import codelode
from codelode.cli.fields import in_own_terms
from codelode.client import Client
from codelode.errors import CodelodeError
from codelode.mcp import fields
from codelode.mcp.tools import TOOLS
from codelode.settings import Settings
from gateway import service
from gateway.access import Access
from gateway.access.identity import Credentials
from gateway.access.shared_token import SharedToken
from gateway.access.visibility import Visibilities
from gateway.api.web.parameters import TOP_K
from gateway.app import Gateway
from gateway.service.requests import (
    ExplainRequest,
    FailuresRequest,
    GivenFilters,
    GivenOptions,
    GraphRequest,
    GrepRequest,
    ReadRequest,
    ReferencesRequest,
    SearchRequest,
    SimilarRequest,
    SymbolsRequest,
)
from gateway.service.results import grep_answer
from tests.agents import Agent, HttpAgent
from tests.worlds import World, blob

HTTP = {
    "package.json": '{"name": "@acme/http"}',
    "src/client.js": "import { retry } from './retry'\n\n"
    "export class Client {\n  get(url) {\n    return retry(() => fetch(url))\n  }\n}\n",
    "src/retry.js": "export function retry(call) {\n  return call()\n}\n",
    "docs/guide.md": "# Guide\n\nHow to retry a call.\n",
}
WEB = {
    "src/app.js": "import { Client } from '@acme/http'\n\n"
    "export function start() {\n  return new Client().get('/')\n}\n",
    "vendor/retry.js": HTTP["src/retry.js"],
}
SCOPES = """
scopes:
  clients:
    description: What calls others
    repositories: [acme/*]
    paths: [src/**, "!src/app.js"]
  web: {repositories: [acme/web], refs: [stable]}
  hidden: {repositories: [nobody/*]}
"""
TOKEN = "of-these-tests"


class Running:
    """A gateway over a world in memory, in a thread with an event loop of its own."""

    def __init__(self, folder):
        declared = folder / "scopes.yaml"
        declared.write_text(SCOPES)
        given = {"listen": "127.0.0.1:0", "data": folder, "local_paths": str(folder)}
        given["scopes"] = str(declared)
        settings = Settings(**given)
        world = World(settings)
        world.index("acme/http", HTTP, failed={"bad.js": "too deep"}, skipped={"a.bin": "binary"})
        world.index("acme/web", WEB, ref="stable", failed={"worse.js": "too long"})
        self.dependencies = replace(world.dependencies, scopes=partial(scopes.read, declared))
        self._loop = asyncio.new_event_loop()
        self._quiet = ExitStack()  # what the command line prints must be its own
        self._quiet.enter_context(structlog.testing.capture_logs())
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.gateway = self.do(self._started(self.dependencies))
        self.address = f"127.0.0.1:{self.gateway.port}"
        http = Settings(**given, http_listen="127.0.0.1:0", token=TOKEN)
        secured = replace(self.dependencies, settings=http)
        self.http_gateway = self.do(self._started(secured))
        self.url = f"http://127.0.0.1:{self.http_gateway.http_port}"
        self.said = {}  # the answers of the service layer to what several faces are asked

    def do(self, awaitable):
        return asyncio.run_coroutine_threadsafe(awaitable, self._loop).result(60)

    def processor_s(self):
        """Return the processor time of the event loop so far, seconds."""
        return time.clock_gettime(time.pthread_getcpuclockid(self._thread.ident))

    @cached_property
    def agent(self):
        """An agent in a session with `codelode mcp`; starting it takes seconds."""
        return Agent({"CODELODE_SERVER": self.address})

    @cached_property
    def http_agent(self):
        """An agent in sessions with the gateway itself."""
        return HttpAgent(self.url, TOKEN)

    def close(self):
        for name in ("agent", "http_agent"):
            if name in vars(self):
                getattr(self, name).close()
        self.do(self.gateway.stop(grace_s=0))
        self.do(self.http_gateway.stop(grace_s=0))
        self.do(self.dependencies.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._quiet.close()

    async def _started(self, dependencies):
        gateway = Gateway(dependencies)
        await gateway.start()
        return gateway


def plain(value):
    """Return the value as in JSON."""
    return json.loads(json.dumps(value, default=asdict))


class ServiceLayer:
    """The service functions themselves: what the faces are compared with."""

    def __init__(self, running):
        self._running = running

    def ask(self, function, request):
        asked = (function, repr(request))
        if asked not in self._running.said:
            self._running.said[asked] = self._answer(function, request)
        return self._running.said[asked]

    def _answer(self, function, request):
        call, given = getattr(service, function), self._running.dependencies
        access = Access([SharedToken("")], Visibilities(given.ledger))
        principal = self._running.do(access.principal(Credentials()))
        args = () if request is None else (request,)
        answer = call(given, principal, *args)
        if function == "grep":
            answer = grep_answer_of(answer)
        return self._shown(function, plain(self._running.do(answer)))

    def _shown(self, function, answer):
        if function == "context":
            of_search = {name: answer["search"][name] for name in ("notices", "coverage")}
            return {**answer, **of_search}
        if function == "repositories":
            return [self._repository(one) for one in answer]
        if function == "status":
            found = [self._repository(one) for one in answer["repositories"]]
            return {**answer, "repositories": found}
        return answer

    @staticmethod
    def _repository(one):
        return {**one, "patterns": {"include": one["include"], "exclude": one["exclude"]}}


async def grep_answer_of(parts):
    return grep_answer([part async for part in parts])


def repository_of(one):
    """Return a repository whose refs have their commits under the service's name for them."""
    for ref in one["refs"]:
        ref["revision"] = ref.pop("indexed", None) or ref.get("revision") or ""
    return one


def shown_ref(ref):
    """Return what the gRPC face shows of a ref."""
    kept = ("ref", "indexed", "files", "skipped", "failed", "chunks", "indexed_at", "health")
    return {name: ref[name] for name in kept}


class PythonClient:
    """The gRPC face, through the Python client."""

    def __init__(self, running, *_):
        self._client = Client(running.address)

    def ask(self, function, request):
        return plain(getattr(self, f"_{function}")(request))

    def _search(self, request):
        filters = asdict(request.filters)
        found = self._client.search(
            request.query,
            **filters,
            top_k=request.top_k,
            explain=request.explain,
            preset=request.options.preset,
            options=staged(request.options.values),
            page=request.page_token,
        )
        return self._shown(found)

    def _context(self, request):
        found = self._client.context(request.query, top_k=request.top_k, **asdict(request.filters))
        search = {**self._shown(found.search), "next_page_token": ""}
        return {**asdict(found), "search": search, "coverage": search["coverage"]}

    def _similar(self, request):
        filters = {name: of for name, of in asdict(request.filters).items() if name != "ref"}
        found = self._client.similar(
            request.path,
            request.line,
            repository=request.repository,
            snippet=request.snippet,
            ref=request.ref,
            top_k=request.top_k,
            **filters,
        )
        return self._shown(found)

    def _grep(self, request):
        given = {name: one for name, one in asdict(request).items() if one}
        filters = given.pop("filters")
        *matches, summary = self._client.grep(given.pop("pattern"), **given, **filters)
        return {"matches": matches, "summary": asdict(summary)}

    def _symbols(self, request):
        return self._client.symbols(**_given_names(request))

    def _references(self, request):
        return self._client.references(**_given_names(request))

    def _read(self, request):
        return asdict(self._client.read(**asdict(request)))

    def _explain(self, request):
        found = asdict(self._client.explain(**asdict(request)))
        return {"subject_kind": found.pop("kind"), **found}

    def _graph(self, request):
        given = {name: one for name, one in asdict(request).items() if one}
        return self._client.graph(**given)

    def _repositories(self, _):
        return [self._repository(one) for one in self._client.repositories()]

    def _scopes(self, _):
        return list(self._client.scopes())

    def _status(self, _):
        found = self._client.status()
        repositories = [self._repository(one) for one in found.repositories]
        return {**asdict(found), "repositories": repositories}

    def _failures(self, request):
        found = self._client.failures(
            request.repository or None,
            include_skipped=request.include_skipped,
            include_partial=request.include_partial,
        )
        return {"failures": list(found)}

    @staticmethod
    def _shown(result):
        shown = asdict(result)
        shown["next_page_token"] = shown.pop("next_page")
        for hit in shown["hits"]:
            hit["explain"] = [{"name": name, "value": value} for name, value in hit["explain"]]
        return shown

    @staticmethod
    def _repository(one):
        refs = [shown_ref(asdict(ref)) for ref in one.refs]
        return repository_of({**asdict(one.repository), "refs": refs})


class CommandLine:
    """The command line, run in this process with `--json`."""

    def __init__(self, running, capsys, monkeypatch):
        monkeypatch.setenv("CODELODE_SERVER", running.address)
        self._capsys = capsys

    def command(self, function, request):
        name, *_ = getattr(self, f"_{function}")(request)
        return codelode.get_command(click.Context(codelode), name)

    def ask(self, function, request):
        with pytest.raises(SystemExit) as ended:
            main([str(part) for part in getattr(self, f"_{function}")(request)])
        captured = self._capsys.readouterr()
        if ended.value.code == 2 and not captured.out:
            raise Complaint(captured.err.strip())
        return self._shown(function, json.loads(captured.out))

    def _shown(self, function, answer):
        if function == "explain":
            answer["subject_kind"] = answer.pop("kind")
        if function == "failures":
            return {"failures": answer}
        if function == "scopes":
            return answer
        if function == "repositories":
            return [repository_of(one) for one in answer]
        if function == "status":
            found = [repository_of(one) for one in answer["repositories"]]
            return {**answer, "repositories": found}
        if function in ("search", "similar") and "next_page" in answer:
            answer["next_page_token"] = answer.pop("next_page")
        answer.pop("explain", None)  # of the whole answer: what it says is compared elsewhere
        return answer

    def _search(self, request):
        values = request.options.values.items()
        yield from ("search", request.query, "--json", *filter_arguments(request.filters))
        yield from ("--top-k", request.top_k or 10)
        yield from ("--preset", request.options.preset or "balanced")
        yield from ("--page", request.page_token)
        yield from ["--explain"] if request.explain else []
        for name, value in values:
            yield from ("--set", f"{name}={json.dumps(value)}")

    def _context(self, request):
        return ("context", request.query, "--json", *filter_arguments(request.filters))

    def _similar(self, request):
        yield from ("similar", f"{request.path}:{request.line}", "--json")
        yield from ("--repo", request.repository, "--ref", request.ref, "--top-k", request.top_k)
        yield from filter_arguments(request.filters, repositories="--in")

    def _grep(self, request):
        yield from ("grep", request.pattern, "--json", *filter_arguments(request.filters))
        yield from ["-F"] if request.literal else []
        yield from ["-i"] if request.ignore_case else []
        yield from ["-w"] if request.whole_word else []
        yield from ["-U"] if request.multiline else []
        yield from ("-B", request.before_lines, "-A", request.after_lines)
        yield from ["--limit", request.limit] if request.limit else []
        yield from ["-c"] if request.without_lines else []

    def _symbols(self, request):
        command = "definitions" if request.literal else "symbols"
        yield from (command, request.name, "--json", *filter_arguments(request.filters))
        yield from ["--limit", request.limit] if request.limit else []

    def _references(self, request):
        yield from ("references", request.name, "--json", *filter_arguments(request.filters))
        yield from ["--limit", request.limit] if request.limit else []

    def _read(self, request):
        first, last = request.start_line, request.end_line
        lines = f":{first}-{last}" if last else f":{first}" if first else ""
        where = ("--repo", request.repository, "--ref", request.ref)
        return ("read", f"{request.path}{lines}", "--json", *where)

    def _explain(self, request):
        where = ("--repo", request.repository, "--ref", request.ref)
        return ("explain", request.subject, "--json", *where)

    def _graph(self, request):
        yield from ("graph", *filter(None, [request.subject]), "--json")
        yield from ("--repo", request.repository)
        yield from ("--ref", request.ref, "--depth", request.depth or 3)
        yield from ["--reverse"] if request.reverse else []
        for relation in request.relations:
            yield from ("--relation", relation)

    def _repositories(self, _):
        return ("repos", "--json")

    def _scopes(self, _):
        return ("scopes", "--json")

    def _status(self, _):
        return ("status", "--json")

    def _failures(self, request):
        yield from ("failures", *filter(None, [request.repository]), "--json")
        yield from ["--all"] if request.include_skipped else []
        yield from ["--partial"] if request.include_partial else []


#: The calls that REST takes as a body.
POSTED = ("search", "context", "similar", "grep", "symbols", "references")


def _given_names(request):
    """Return the arguments of a client for a request about names."""
    given = {name: one for name, one in asdict(request).items() if one}
    filters = given.pop("filters")
    return {**given, **filters}


class Rest:
    """The REST face, over HTTP."""

    def __init__(self, running, *_):
        self._to = {
            "base_url": f"{running.url}/api/v1",
            "headers": {"authorization": f"Bearer {TOKEN}"},
            "verify": False,  # plain HTTP; trusted certificates take 25 ms to load
        }

    def ask(self, function, request):
        with httpx.Client(**self._to) as http:
            if function in POSTED:
                response = http.post(f"/{function}", json=self._body(request))
            else:
                response = http.get(f"/{function}", params=self._given(request))
        if response.is_error:
            raise Complaint(response.json()["detail"])
        return self._shown(function, response.json())

    @staticmethod
    def _given(request):
        return {name: one for name, one in asdict(request).items() if one} if request else {}

    def _body(self, request):
        given = self._given(request)
        options = given.pop("options", {"preset": "", "values": {}})
        stages = staged(options["values"])
        return {**given, **({"options": {"preset": options["preset"], **stages}} if stages else {})}

    def _shown(self, function, answer):
        if function == "context":
            return {**answer, "coverage": answer["search"]["coverage"]}
        return answer


class Complaint(Exception):
    """Return the error that the command line wrote, or the detail of a problem."""


class Mcp:
    """The tools that an agent calls, over stdio, with structured answers."""

    def __init__(self, running, *_):
        self._agent = running.agent

    def ask(self, function, request):
        tool, arguments = getattr(self, f"_{function}")(request)
        given = {name: value for name, value in arguments.items() if value}
        answer = self._agent.result(tool, **given, structured=True)
        if answer.is_error:
            raise Complaint(answer.content[0].text)
        return self._shown(function, answer.structured_content)

    @staticmethod
    def _shown(function, answer):
        if function == "failures":
            return {"failures": answer["failures"]}
        if function == "scopes":
            return answer["scopes"]
        if function in ("repositories", "status"):
            found = [
                repository_of(
                    {**one["repository"], "refs": [shown_ref(ref) for ref in one["refs"]]}
                )
                for one in answer["repositories"]
            ]
            rest = {
                name: value for name, value in answer.items() if name not in ("failures", "scopes")
            }
            return found if function == "repositories" else {**rest, "repositories": found}
        if function == "explain":
            answer["subject_kind"] = answer.pop("kind")
        if function == "context":
            search = {**answer["search"], "next_page_token": ""}
            search.pop("next_page")
            return {**answer, "search": search, "coverage": search["coverage"]}
        if function in ("search", "similar"):
            answer["next_page_token"] = answer.pop("next_page")
            for hit in answer["hits"]:
                hit.pop("explain")
        return answer

    def arguments(self, function, request):
        tool, _ = getattr(self, f"_{function}")(request)
        return TOOLS[tool].arguments

    def _search(self, request):
        return "search", {
            **asdict(request.filters),
            "query": request.query,
            "top_k": request.top_k,
            "preset": request.options.preset,
            "options": request.options.values,
            "page": request.page_token,
        }

    def _grep(self, request):
        pattern = re.escape(request.pattern) if request.literal else request.pattern
        flags = "(?i)" * request.ignore_case
        return "search", {
            **asdict(request.filters),
            "query": flags + pattern,
            "exact": True,
            "top_k": request.limit,
            "context_lines": request.before_lines,
        }

    def _symbols(self, request):
        return "search", {**self._names(request), "names": "symbols"}

    def _references(self, request):
        return "search", {**self._names(request), "names": "references"}

    @staticmethod
    def _names(request):
        return {**asdict(request.filters), "query": request.name, "top_k": request.limit}

    def _context(self, request):
        return "context", {**asdict(request.filters), "query": request.query}

    def _similar(self, request):
        return "similar", {
            **asdict(request.filters),
            "path": request.path,
            "line": request.line,
            "repository": request.repository,
            "ref": request.ref,
            "top_k": request.top_k,
        }

    def _read(self, request):
        return "read", asdict(request)

    def _explain(self, request):
        return "explain", asdict(request)

    def _graph(self, request):
        return "graph", {**asdict(request), "depth": request.depth or 3}

    def _repositories(self, _):
        return "status", {}

    def _scopes(self, _):
        return "status", {}

    def _status(self, _):
        return "status", {}

    def _failures(self, request):
        kind = "all" if request.include_skipped else "failed"
        return "status", {"repository": request.repository, "failures": kind}


def is_beyond_tools(request):
    """Return whether a request has options that the tools lack; patterns can replace them."""
    return isinstance(request, GrepRequest) and (
        request.whole_word or request.multiline or request.without_lines
    )


class McpOverHttp(Mcp):
    """Calls the same tools of the gateway itself."""

    def __init__(self, running, *_):
        self._agent = running.http_agent


#: The tools over stdio reach the gateway through the Python client, so one question for each tool
#: covers them: `test_the_tools_answer_alike_over_stdio`.
FACES = {
    "python client": PythonClient,
    "command line": CommandLine,
    "REST": Rest,
    "mcp": McpOverHttp,
}

_ARGUMENTS = {
    "repositories": "--repo",
    "languages": "--language",
    "paths": "--path",
    "kinds": "--kind",
    "symbols": "--symbol",
    "categories": "--category",
    "block_types": "--block-type",
    "not_repositories": "--not-repo",
    "not_languages": "--not-language",
    "not_paths": "--not-path",
}


def filter_arguments(filters, **renamed):
    for name, option in {**_ARGUMENTS, **renamed}.items():
        for value in getattr(filters, name):
            yield from (option, value)
    if filters.ref:
        yield from ("--ref", filters.ref)
    if filters.scope:
        yield from ("--scope", filters.scope)


def staged(values):
    """`{"expand.related": 5}` → `{"expand": {"related": 5}}`"""
    found = {}
    for name, value in values.items():
        stage, _, option = name.partition(".")
        found.setdefault(stage, {})[option] = value
    return found


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    started = Running(tmp_path_factory.mktemp("faces"))
    yield started
    started.close()


@pytest.fixture(params=list(FACES.values()), ids=list(FACES))
def face(request, running, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("CODELODE_DATA", str(tmp_path))
    return request.param(running, capsys, monkeypatch)


QUESTIONS = {
    "words": ("search", SearchRequest("how to retry a call", top_k=3)),
    "one hit of several": ("search", SearchRequest("retry", top_k=1)),
    "filters": (
        "search",
        SearchRequest(
            "retry",
            GivenFilters(
                ("acme/http",),
                ("js",),
                ("src/*",),
                ("function",),
                ("re*",),
                ("source",),
                ref="main",
            ),
            top_k=5,
        ),
    ),
    "exclusions": (
        "search",
        SearchRequest(
            "retry",
            GivenFilters(
                not_repositories=("acme/web",), not_languages=("py",), not_paths=("tests/**",)
            ),
            top_k=5,
        ),
    ),
    "filters in the query": (
        "search",
        SearchRequest("retry repo:acme/* -lang:py file:*.js sym:re* kind:function", top_k=5),
    ),
    "a text in the query": ("search", SearchRequest('lang:js "return retry" or "call()"', top_k=5)),
    "an expression in the query": ("search", SearchRequest(r'retry /fetch\(\w+/ -"zzz"', top_k=5)),
    "filters in the query of a context": ("context", SearchRequest("retry lang:js", top_k=20)),
    "filters before a pattern": (
        "grep",
        GrepRequest(r"repo:acme/* -path:docs/** re\w+y\(", limit=100),
    ),
    "a scope": ("search", SearchRequest("retry", GivenFilters(scope="clients"), top_k=5)),
    "a scope in the query": ("search", SearchRequest("retry scope:web", top_k=5)),
    "a scope and filters": (
        "search",
        SearchRequest("retry", GivenFilters(paths=("**/*.js",), scope="clients"), top_k=5),
    ),
    "a scope of a context": (
        "context",
        SearchRequest("retry", GivenFilters(scope="web"), top_k=20),
    ),
    "a scope of similar code": (
        "similar",
        SimilarRequest(
            *("", "acme/http", "src/retry.js", 1), filters=GivenFilters(scope="web"), top_k=3
        ),
    ),
    "a scope of a pattern": (
        "grep",
        GrepRequest("retry", GivenFilters(scope="clients"), limit=100),
    ),
    "a scope of names": ("symbols", SymbolsRequest("*", GivenFilters(scope="clients"), limit=100)),
    "a scope of uses": (
        "references",
        ReferencesRequest("Client", GivenFilters(scope="web"), limit=5),
    ),
    "scopes": ("scopes", None),
    "options": (
        "search",
        SearchRequest(
            "retry",
            top_k=2,
            options=GivenOptions(
                "thorough", {"expand.related": 5, "expand.imports": 2, "expand.enclosing": True}
            ),
        ),
    ),
    "compact": (
        "search",
        SearchRequest("get", top_k=3, options=GivenOptions("", {"assemble.compact": True})),
    ),
    "why": ("search", SearchRequest("Client.get", top_k=3, explain=True)),
    "nothing": ("search", SearchRequest("retry", GivenFilters(paths=("x/[a]",)), top_k=3)),
    "context": ("context", SearchRequest("how to retry a call", top_k=20)),
    "similar": ("similar", SimilarRequest("", "acme/http", "src/retry.js", 1, top_k=3)),
    "similar elsewhere": (
        "similar",
        SimilarRequest(
            "", "acme/http", "src/retry.js", 1, filters=GivenFilters(("acme/web",)), top_k=3
        ),
    ),
    "similar with filters": (
        "similar",
        SimilarRequest(
            *("", "acme/http", "src/retry.js", 1),
            filters=GivenFilters(
                paths=("src/*", "lib/**"), kinds=("function",), not_paths=("src/client.js",)
            ),
            top_k=3,
        ),
    ),
    "a pattern": ("grep", GrepRequest(r"re\w+y\(", limit=100)),
    "a text": (
        "grep",
        GrepRequest(
            "Retry(", GivenFilters(paths=("src/**",)), literal=True, ignore_case=True, limit=100
        ),
    ),
    "a text with its surroundings": (
        "grep",
        GrepRequest("get", whole_word=True, before_lines=1, after_lines=2, limit=100),
    ),
    "a text of several lines": ("grep", GrepRequest(r"\{\n\s+get", multiline=True, limit=100)),
    "how often there is a text": ("grep", GrepRequest("retry", without_lines=True, limit=2)),
    "no text": ("grep", GrepRequest("is nowhere", limit=100)),
    "names": ("symbols", SymbolsRequest("*et*", limit=100)),
    "names inside filters": (
        "symbols",
        SymbolsRequest(
            "retry",
            GivenFilters(languages=("js",), kinds=("function",), paths=("src/**",)),
            limit=5,
        ),
    ),
    "the first name": ("symbols", SymbolsRequest("retry", literal=True, limit=1)),
    "a misspelt name": ("symbols", SymbolsRequest("retrz", limit=5)),
    "uses": ("references", ReferencesRequest("retry", limit=100)),
    "uses of a class": ("references", ReferencesRequest("Client", limit=1)),
    "uses of a method in a repository": (
        "references",
        ReferencesRequest("Client.get", GivenFilters(("acme/web",), ("js",)), limit=5),
    ),
    "uses of a misspelt name": ("references", ReferencesRequest("retrz", limit=5)),
    "the text of a file": ("read", ReadRequest("src/retry.js", "acme/http")),
    "lines of a file": ("read", ReadRequest("src/retry.js", "acme/http", "main", 1, 2)),
    "a file": ("explain", ExplainRequest("src/client.js")),
    "a symbol": ("explain", ExplainRequest("retry", "acme/http", "main")),
    "dependencies": ("graph", GraphRequest("src/client.js", "acme/http")),
    "dependants": ("graph", GraphRequest("src/client.js", "acme/http", reverse=True)),
    "users of a repository": ("graph", GraphRequest(repository="acme/http", reverse=True)),
    "one relation": ("graph", GraphRequest("retry", relations=("callers",), depth=1)),
    "repositories": ("repositories", None),
    "status": ("status", None),
    "failures": ("failures", FailuresRequest()),
    "failures of one": ("failures", FailuresRequest("acme/http", include_skipped=True)),
}

#: What every face must show, by function.
REQUIRED = {
    "search": {"hits", "notices", "coverage"},
    "context": {"text", "tokens", "left_out", "coverage"},
    "similar": {"hits", "notices", "coverage"},
    "grep": {"matches", "summary"},
    "symbols": {"symbols", "notices", "coverage"},
    "references": {"references", "notices", "coverage"},
    "read": {"content", "start_line", "end_line", "line_count", "revision", "url", "coverage"},
    "explain": {
        *("subject_kind", "summary", "definitions", "imports", "imported_by", "tests"),
        "coverage",
    },
    "graph": {"subject_kind", "repository", "links", "notices", "coverage"},
    "status": {"version", "repositories", "runs", "chunks", "queues", "embedder", "store"},
    "failures": {"failures"},
}

#: What every face must show of a hit.
HIT = {
    *("repository", "path", "start_line", "end_line", "line", "symbol", "kind", "language"),
    *("category", "score", "keyword_score", "similarity", "match", "revision", "url", "content"),
}

#: What differs from call to call, and what a run has for the workers alone.
PASSING = {"took_ms", "cached", "stages", "resolved", "reprocess"}


def agrees(shown, said):
    """Return whether everything that the face shows equals the answer of the service."""
    if isinstance(shown, dict) and isinstance(said, dict):
        compared = shown.keys() - PASSING
        return compared <= said.keys() and all(agrees(shown[at], said[at]) for at in compared)
    if isinstance(shown, list) and isinstance(said, list):
        return len(shown) == len(said) and all(map(agrees, shown, said))
    return (shown or None) == (said or None)


@pytest.mark.parametrize(("function", "request_"), QUESTIONS.values(), ids=QUESTIONS.keys())
def test_a_face_shows_what_the_service_says(running, face, function, request_):
    if isinstance(face, Mcp) and is_beyond_tools(request_):
        return
    said = ServiceLayer(running).ask(function, request_)
    shown = face.ask(function, request_)

    assert agrees(shown, said), (shown, said)
    assert said
    if function in REQUIRED:
        assert shown.keys() >= REQUIRED[function]
        assert shown.get("coverage", True)
    for hit in shown["hits"] if function in ("search", "similar") else ():
        assert hit.keys() >= HIT
        assert hit["revision"] == blob(hit["repository"])


def test_the_tools_answer_alike_over_stdio(running):
    first = dict(reversed(QUESTIONS.values()))
    assert len(first) == 13
    stdio, http = Mcp(running), McpOverHttp(running)
    for function, request in first.items():
        assert agrees(stdio.ask(function, request), http.ask(function, request)), function
    for function, request in dict(WRONG.values()).items():
        with pytest.raises(Complaint) as said:
            http.ask(function, request)
        with pytest.raises(Complaint) as shown:
            stdio.ask(function, request)
        assert str(shown.value) == str(said.value), function


def test_every_face_names_the_repositories_with_copies(running, face):
    request = SearchRequest("function retry", top_k=3)

    [copies] = [hit["copies"] for hit in face.ask("search", request)["hits"] if hit.get("copies")]

    [said] = [hit["copies"] for hit in ServiceLayer(running).ask("search", request)["hits"][:1]]
    assert copies == said
    assert [(one["repository"], one["ref"], one["path"]) for one in copies] == [
        ("acme/web", "stable", "vendor/retry.js")
    ]
    apart = replace(request, options=GivenOptions("", {"rank.collapse_copies": False}))
    hits = face.ask("search", apart)["hits"]
    assert not any(hit.get("copies") for hit in hits)
    assert {"src/retry.js", "vendor/retry.js"} <= {hit["path"] for hit in hits}


def test_the_page_token_of_a_face_leads_to_the_next_page(running, face):
    first = face.ask("search", SearchRequest("retry", top_k=1))
    second = SearchRequest("retry", top_k=1, page_token=first["next_page_token"])

    shown = face.ask("search", second)

    assert shown["hits"] != first["hits"]
    assert agrees(shown, ServiceLayer(running).ask("search", second))


WRONG = {
    "no words": ("search", SearchRequest(" ", top_k=5)),
    "too many hits": ("search", SearchRequest("x", top_k=201)),
    "a repository": ("search", SearchRequest("x", GivenFilters(("acme/htp",)), 5)),
    "a language": ("search", SearchRequest("x", GivenFilters(languages=("pythn",)), 5)),
    "a kind": ("search", SearchRequest("x", GivenFilters(kinds=("klass",)), 5)),
    "a path": ("search", SearchRequest("x", GivenFilters(paths=("/src",)), 5)),
    "a ref": ("search", SearchRequest("x", GivenFilters(ref="mian"), 5)),
    "a scope": ("search", SearchRequest("x", GivenFilters(scope="wev"), 5)),
    "a scope that is hidden": ("grep", GrepRequest("x", GivenFilters(scope="hidden"), limit=5)),
    "a scope in the query": ("search", SearchRequest("retry scope:wev", top_k=5)),
    "a ref outside of the scope": (
        "symbols",
        SymbolsRequest("x", GivenFilters(scope="web", ref="main"), limit=5),
    ),
    "a repository outside of the scope": (
        "references",
        ReferencesRequest("x", GivenFilters(("acme/http",), scope="web"), 5),
    ),
    "a filter in the query": ("search", SearchRequest("retry lang:pythn", top_k=5)),
    "a repository in the query": ("search", SearchRequest("retry repo:acme/htp", top_k=5)),
    "an expression in a query": ("search", SearchRequest("retry /(a/", top_k=5)),
    "only filters in the query": ("search", SearchRequest("lang:js", top_k=5)),
    "a filter before a pattern": ("grep", GrepRequest("lang:pythn a", limit=5)),
    "an option": (
        "search",
        SearchRequest("x", top_k=5, options=GivenOptions("", {"retrieve.window": 5_000})),
    ),
    "a page": ("search", SearchRequest("x", top_k=5, page_token="bm9uZQ==")),
    "a line": ("similar", SimilarRequest("", "acme/http", "src/retry.js", 99, top_k=5)),
    "a place": ("similar", SimilarRequest("", "acme/http", "gone.js", 1, top_k=5)),
    "whose place": ("similar", SimilarRequest("", "", "src/retry.js", 1, top_k=5)),
    "an expression": ("grep", GrepRequest("(retry", limit=5)),
    "an expression with a look-ahead": ("grep", GrepRequest("retry(?!s)", limit=5)),
    "a line break": ("grep", GrepRequest("a\nb", limit=5)),
    "a repository to find a text in": ("grep", GrepRequest("a", GivenFilters(("acme/htp",)))),
    "no name": ("symbols", SymbolsRequest(" ", limit=5)),
    "blocks of a name": (
        "symbols",
        SymbolsRequest("a", GivenFilters(block_types=("resource",)), limit=5),
    ),
    "a kind of uses": ("references", ReferencesRequest("a", GivenFilters(kinds=("text",)), 5)),
    "a repository of uses": ("references", ReferencesRequest("a", GivenFilters(("acme/htp",)), 5)),
    "a file to read": ("read", ReadRequest("gone.js", "acme/http")),
    "whose file": ("read", ReadRequest("src/retry.js")),
    "lines after the end": ("read", ReadRequest("src/retry.js", "acme/http", "", 99, 99)),
    "lines in reverse": ("read", ReadRequest("src/retry.js", "acme/http", "", 2, 1)),
    "a file of a ref": ("read", ReadRequest("src/retry.js", "acme/http", "mian")),
    "a subject": ("explain", ExplainRequest("Nowhere")),
    "a subject of the graph": ("graph", GraphRequest("Nowhere")),
    "depth": ("graph", GraphRequest("retry", depth=6)),
    "failures of nobody": ("failures", FailuresRequest("acme/htp")),
}


@pytest.mark.parametrize(("function", "request_"), WRONG.values(), ids=WRONG.keys())
def test_an_error_names_the_same_field_and_remedy(running, face, function, request_):
    if isinstance(face, Mcp) and is_beyond_tools(request_):
        return
    with pytest.raises(CodelodeError) as said:
        ServiceLayer(running).ask(function, request_)
    with pytest.raises((CodelodeError, Complaint)) as shown:
        face.ask(function, request_)

    expected = said.value
    if isinstance(face, CommandLine):
        expected = in_own_terms(expected, face.command(function, request_))
    if isinstance(face, Mcp):
        expected = fields.in_own_terms(expected, face.arguments(function, request_))
    assert str(expected) in str(shown.value)
    if isinstance(shown.value, CodelodeError):
        assert type(shown.value) is type(said.value)
        assert vars(shown.value) == vars(said.value)


#: What the page must answer as the service does: words, names, code, and filters.
ASKED = [
    *("how to retry a call", "where are requests sent", "start the application", "guide", "retry"),
    *(
        "Client",
        "Client.get",
        "get",
        "start",
        "fetch",
        "url",
        "call",
        "package name",
        "src/retry.js",
    ),
    *("new Client().get('/')", "return retry(() => fetch(url))", "import retry", "zebra", "export"),
    *("src/client.js:4", "function retry(call)", "class Client", "who uses retry", "@acme/http"),
]
NARROWED = [
    ("Client.get", {"repo": "acme/http"}, GivenFilters(("acme/http",))),
    ("retry", {"not_repo": "acme/web"}, GivenFilters(not_repositories=("acme/web",))),
    ("retry", {"kind": "function"}, GivenFilters(kinds=("function",))),
    ("retry", {"path": "src/*", "ref": "main"}, GivenFilters(paths=("src/*",), ref="main")),
    ("start", {"language": "js"}, GivenFilters(languages=("js",))),
    ("get", {"not_path": "src/**"}, GivenFilters(not_paths=("src/**",))),
]
THIRTY = [*((query, {}, GivenFilters()) for query in ASKED), *NARROWED]


def places(answer):
    return [
        (hit["repository"], hit["path"], f"{hit['start_line']}-{hit['end_line']}")
        for hit in answer["hits"]
    ]


class Hits(HTMLParser):
    """The locations of the hits that a page shows."""

    def __init__(self):
        super().__init__()
        self.places = []

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag == "a" and given.get("class") == "open":
            asked = dict(parse_qsl(urlsplit(given["href"]).query))
            self.places.append((asked["repository"], asked["path"], asked["lines"]))


def test_thirty_questions_have_equal_answers_on_the_page(running):
    headers = {"authorization": f"Bearer {TOKEN}"}
    assert len(THIRTY) == 30
    with httpx.Client(base_url=running.url, headers=headers, timeout=60, verify=False) as browser:
        for query, given, filters in THIRTY:
            request = SearchRequest(query, filters, top_k=TOP_K)
            page = Hits()
            page.feed(browser.get("/search", params={"q": query, **given}).text)
            said = places(ServiceLayer(running).ask("search", request))
            assert sorted(page.places) == sorted(said), query  # the page has them by file
            assert said or query == "zebra"
