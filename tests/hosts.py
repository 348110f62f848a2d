"""Servers that implement a part of the APIs of code hosts, as their documents describe it.

Lists have pages with links to the next one, pages have ETags, and a test may put answers before the
next ones: rate limits, errors of the server, refusals.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
import time
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from joserfc import jwt
from joserfc.errors import JoseError

from tests import git_http

APP = "4711"
TOKEN = "canary-token-of-the-tests"


class Quiet(ThreadingHTTPServer):
    """A server that logs nothing if a client disconnects."""

    daemon_threads = True

    def handle_error(self, *_):
        pass


class CodeHost:
    """A server for one test. `asked`: methods and paths of requests; `answers`: sent first."""

    PAGE = 2  # of GraphQL

    def __init__(self):
        self.asked = []
        self.unchanged = 0  # answers with 304
        self.answers = []  # (status, headers, value), taken from the front
        self.always = None  # sent to every request
        self.limits = {}  # headers of every answer
        self.git = None  # a folder with the repositories that git may read
        self._lock = threading.Lock()
        self._server = Quiet(("127.0.0.1", 0), self._handler())
        self.address = f"127.0.0.1:{self._server.server_port}"
        self.url = f"http://{self.address}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()

    def is_known(self, headers):
        return headers.get("Authorization") == f"Bearer {TOKEN}"

    def is_read_by(self, authorization):
        """Return whether git may read the repositories with this header."""
        return authorization is not None

    def value(self, path, parameters, body):
        """Return the document at a path, a list in pages. Raises KeyError if there is none."""
        raise NotImplementedError

    def answer(self, method, path, parameters, headers, body):
        with self._lock:
            self.asked.append(f"{method} {path}")
            given = self.always or (self.answers.pop(0) if self.answers else None)
        if given:
            return given
        if not self.is_known(headers):
            return 401, {}, {"message": "Bad credentials"}
        try:
            found = self.value(path, parameters, body)
        except KeyError:
            return 404, {}, {"message": "Not Found"}
        if not isinstance(found, list):
            return 200, {}, found
        return 200, *self._page(path, parameters, found)

    def _page(self, path, parameters, rows):
        number = int(parameters.get("page", 1))
        size = min(100, int(parameters["per_page"]))
        first, last = (number - 1) * size, number * size
        headers = {}
        if last < len(rows):
            # As behind a proxy, the link has another address than the request.
            query = urlencode({**parameters, "page": number + 1})
            headers["Link"] = f'<https://elsewhere.example{path}?{query}>; rel="next"'
        return headers, rows[first:last]

    def _handler(outer):  # noqa: N805 - `self` is the handler's
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                _given(outer, self, b"")

            def do_POST(self):
                _given(outer, self, git_http.body(self))

            def answered(self, method, body):
                parts = urlsplit(self.path)
                parameters = dict(parse_qsl(parts.query))
                status, headers, value = outer.answer(
                    method, unquote(parts.path), parameters, self.headers, body
                )
                headers = {**outer.limits, **headers}
                content = value if isinstance(value, bytes) else json.dumps(value).encode()
                etag = f'W/"{hashlib.sha256(content).hexdigest()}"'
                if status == 200 and method == "GET":
                    headers = {**headers, "ETag": etag}
                    if self.headers.get("If-None-Match") == etag:
                        outer.unchanged += 1
                        status, content = 304, b""
                self.send_response(status)
                for name, text in {**headers, "Content-Length": str(len(content))}.items():
                    self.send_header(name, text)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                pass

        return Handler


def _given(host, request, raw):
    """Answer a request, possibly of git."""
    if host.git is None or ".git/" not in request.path:
        request.answered(request.command, json.loads(raw or b"null"))
    elif host.is_read_by(request.headers.get("Authorization")):
        git_http.answer(request, host.git, raw)
    else:
        request.send_response(401)
        request.send_header("WWW-Authenticate", 'Basic realm="git"')
        request.send_header("Content-Length", "0")
        request.end_headers()


class GitHub(CodeHost):
    """An Enterprise server with the organisation `acme`."""

    def __init__(self):
        super().__init__()
        self.base = "none"
        self.members = {1: "ADMIN", 2: "MEMBER", 3: "MEMBER", 4: "MEMBER"}
        self.repositories = {  # id: name, visibility, direct collaborators or None: not shown
            11: ("secret", "PRIVATE", []),
            12: ("tools", "PRIVATE", [3, 9]),
            13: ("open", "PUBLIC", []),
            14: ("inner", "INTERNAL", None),
        }
        self.teams = {"readers": ([2, 4], [11]), "leads": ([4], [12, 11])}
        self.details = {}  # id: fields that replace those in the list of repositories
        self.app = None  # the public key of the app with the id APP
        self.lifetime_s = 3_600
        self.made = {}  # tokens of the installation, and when they expire
        self.permissions = {}  # those requested for each token
        self.is_installed = True
        self.granted = {"contents", "metadata"}  # permissions of the app

    def is_known(self, headers):
        given = headers.get("Authorization", "")
        return super().is_known(headers) or self.is_live(given.removeprefix("Bearer "))

    def is_live(self, token):
        return self.made.get(token, 0) > time.time()

    def is_read_by(self, authorization):
        pair = base64.b64decode((authorization or "").removeprefix("Basic ")).decode()
        return pair.startswith("x-access-token:") and self.is_live(pair.partition(":")[2])

    def answer(self, method, path, parameters, headers, body):
        if self.app is None or not re.search("/(app|installation)(/|$)", path):
            return super().answer(method, path, parameters, headers, body)
        with self._lock:
            self.asked.append(f"{method} {path}")
            return self._to_the_app(method, path, headers.get("Authorization", ""), body)

    def _to_the_app(self, method, path, authorization, body):
        """Answer a request that only the app may send, authenticated by a signed token."""
        try:
            text = authorization.removeprefix("Bearer ")
            claims = jwt.decode(text, self.app, algorithms=["RS256"]).claims
        except JoseError:
            return 401, {}, {"message": "A JSON web token could not be decoded"}
        now = time.time()
        if not claims["iat"] <= now <= claims["exp"] <= now + 600:
            return 401, {}, {"message": "'Expiration time' claim ('exp') is too far in the future"}
        if str(claims["iss"]) != APP:
            return 404, {}, {"message": "Integration not found"}
        if self.is_installed and (method, path) == ("GET", "/api/v3/orgs/acme/installation"):
            return 200, {}, {"id": 77, "app_id": int(APP), "account": {"login": "acme"}}
        if (method, path) != ("POST", "/api/v3/app/installations/77/access_tokens"):
            return 404, {}, {"message": "Not Found"}
        if not {*(body or {}).get("permissions", {})} <= self.granted:
            words = "The permissions requested are not granted to this installation."
            return 422, {}, {"message": words}
        token, expires_at = f"ghs_canary{len(self.made)}of-an-app", now + self.lifetime_s
        self.made[token] = expires_at
        self.permissions[token] = (body or {}).get("permissions", "all")
        at = datetime.fromtimestamp(expires_at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return 201, {}, {"token": token, "expires_at": at, "repository_selection": "all"}

    def value(self, path, parameters, body):
        if path == "/api/v3/orgs/acme/repos":
            return [self._row(id, *one) for id, one in self.repositories.items()]
        if path == "/api/graphql":
            return self._graphql(body["query"], body["variables"])
        if path == "/api/v3/orgs/acme":
            return {"login": "acme", "default_repository_permission": self.base}
        if path == "/api/v3/orgs/acme/teams":
            return [{"slug": slug} for slug in self.teams]
        if found := re.fullmatch(r"/api/v3/orgs/acme/teams/(\w+)/(members|repos)", path):
            return [{"id": id} for id in self.teams[found[1]][found[2] == "repos"]]
        found = re.fullmatch(r"/api/v3/repos/acme/(\w+)/collaborators", path)
        if found and parameters["affiliation"] == "direct":
            by_name = {name: direct for name, _, direct in self.repositories.values()}
            return [{"id": id} for id in by_name[found[1]]]
        raise KeyError(path)

    def _graphql(self, query, variables):
        if variables["login"] != "acme":
            error = {"type": "NOT_FOUND", "path": ["organization"], "message": "Could not resolve"}
            return {"data": {"organization": None}, "errors": [error]}
        if "membersWithRole" in query:
            rows = [
                {
                    "role": role,
                    "node": {
                        "databaseId": id,
                        "organizationVerifiedDomainEmails": [f"user{id}@acme.example"],
                    },
                }
                for id, role in self.members.items()
            ]
            return {"data": {"organization": {"page": self._cut("edges", rows, variables)}}}
        rows = [self._repository(id, *one) for id, one in self.repositories.items()]
        answer = {"data": {"organization": {"page": self._cut("nodes", rows, variables)}}}
        if any(
            row["collaborators"] is None for row in answer["data"]["organization"]["page"]["nodes"]
        ):
            path = ["organization", "page", "nodes", 0, "collaborators"]
            errors = [{"type": "FORBIDDEN", "path": path, "message": "push access"}]
            return {"data": answer["data"], "errors": errors}
        return answer

    def _row(self, id, name, visibility, _):
        return {
            "id": id,
            "full_name": f"acme/{name}",
            "private": visibility != "PUBLIC",
            "visibility": visibility.lower(),
            "fork": False,
            "archived": False,
            "size": 7,
            "topics": [],
            "pushed_at": "2026-11-01T00:00:00Z",
            "default_branch": "main",
            "clone_url": f"https://elsewhere.example/acme/{name}.git",
            **self.details.get(id, {}),
        }

    def _repository(self, id, name, visibility, direct):
        shown = (
            direct
            if direct is None
            else self._cut("nodes", [{"databaseId": one} for one in direct], {})
        )
        return {
            "databaseId": id,
            "nameWithOwner": f"acme/{name}",
            "url": f"{self.url}/acme/{name}",
            "sshUrl": f"git@127.0.0.1:acme/{name}.git",
            "visibility": visibility,
            "collaborators": shown,
        }

    def _cut(self, field, rows, variables):
        first = int(variables.get("cursor") or 0)
        last = first + self.PAGE
        info = {"hasNextPage": last < len(rows), "endCursor": str(last)}
        return {"pageInfo": info, field: rows[first:last]}


class GitLab(CodeHost):
    """A server with nested groups."""

    def __init__(self):
        super().__init__()
        self.users = {  # id: state, is external, is confirmed
            1: ("active", False, True),
            2: ("active", True, True),
            3: ("blocked", False, True),
            4: ("active", False, False),
        }
        self.projects = {  # id: path, visibility, who reads the repository, members with levels
            21: ("acme/secret", "private", "enabled", {1: 20, 2: 10, 3: 40}),
            22: ("acme/sub/inner", "internal", "enabled", {2: 30}),
            23: ("other/open", "public", "enabled", {}),
            24: ("acme/docs", "public", "private", {4: 50}),
            25: ("acme/off", "public", "disabled", {4: 50}),
        }
        self.hidden = set()  # projects whose members the token may not see
        self.details = {}  # id: fields that replace those in the list of projects

    def is_known(self, headers):
        return headers.get("PRIVATE-TOKEN") == TOKEN

    def value(self, path, parameters, body):
        if path == "/api/v4/projects":
            return [self._project(id) for id in self.projects]
        if path == "/api/v4/groups/acme/projects" and parameters["include_subgroups"] == "true":
            below = [id for id, one in self.projects.items() if one[0].startswith("acme/")]
            return [self._project(id) for id in below]
        if path == "/api/v4/users":
            return [self._user(id) for id in self.users]
        if found := re.fullmatch(r"/api/v4/projects/(\d+)/members/all", path):
            if int(found[1]) in self.hidden:
                raise KeyError(path)
            members = self.projects[int(found[1])][3]
            return [
                {"id": id, "state": self.users[id][0], "access_level": level}
                for id, level in members.items()
            ]
        raise KeyError(path)

    def _project(self, id):
        path, visibility, access, _ = self.projects[id]
        return {
            "id": id,
            "path_with_namespace": path,
            "http_url_to_repo": f"https://shown.example/{path}.git",
            "ssh_url_to_repo": f"git@shown.example:{path}.git",
            "visibility": visibility,
            "repository_access_level": access,
            "archived": False,
            "empty_repo": False,
            "topics": [],
            "default_branch": "main",
            "last_activity_at": "2026-11-01T00:00:00.000Z",
            **self.details.get(id, {}),
        }

    def _user(self, id):
        state, is_external, is_confirmed = self.users[id]
        confirmed_at = "2026-01-01T00:00:00Z" if is_confirmed else None
        email = f"user{id}@acme.example"
        fields = {"id": id, "state": state, "external": is_external}
        return {**fields, "email": email, "confirmed_at": confirmed_at, "name": "ann"}


class Bitbucket(CodeHost):
    """Bitbucket Cloud, whose pages contain the URL of the next one, at another address."""

    def __init__(self):
        super().__init__()
        self.rows = [self.row(name) for name in ("app", "lib", "tool")]

    def row(self, name, **fields):
        return {
            "uuid": f"{{0000-{name}}}",
            "full_name": f"acme/{name}",
            "is_private": True,
            "parent": None,
            "size": 4_096,
            "mainbranch": {"type": "branch", "name": "main"},
            "updated_on": "2026-11-01T00:00:00.000000+00:00",
            **fields,
        }

    def value(self, path, parameters, body):
        if path != "/2.0/repositories/acme":
            raise KeyError(path)
        page, size = int(parameters.get("page", 1)), int(parameters["pagelen"])
        found = {"pagelen": size, "values": self.rows[(page - 1) * size : page * size]}
        if page * size < len(self.rows):
            query = urlencode({**parameters, "page": page + 1})
            found["next"] = f"https://elsewhere.example{path}?{query}"
        return found


class BitbucketServer(CodeHost):
    """A Data Center, whose pages contain the start of the next one."""

    def __init__(self):
        super().__init__()
        self.rows = [self.row(id, name) for id, name in ((1, "app"), (2, "lib"), (3, "tool"))]

    def row(self, id, slug, **fields):
        project = {"key": "ACME", "id": 7, "public": False}
        return {"id": id, "slug": slug, "project": project, "public": False, **fields}

    def value(self, path, parameters, body):
        if path not in ("/rest/api/latest/projects/ACME/repos", "/rest/api/latest/repos"):
            raise KeyError(path)
        rows = self.rows
        if path.endswith("latest/repos") and parameters.get("archived", "ACTIVE") == "ACTIVE":
            rows = [row for row in rows if not row.get("archived")]
        start, limit = int(parameters.get("start", 0)), int(parameters["limit"])
        end = start + limit
        found = {"start": start, "limit": limit, "values": rows[start:end]}
        is_last = end >= len(rows)
        return {**found, "isLastPage": is_last, "nextPageStart": None if is_last else end}


class Azure(CodeHost):
    """Azure DevOps, which answers a wrong token with a sign-in page."""

    def __init__(self):
        super().__init__()
        self.rows = [self.row("1-1", "My App"), self.row("1-2", "lib")]

    def row(self, id, name, **fields):
        project = {"id": "p-1", "name": "Web Shop", "visibility": "private"}
        given = {"id": id, "name": name, "project": project, "size": 4_096, "isDisabled": False}
        return {**given, "defaultBranch": "refs/heads/main", **fields}

    def is_known(self, headers):
        pair = base64.b64encode(f":{TOKEN}".encode()).decode()
        return headers.get("Authorization") == f"Basic {pair}"

    def value(self, path, parameters, body):
        if path != "/acme/_apis/git/repositories" or parameters["api-version"] != "7.1":
            raise KeyError(path)
        return {"value": self.rows, "count": len(self.rows)}
