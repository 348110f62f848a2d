"""No answer contains anything of a hidden repository, for any caller and call, while rights change.

A generated organisation: 50 repositories, each with a word that occurs nowhere else in its name,
paths, symbols, content, refs, and failures; 20 principals with keys, groups, and entries in the
access file; one team's repositories are under permission sync. A seeded sequence of requests goes
through gRPC and HTTP, and some of it through the web page, MCP, and the command line; labels, keys,
the access file, and the permissions of the host change meanwhile. An oracle that shares no code
with the product says what each principal sees, and filters the answers that an admin gets.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import threading
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from urllib.parse import quote

import grpc
import httpx
import pytest
import structlog
import yaml
from google.protobuf import message_factory
from google.protobuf.json_format import MessageToDict, ParseDict
from grpc import aio

from codelode import api_keys
from codelode.access import Label, Role
from codelode.api_keys import ApiKey
from codelode.cli import main
from codelode.host_permissions import (
    PermissionsBuilder,
    SyncDeclaration,
    SyncOutcome,
    version_of,
)
from codelode.scopes import Scope
from codelode.settings import Settings
from codelode.v1 import (
    access_pb2,
    access_pb2_grpc,
    graph_pb2,
    graph_pb2_grpc,
    index_pb2,
    index_pb2_grpc,
    search_pb2,
    search_pb2_grpc,
)
from gateway.access import Access
from gateway.access.api_keys import KeyAuthenticator
from gateway.access.attempts import GuardedAccess
from gateway.access.hosts import HostReader
from gateway.access.identity import Identity
from gateway.access.rules import AccessFile
from gateway.access.shared_token import SharedToken
from gateway.access.visibility import Visibilities
from gateway.access.webhooks import WebhookConnections
from gateway.api.rest.calls import Face, Faced
from gateway.api.rest.server import HttpServer
from gateway.api.rpc.interceptors import Interceptor
from gateway.api.rpc.services import AccessService, GraphService, IndexService, SearchService
from gateway.api.web import code, graph, lab, maps, repositories, search
from gateway.api.web.app import application
from gateway.api.web.pages import PART
from gateway.calls import Calls
from gateway.highlighting import Highlighter
from gateway.service import limits
from tests.gateway.test_openapi import FROZEN
from tests.worlds import World

SEED = 20_261_125
#: Requests in all, which take about 50 s of processor time.
REQUESTS = 10_000
COMMANDS, TOOLS, PAGES = 60, 300, 400
#: Requests between two changes of rights.
STEADY = 20

TEAMS, REPOSITORIES_OF_A_TEAM = 5, 10
ADMIN = "admin-token"

#: The team whose repositories are under permission sync.
SYNCED = "team0/"
HOST = SyncDeclaration("work", "gitea", f"host.example/{SYNCED}", 300, 3600, emails=False, claim="")

#: The words that occur in one repository each, and the ids of runs.
WORD = re.compile(r"zq[a-z]{8}qz")
RUN = re.compile(r"\b[0-9a-f]{16}\b", re.ASCII)
CANARY = re.compile(f"{WORD.pattern}|{RUN.pattern}", re.ASCII)


def word(dice):
    return f"zq{''.join(dice.choices('abcdefghijklmnop', k=8))}qz"


# The organisation


@dataclass(eq=False)
class Repo:
    name: str
    word: str
    number: int
    run: str = ""
    chunks: int = 0
    label: Label | None = None

    @property
    def marks(self):
        return {self.word, self.run}

    def files(self):
        mark, other = self.word, (self.number + 7) % (TEAMS * REPOSITORIES_OF_A_TEAM)
        return {
            "package.json": json.dumps({"name": f"@acme/part{self.number}"}),
            "src/index.js": f"import {{ draw }} from '@acme/part{other}'\n"
            f"import {{ {mark}Base }} from './{mark}'\n\n"
            f"export function draw() {{\n  return paint(new {mark}Base())\n}}\n\n"
            "export function paint(canvas) {\n  return draw(canvas)\n}\n",
            f"src/{mark}.js": f"export class {mark}Base {{\n  load() {{\n    return 1\n  }}\n}}\n",
            "lib/store.py": f"def {mark}_load(store):\n    # Loads from the {mark} lantern.\n"
            "    return store.load(1)\n",
        }


@dataclass(eq=False)
class Caller:
    """A principal, with the facts that the oracle needs."""

    name: str
    role: Role
    key: str = ""  # empty: a person
    bounds: tuple[tuple[str, ...], ...] = ()
    groups: tuple[str, ...] = ()
    token: str = ""  # of a page, from the last search

    @property
    def authorization(self):
        return f"Bearer {self.key}" if self.key else f"Person {self.name} {','.join(self.groups)}"


@dataclass
class Organisation:
    """The repositories, the callers, and the access file, with the oracle."""

    dice: random.Random
    world: World
    path: Path
    repositories: list[Repo] = field(default_factory=list)
    callers: list[Caller] = field(default_factory=list)
    entries: dict[str, dict[str, dict]] = field(default_factory=dict)
    host: dict[str, set[str]] = field(default_factory=dict)  # who reads which repositories there
    declared: dict[str, Scope] = field(default_factory=dict)

    def visible(self, caller):
        """Return the repositories that the caller sees according to docs/security.md."""
        role = self.role(caller)
        own = [glob for globs in caller.bounds for glob in globs]
        given = own + [
            glob for entry in self._entries(caller) for glob in entry.get("repositories", ())
        ]
        return [one for one in self.repositories if self._sees(caller, one, role, given)]

    def role(self, caller):
        roles = [caller.role, *(entry.get("role", "reader") for entry in self._entries(caller))]
        return max(roles, key=["reader", "indexer", "admin"].index)

    def _entries(self, caller):
        people, groups = self.entries["people"], self.entries["groups"]
        own = [people[caller.name]] if caller.name in people else []
        return own + [groups[group] for group in caller.groups]

    def _sees(self, caller, one, role, given):
        if not all(any(covers(glob, one.name) for glob in globs) for globs in caller.bounds):
            return False
        if role == "admin":
            return True
        if one.name.startswith(SYNCED):
            if one.name not in self.host.get(caller.name, ()):
                return False
            if one.label is None:
                return True
        if one.label == "public":
            return True
        if one.label == "internal":
            return any(covers(glob, one.name) for glob in given)
        return one.label == "private" and one.name in given

    # Changes

    def change(self):
        self.dice.choice([self.relabel, self.relabel, self.rekey, self.rewrite, self.regrant])()
        self.rescope()

    def relabel(self):
        one = self.dice.choice(self.repositories)
        one.label = self.dice.choice([None, *Label])
        self.world.ledger.set_label(one.name, one.label)

    def rekey(self):
        """Replace the key of a caller by one with other rights."""
        caller = self.dice.choice([one for one in self.callers if one.key])
        keys = self.world.dependencies.keys
        for stored in keys.all():
            if f"key:{stored.name}" == caller.name:
                keys.remove(stored.id)
        caller.role = self.dice.choice([Role.READER, Role.READER, Role.INDEXER, Role.ADMIN])
        count = 1 if caller.role is Role.ADMIN else self.dice.randint(0, 2)
        caller.bounds = tuple(self.globs() for _ in range(count))
        id, secret = api_keys.generate()
        name, digest = caller.name.removeprefix("key:"), api_keys.digest(secret)
        keys.add(ApiKey(id, name, digest, caller.role, caller.bounds, 0.0, "token"))
        caller.key = api_keys.text(id, secret)

    def rewrite(self):
        """Write other entries into the access file."""

        def entry():
            roles = self.dice.choice([{}, {}, {"role": "indexer"}])
            return {"repositories": list(self.globs()), **roles}

        people = [one.name for one in self.callers if not one.key]
        some = set(self.dice.sample(people, 5))
        self.entries = {
            "groups": {f"g{number}": entry() for number in range(4)},
            "people": {
                one.name: {
                    "accounts": {"work": one.name},
                    **(entry() if one.name in some else {}),
                }
                for one in self.callers
            },
        }
        self.path.write_text(yaml.safe_dump(self.entries))

    def regrant(self):
        """Make the host grant other rights, or refuse everything."""
        built, names = PermissionsBuilder(), [one.name for one in self.repositories]
        names = [name for name in names if name.startswith(SYNCED)]
        for name in names:
            built.repository(name, [f"https://host.example/{name}.git"])
        self.host = {}
        is_refused = self.dice.random() < 0.2
        for caller in () if is_refused else self.callers:
            self.host[caller.name] = set(self.dice.sample(names, self.dice.randint(0, len(names))))
            built.account(caller.name)
            built.grant(caller.name, self.host[caller.name])
        packed, now = built.built().packed(), time.time()
        outcome = SyncOutcome(version_of(packed), 0.0 if is_refused else now, now, "401")
        states = self.world.dependencies.permissions
        states.hold("work", "test", for_s=60)
        assert states.finish("work", "test", outcome, packed)

    def rescope(self):
        """Declare other scopes: of a team, and of some repositories and their refs by name."""
        some = self.dice.sample(self.repositories, 12)
        self.declared = {
            "shared": Scope("shared", "For all", ("*/*",), paths=("src/*", "lib/*")),
            "team": Scope("team", "Of one team", (f"team{self.dice.randrange(TEAMS)}/*",)),
            **{one.word: Scope(one.word, f"Of {one.word}", (one.name,)) for one in some[:8]},
            "some": Scope(
                "some",
                "Of several",
                tuple(one.name for one in some),
                (*(f"release-{one.word}" for one in some[:4]), "HEAD"),
            ),
        }

    def scopes(self):
        return self.declared

    def globs(self):
        team, one = self.dice.randrange(TEAMS), self.dice.choice(self.repositories)
        some = [f"team{team}/*", f"team{team}/**", one.name, f"*/{one.word}", "**", f"team{team}"]
        return tuple(self.dice.sample(some[:4], 2) + self.dice.choices(some, k=1)[:1])


@cache
def covers(glob, name):
    """Compare part by part; the globs of this test have `**` at the end alone."""
    if glob.endswith("**"):
        return name.startswith(glob[:-2])
    given, parts = glob.split("/"), name.split("/")
    return len(given) == len(parts) and all(
        one in ("*", part) for one, part in zip(given, parts, strict=True)
    )


def organisation(folder):
    dice = random.Random(SEED)
    path = folder / "access.yaml"
    settings = Settings(data=folder, local_paths=str(folder), language_model="ollama")
    world = World(settings, index=folder / "index")
    made = Organisation(dice, world, path)
    for number in range(TEAMS * REPOSITORIES_OF_A_TEAM):
        mark = word(dice)
        one = Repo(f"team{number % TEAMS}/{mark}", mark, number)
        one.run = world.index(
            one.name,
            one.files(),
            ref=f"release-{mark}",
            failed={f"bad/{mark}.py": f"no grammar reads {mark}"},
            skipped={f"{mark}.bin": f"binary {mark}"},
        ).id
        (status,) = world.ledger.refs(one.name)
        one.chunks = status.chunks
        made.repositories.append(one)
        world.map(one.name)
    made.callers += [Caller(f"key:k{number}", Role.READER, key="none") for number in range(10)]
    made.callers += [
        Caller(
            f"user:p{number}", Role.READER, groups=tuple(dice.sample(["g0", "g1", "g2", "g3"], 2))
        )
        for number in range(10)
    ]
    world.dependencies.permissions.declare([HOST])
    made.regrant()
    made.rewrite()
    made.rescope()
    for _ in range(60):
        made.relabel()
    while any(one.key == "none" for one in made.callers):
        made.rekey()
    return made


# The gateway


class People:
    """Implements Authenticator for people, as certificates and OIDC tokens name them."""

    async def identity(self, credentials):
        kind, _, rest = credentials.authorization.partition(" ")
        if kind != "Person":
            return None
        name, _, groups = rest.partition(" ")
        return Identity(name, Role.READER, frozenset(groups.split(",")))


class Served:
    """The services of a gateway in a thread with an event loop of its own."""

    def __init__(self, made):
        self.asked = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        given = replace(made.world.dependencies, scopes=made.scopes)
        self.port = self._do(self._start(given, str(made.path)))
        self.channel = grpc.insecure_channel(f"127.0.0.1:{self.port}")
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{self._rest.port}/api/v1", timeout=60)
        described = json.loads(FROZEN.read_text())["paths"]
        self._operations = {
            operation["operationId"]: (method, path.removeprefix("/api/v1"), operation)
            for path, methods in described.items()
            for method, operation in methods.items()
        }

    def close(self):
        self.channel.close()
        self.http.close()
        self._do(self._server.stop(0))
        self._do(self._rest.stop(0))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, awaitable):
        return asyncio.run_coroutine_threadsafe(awaitable, self._loop).result(60)

    async def _start(self, given, path):
        hosts = HostReader(given.permissions)
        visibilities = Visibilities(given.ledger, AccessFile(path).current, hosts)
        known = [People(), KeyAuthenticator(given.keys), SharedToken(ADMIN)]
        guarded = GuardedAccess(
            Access(known, visibilities), None, limits.wrong_credentials(given.settings)
        )
        calls = Calls(guarded, limits.limiter(given.settings, None))
        self._server = aio.server(interceptors=[Interceptor(calls)])
        search_pb2_grpc.add_SearchServiceServicer_to_server(SearchService(given), self._server)
        graph_pb2_grpc.add_GraphServiceServicer_to_server(GraphService(given), self._server)
        index_pb2_grpc.add_IndexServiceServicer_to_server(IndexService(given), self._server)
        access_pb2_grpc.add_AccessServiceServicer_to_server(AccessService(given), self._server)
        port = self._server.add_insecure_port("127.0.0.1:0")
        await self._server.start()
        self._rest = HttpServer("127.0.0.1:0")
        face = Face(given, calls, lambda: True, WebhookConnections(""), Highlighter())
        await self._rest.start(Faced(application(), face), None)
        return port

    def ask(self, method, request, authorization, *, face=None):
        """Return the response or the error of a call, and all that came with it as text.

        One call of four goes over HTTP, if no face is given; `face` is then the one that was used.
        """
        self.asked += 1
        self.face = face or (self._over_http if self.asked % 4 == 0 else self._over_grpc)
        return self.face(method, request, authorization)

    def _over_http(self, method, request, authorization):
        verb, path, operation = self._operations[method.partition("/")[2]]
        given = MessageToDict(request, preserving_proto_field_name=True)
        given = given.get("search", given)  # a context
        for name in re.findall(r"{(\w+)}", path):
            path = path.replace(f"{{{name}}}", given.pop(name))
        how = "json" if "requestBody" in operation else "params"
        answer = self.http.request(
            verb, path, **{how: given}, headers={"authorization": authorization}
        )
        if answer.is_error:
            problem = {**answer.json(), "request_id": ""}
            return None, json.dumps(problem)
        return self._message(method, answer), answer.text

    def tell(self, tool, arguments, authorization):
        """Return whether a tool or a resource answered over MCP, and its text."""
        asked = {"method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        if tool == "resource":
            asked = {"method": "resources/read", "params": arguments}
        answer = self.http.post(
            self.http.base_url.copy_with(path="/mcp"),
            json={"jsonrpc": "2.0", "id": 1, **asked},
            headers={
                "authorization": authorization,
                "accept": "application/json, text/event-stream",
            },
        )
        assert answer.is_success, answer.text
        text = answer.text.replace(" ", "")
        return '"isError":false' in text or '"contents":[' in text, answer.text

    def open(self, verb, path, given, authorization, *, is_part):
        """Return the status of a page, and its headers and text."""
        answer = self.http.request(
            verb,
            self.http.base_url.copy_with(path=path),
            **{"params" if verb == "GET" else "data": given},
            headers={"authorization": authorization, **({PART: "1"} if is_part else {})},
        )
        return answer.status_code, f"{dict(answer.headers)}\n{answer.text}"

    def _message(self, method, answer):
        """Return the answer as a gRPC message, which the oracle knows."""
        of = RESPONSES[method]
        if not answer.content or method in STREAMS:
            return of()
        value = answer.json()
        if isinstance(value, list):
            (field,) = of.DESCRIPTOR.fields
            value = {field.name: value}
        return ParseDict(_without_none(value), of(), ignore_unknown_fields=True)

    def _over_grpc(self, method, request, authorization):
        response = RESPONSES[method]
        metadata = (("authorization", authorization),)
        open_call = (self.channel.unary_stream if method in STREAMS else self.channel.unary_unary)(
            f"/codelode.v1.{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=response.FromString,
        )
        try:
            answer = open_call(request, metadata=metadata, timeout=60)
            answers = list(answer) if method in STREAMS else [answer]
        except grpc.RpcError as error:
            told = f"{error.code().name} {error.details()}"
            return None, f"{told} {_trailing(error)}"
        return answers[0], "\n".join(map(str, answers))


def _without_none(value):
    if isinstance(value, list):
        return [_without_none(one) for one in value]
    if isinstance(value, dict):
        return {name: _without_none(one) for name, one in value.items() if one is not None}
    return value


def _trailing(error):
    """Return the trailing metadata without the id of the request."""
    return [value for key, value in error.trailing_metadata() or () if key != "x-request-id"]


#: Calls that answer with several messages.
STREAMS = ("IndexService/WatchRun", "SearchService/Grep")

RESPONSES = {
    f"{service.name}/{method.name}": message_factory.GetMessageClass(method.output_type)
    for module in (search_pb2, graph_pb2, index_pb2, access_pb2)
    for service in module.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}


# What is asked

WORDS = (
    "load",
    "draw",
    "paint",
    "how to load and draw",
    "lantern",
    "nowhereAtAll",
    "store lantern",
)


class Asking:
    """Draws requests. `names`: words of repositories, hidden ones included."""

    def __init__(self, made):
        self.made, self.dice = made, made.dice
        self.searches = 0

    def repo(self):
        return self.dice.choice(self.made.repositories)

    def name(self):
        one = self.repo()
        return self.dice.choice(["", one.name, one.name, one.word, f"{one.name[:-2]}"])

    def names(self):
        return self.dice.choice([[], [self.repo().name], [self.repo().name, self.repo().name]])

    def text(self):
        one = self.repo()
        return self.dice.choice([*WORDS, *WORDS, one.word, f"{one.word}Base", f"{one.word}_laod"])

    def subject(self):
        one = self.repo()
        return self.dice.choice(
            [
                "lib/store.py",
                "src/index.js",
                "draw",
                "load",
                f"src/{one.word}.js",
                f"{one.word}Base",
            ]
        )

    def ref(self):
        return self.dice.choice(["", "", "", f"release-{self.repo().word}"])

    def filters(self):
        some = self.dice.random() < 0.4
        return search_pb2.Filters(
            repositories=[self.name() or "x"] if some else [],
            not_repositories=[self.repo().name] if self.dice.random() < 0.1 else [],
            paths=self.dice.choice([[], [], ["src/*"], [f"**/*{self.repo().word}*"]]),
            ref=self.ref(),
            scope=self.scope(),
        )

    def scope(self):
        """Return a scope for one of five requests, else an empty text."""
        if self.dice.random() < 0.8:
            return ""
        return self.dice.choice([*self.made.declared, self.repo().word, "shard"])

    def search(self, caller):
        fields = {
            "query": self.text(),
            "filters": self.filters(),
            "explain": self.dice.random() < 0.2,
        }
        if caller.token and self.dice.random() < 0.5:  # perhaps from before a change, or another's
            fields = {"query": "load", "page_token": self.dice.choice(self.made.callers).token}
        elif self.searches % 3 == 0:  # the same filter, written in the query
            names = fields["filters"].repositories
            fields["query"] += "".join(f" repo:{name}" for name in names)
            del names[:]
            if scope := fields["filters"].scope:
                fields["query"] += f" scope:{scope}"
                fields["filters"].scope = ""
        self.searches += 1
        return search_pb2.SearchRequest(**fields, top_k=self.dice.choice([3, 10]))

    def start(self):
        name = self.repo().name
        url = f"https://host.example/{name}"
        is_plan = self.dice.random() < 0.3
        return index_pb2.StartRunRequest(
            url=url, name=self.dice.choice(["", name]), plan_only=is_plan
        )

    def draw(self, caller, seen):
        """Return a method, its request, and the marks in it that are hidden from the caller."""
        while True:
            weights = [weight for weight, _ in KINDS.values()]
            method = self.dice.choices(list(KINDS), weights=weights)[0]
            request = KINDS[method][1](self, caller)
            named = marks(str(request))
            if method not in WRITES or (named and not named & seen):
                return method, request, named if not named & seen else set()


#: The share of each call, and what makes its request.
KINDS = {
    "SearchService/Search": (20, Asking.search),
    "SearchService/Context": (4, lambda a, c: search_pb2.ContextRequest(search=a.search(c))),
    "SearchService/Similar": (
        6,
        lambda a, _: search_pb2.SimilarRequest(
            repository=a.name(), path="lib/store.py", line=2, ref=a.ref(), top_k=5
        ),
    ),
    "SearchService/Grep": (
        6,
        lambda a, c: search_pb2.GrepRequest(
            pattern=a.dice.choice(["load", "def ", "o.*d", a.subject()]),
            filters=a.search(c).filters,
            limit=a.dice.choice([1, 100]),
        ),
    ),
    "SearchService/ListSymbols": (
        4,
        lambda a, c: search_pb2.ListSymbolsRequest(
            name=a.dice.choice(["*", "*oad", "draw", "paint", f"{a.repo().word}*", a.text()]),
            filters=a.search(c).filters,
            limit=a.dice.choice([1, 100]),
        ),
    ),
    "SearchService/ListReferences": (
        4,
        lambda a, c: search_pb2.ListReferencesRequest(
            name=a.dice.choice(["draw", "paint", "load", f"{a.repo().word}Base", a.text()]),
            filters=a.search(c).filters,
            limit=a.dice.choice([1, 100]),
        ),
    ),
    "SearchService/ListScopes": (4, lambda a, _: search_pb2.ListScopesRequest()),
    "SearchService/ReadFile": (
        4,
        lambda a, _: search_pb2.ReadFileRequest(
            repository=a.name(), path="lib/store.py", ref=a.ref()
        ),
    ),
    "SearchService/ListFiles": (
        4,
        lambda a, _: search_pb2.ListFilesRequest(repository=a.name(), path="lib", ref=a.ref()),
    ),
    "SearchService/Explain": (
        8,
        lambda a, _: search_pb2.ExplainRequest(
            subject=a.subject(), repository=a.name(), ref=a.ref()
        ),
    ),
    "SearchService/GetMap": (4, lambda a, _: search_pb2.GetMapRequest(repositories=a.names())),
    "SearchService/ListMapPlaces": (
        4,
        lambda a, _: search_pb2.ListMapPlacesRequest(repositories=[a.repo().name], points=[0]),
    ),
    "SearchService/MakeMap": (
        2,
        lambda a, _: search_pb2.MakeMapRequest(repositories=[a.repo().name]),
    ),
    "GraphService/GetGraph": (
        8,
        lambda a, _: graph_pb2.GetGraphRequest(
            subject=a.subject(), repository=a.name(), reverse=a.dice.random() < 0.5
        ),
    ),
    "IndexService/ListRepositories": (6, lambda a, _: index_pb2.ListRepositoriesRequest()),
    "IndexService/GetStatus": (6, lambda a, _: index_pb2.GetStatusRequest()),
    "IndexService/ListFailures": (
        8,
        lambda a, _: index_pb2.ListFailuresRequest(
            repository=a.name(), include_skipped=True, include_partial=True
        ),
    ),
    "IndexService/WatchRun": (4, lambda a, _: index_pb2.WatchRunRequest(run_id=a.repo().run)),
    "IndexService/CancelRun": (4, lambda a, _: index_pb2.CancelRunRequest(run_id=a.repo().run)),
    "IndexService/StartRun": (
        4,
        lambda a, _: a.start(),
    ),
    "IndexService/RetryFailures": (
        2,
        lambda a, _: index_pb2.RetryFailuresRequest(repository=a.repo().name),
    ),
    "IndexService/EnrichRepository": (
        2,
        lambda a, _: index_pb2.EnrichRepositoryRequest(repository=a.repo().name),
    ),
    "IndexService/SetDefaultRef": (
        2,
        lambda a, _: index_pb2.SetDefaultRefRequest(repository=a.repo().name, ref="main"),
    ),
    "IndexService/SetLabel": (
        2,
        lambda a, _: index_pb2.SetLabelRequest(repository=a.repo().name, label="internal"),
    ),
    "IndexService/RemoveRepository": (
        2,
        lambda a, _: index_pb2.RemoveRepositoryRequest(name=a.repo().name, ref=a.ref()),
    ),
    "IndexService/ListSources": (1, lambda a, _: index_pb2.ListSourcesRequest()),
    "IndexService/SyncSources": (1, lambda a, _: index_pb2.SyncSourcesRequest()),
    "AccessService/CreateKey": (
        2,
        lambda a, _: access_pb2.CreateKeyRequest(name="k1", role="reader"),
    ),
    "AccessService/ListKeys": (4, lambda a, _: access_pb2.ListKeysRequest()),
    "AccessService/ListPermissions": (1, lambda a, _: access_pb2.ListPermissionsRequest()),
    "AccessService/SyncPermissions": (1, lambda a, _: access_pb2.SyncPermissionsRequest()),
    "AccessService/RevokeKey": (2, lambda a, _: access_pb2.RevokeKeyRequest(name="k99")),
}

#: Calls that change a repository that the caller sees; they are sent for hidden ones alone.
WRITES = {
    *("IndexService/StartRun", "IndexService/RetryFailures", "IndexService/EnrichRepository"),
    *("IndexService/SetDefaultRef", "IndexService/SetLabel", "IndexService/RemoveRepository"),
    "SearchService/MakeMap",
}


def test_the_random_calls_include_every_method():
    assert set(KINDS) == set(RESPONSES)


@pytest.fixture
def served(tmp_path, monkeypatch):
    """An organisation and its gateway, where changes of rights hold at once."""
    for name in ("fresh", "service.keys", "service.repositories"):
        monkeypatch.setattr(import_module(f"gateway.{name}"), "FRESH_S", 0.0)
    made = organisation(tmp_path)
    with structlog.testing.capture_logs():
        gateway = Served(made)
        yield made, gateway
        gateway.close()


def marks(text):
    """Return the marks in the text in lower case. One search for both takes four times as long."""
    text = text.lower()
    return {*WORD.findall(text), *RUN.findall(text)}


def assert_hidden(made, caller, request, text, seen):
    """Check that the text has no mark of a hidden repository, except those of the request."""
    found = marks(text) - marks(request)
    leaked = found and found & {
        mark for one in made.repositories if one not in seen for mark in one.marks
    }
    assert not leaked, (caller, request, text, leaked)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_answer_holds_anything_hidden_while_rights_change(served):
    made, gateway = served
    asking, answered = Asking(made), Counter()
    sees = {}
    while gateway.asked < REQUESTS:
        if sum(answered.values()) % STEADY == 0:
            made.change()
            sees.clear()
        caller = made.dice.choice(made.callers)
        if caller.name not in sees:
            sees[caller.name] = made.visible(caller)
        seen = sees[caller.name]
        method, request, unseen = asking.draw(caller, {mark for one in seen for mark in one.marks})
        answer, text = gateway.ask(method, request, caller.authorization)
        answered[method, answer is not None] += 1
        assert_hidden(made, caller, str(request), text, seen)
        check = CHECKS.get(method)
        if answer is not None and check:
            check(made, seen, answer, request)
        if method == "SearchService/Search" and answer is not None and request.query == "load":
            caller.token = answer.next_page_token
        if unseen and method in BY_NAME:
            assert_absent(made, gateway, caller, method, request, text)

    # No caller is an admin without globs, and hence none is told of permissions or sources.
    refused = WRITES | {"AccessService/CreateKey", "AccessService/RevokeKey"}
    refused |= {"AccessService/ListPermissions", "AccessService/SyncPermissions"}
    refused |= {"IndexService/ListSources", "IndexService/SyncSources"}
    assert {method for method, is_answer in answered if is_answer} == KINDS.keys() - refused


#: Calls that depend on a name alone, for which a hidden one is compared with an absent one.
BY_NAME = {
    *WRITES,
    *("SearchService/Similar", "SearchService/Explain", "GraphService/GetGraph"),
    *("SearchService/ListFiles", "SearchService/GetMap", "SearchService/ListMapPlaces"),
    *("IndexService/ListFailures", "IndexService/WatchRun", "IndexService/CancelRun"),
}


def assert_absent(made, gateway, caller, method, request, text):
    """Check that the answer equals that to the same request about names that never existed."""
    absent = {
        mark: word(made.dice) if mark.startswith("zq") else f"{made.dice.getrandbits(64):016x}"
        for mark in marks(str(request))
    }
    other = type(request)()
    other.CopyFrom(request)
    for field_, value in request.ListFields():
        if isinstance(value, str):
            setattr(other, field_.name, renamed(value, absent))
    _, about_absent = gateway.ask(method, other, caller.authorization, face=gateway.face)
    assert renamed(text, absent) == renamed(about_absent, absent), (caller, request)


def renamed(text, names):
    """Return the text with other names and without suggestions, which depend on their spelling."""
    text = re.sub(r"; (did you mean|there are:) .*", "", text)
    return CANARY.sub(lambda found: names.get(found[0], found[0]), text)


# What the oracle makes of the answers of an admin


def of_repositories(made, seen, answer, _):
    assert [one.name for one in answer.repositories] == sorted(one.name for one in seen)


def of_status(made, seen, answer, _):
    of_repositories(made, seen, answer, _)
    assert answer.chunks == sum(one.chunks for one in seen)
    assert len(answer.runs) == min(20, len(seen))
    assert not answer.queues


def of_failures(made, seen, answer, request):
    if not request.repository:
        assert {one.repository for one in answer.failures} == {one.name for one in seen}


def of_search(made, seen, answer, request):
    names = {one.name for one in seen}
    assert {one.repository for one in (*answer.hits, *answer.coverage)} <= names


def of_scopes(made, seen, answer, _):
    names = [one.name for one in seen]
    expected = {
        name: [one for one in sorted(names) if any(covers(glob, one) for glob in of.repositories)]
        for name, of in made.declared.items()
    }
    expected = {name: some for name, some in expected.items() if some}
    assert {one.name: list(one.repositories) for one in answer.scopes} == expected


def of_context(made, seen, answer, request):
    of_search(made, seen, answer.search, request)
    named = {one.name for one in made.repositories if one.name in answer.text}
    assert named <= {one.name for one in seen}


CHECKS = {
    "SearchService/Context": of_context,
    "IndexService/ListRepositories": of_repositories,
    "IndexService/GetStatus": of_status,
    "IndexService/ListFailures": of_failures,
    "SearchService/ListScopes": of_scopes,
    "SearchService/Search": of_search,
    "SearchService/Similar": of_search,
}


@pytest.mark.slow
def test_a_keyword_search_returns_the_hits_of_an_admin_minus_hidden_ones(served):
    made, gateway = served

    def hits(authorization, query):
        request = search_pb2.SearchRequest(query=query, top_k=200)
        request.options.retrieve.alpha, request.options.retrieve.window = 0.0, 500
        answer, _ = gateway.ask("SearchService/Search", request, authorization)
        return {(hit.repository, hit.path, hit.start_line) for hit in answer.hits}

    for _ in range(3):
        for query in ("lantern", "canvas"):
            everything = hits(f"Bearer {ADMIN}", query)
            assert len({name for name, _, _ in everything}) == len(made.repositories)
            for caller in made.callers:
                names = {one.name for one in made.visible(caller)}
                mine = {hit for hit in everything if hit[0] in names}
                assert hits(caller.authorization, query) == mine
        for _ in range(20):
            made.change()


@pytest.mark.slow
def test_no_command_prints_anything_hidden(served, capsys, monkeypatch):
    made, gateway = served
    monkeypatch.setenv("CODELODE_SERVER", f"127.0.0.1:{gateway.port}")
    asking = Asking(made)
    keyed = [caller for caller in made.callers if caller.key]
    printed = 0
    for number in range(COMMANDS):
        caller = keyed[number % len(keyed)]
        one = asking.repo()
        command = made.dice.choice(
            [
                ("search", asking.text(), "--explain"),
                ("search", "load", "--repo", one.name),
                ("context", "how to load"),
                ("grep", "load"),
                ("symbols", "*"),
                ("definitions", f"{one.word}Base"),
                ("references", "draw"),
                ("grep", one.word, "--repo", one.name, "-l"),
                ("similar", "lib/store.py:2", "--repo", one.name),
                ("read", "lib/store.py", "--repo", one.name),
                ("ls", "lib", "--repo", one.name),
                ("explain", asking.subject()),
                ("symbols", "*oad"),
                ("definitions", asking.subject()),
                ("references", asking.subject()),
                ("graph", asking.subject(), "--reverse"),
                ("repos",),
                ("scopes",),
                ("search", "load", "--scope", made.dice.choice([*made.declared, one.word])),
                ("status",),
                ("failures", "--all"),
                ("cancel", one.run),
                ("keys", "list"),
                ("sources", "list"),
                ("permissions", "list"),
            ]
        )
        monkeypatch.setenv("CODELODE_TOKEN", caller.key)
        with pytest.raises(SystemExit):
            main(command)
        told = capsys.readouterr()
        assert_hidden(made, caller, " ".join(command), told.out + told.err, made.visible(caller))
        printed += bool(told.out)

    assert printed > COMMANDS / 4


@pytest.mark.slow
def test_no_tool_tells_anything_hidden(served):
    made, gateway = served
    asking = Asking(made)
    answered = Counter()
    for number in range(TOOLS):
        if number % STEADY == 0:
            made.change()
        caller, one = made.dice.choice(made.callers), asking.repo()
        tool, given = made.dice.choice(
            [
                ("search", {"query": asking.text(), "top_k": 50, "structured": True}),
                ("search", {"query": "load", "repositories": [one.name]}),
                ("search", {"query": "load", "scope": made.dice.choice([*made.declared])}),
                ("search", {"query": "load|draw", "exact": True, "top_k": 100}),
                ("context", {"query": "how to load"}),
                ("search", {"query": asking.subject(), "names": "symbols"}),
                ("search", {"query": asking.subject(), "names": "references"}),
                ("similar", {"path": "lib/store.py", "line": 2, "repository": one.name}),
                ("read", {"path": "lib/store.py", "repository": one.name}),
                ("resource", {"uri": f"codelode://file/{quote(one.name, safe='')}/lib/store.py"}),
                ("explain", {"subject": asking.subject()}),
                ("graph", {"subject": asking.subject(), "reverse": True}),
                ("status", {}),
                ("status", {"repository": one.name, "failures": "all"}),
                ("index", {"url": f"https://host.example/{one.name}", "wait_s": 0}),
            ]
        )
        is_answer, text = gateway.tell(tool, given, caller.authorization)
        assert_hidden(made, caller, json.dumps(given), text, made.visible(caller))
        answered[tool] += is_answer

    told = {tool for tool, count in answered.items() if count}
    assert told >= {
        "search",
        "context",
        "similar",
        "read",
        "resource",
        "explain",
        "graph",
        "status",
    }


#: The pages that are read, and the forms that are sent about hidden repositories alone.
READ = {
    "/search": lambda a, one: {
        "q": a.text(),
        "repo": a.names()[:1],
        "ref": a.ref(),
        "scope": a.scope(),
        **a.dice.choice([{}, {"why": "1"}, {"collapse": "1"}, {"copies": "1"}]),
    },
    "/lab": lambda a, one: {"q": a.text(), "b.rank.ranker": "fused", "top": "50"},
    "/code": lambda a, one: {
        "repository": a.name(),
        "ref": a.ref(),
        "path": a.dice.choice(["", "lib/", "lib/store.py", f"src/{one.word}.js"]),
        "name": a.dice.choice(["", "load", f"{one.word}Base"]),
    },
    "/code/tree": lambda a, one: {"repository": a.name(), "path": "src"},
    "/code/names": lambda a, one: {"repository": a.name(), "name": a.subject()},
    "/code/raw": lambda a, one: {"repository": a.name(), "path": "lib/store.py"},
    "/graph": lambda a, one: {"symbol": a.subject(), "repository": a.name(), "ref": a.ref()},
    "/map": lambda a, one: {"repository": a.names()},
    "/map/points": lambda a, one: {"repository": a.names()},
    "/map/places": lambda a, one: {"repository": one.name, "point": "0"},
    "/repositories": lambda a, one: {},
    "/repositories/failures": lambda a, one: {"repository": a.name(), "all": "1"},
}
FORMS = {
    "/map": lambda one: {"repository": one.name},
    "/repositories": lambda one: {"url": f"https://host.example/{one.name}"},
    "/repositories/retry": lambda one: {"repository": one.name},
    "/repositories/cancel": lambda one: {"run": one.run},
}


@pytest.mark.slow
def test_no_page_shows_anything_hidden(served):
    made, gateway = served
    asking = Asking(made)
    shown, sent = Counter(), Counter()
    for number in range(PAGES):
        if number % STEADY == 0:
            made.change()
        caller, one = made.dice.choice(made.callers), asking.repo()
        seen = made.visible(caller)
        verb = "GET" if one in seen or made.dice.random() < 0.8 else "POST"
        path = made.dice.choice(list(READ if verb == "GET" else FORMS))
        given = READ[path](asking, one) if verb == "GET" else FORMS[path](one)
        given = {name: value for name, value in given.items() if value}
        is_part = made.dice.random() < 0.3
        status, text = gateway.open(verb, path, given, caller.authorization, is_part=is_part)
        assert status < 500, (path, given, text)
        assert_hidden(made, caller, json.dumps(given), text, seen)
        assert verb == "GET" or status >= 400, (path, given, text)
        (shown if verb == "GET" else sent)[path] += status == 200 or verb == "POST"

    assert {path for path, count in shown.items() if count} == READ.keys()
    assert {path for path, count in sent.items() if count} == FORMS.keys()


def test_every_page_is_opened():
    pages = {
        (verb, route.path)
        for module in (code, graph, lab, maps, repositories, search)
        for route in module.router.routes
        for verb in route.methods
    }
    drawn = {("GET", path) for path in READ} | {("POST", path) for path in FORMS}
    assert pages - {("GET", "/")} == drawn  # the start page is that of searches
