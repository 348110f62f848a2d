"""Webhooks of code hosts: signatures, what each event asks for, and what is refused."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import sys
import time
from contextlib import asynccontextmanager
from dataclasses import replace
from urllib.parse import unquote, urlencode

import httpx
import pytest
from structlog.testing import capture_logs

from codelode.access import EVERYTHING
from codelode.backends.memory.call_limits import MemoryCallLimits
from codelode.host_permissions import SyncDeclaration
from codelode.model import DEFAULT_REF, RefName, Repository, RepositoryName, RunState
from codelode.repository_sources import Mode, SourceDeclaration
from codelode.settings import Settings
from gateway.api.rest import webhooks
from gateway.app import Gateway
from gateway.service.audit_log import AuditLog, RotatedFile
from tests.http_gateways import answer_to_half_a_body, connect, serving
from tests.worlds import World

SECRET = "a secret of both sides"
KINDS = ("gitea", "github", "gitlab", "bitbucket", "bitbucket-server", "azure")
APP = RepositoryName("acme/app")
FILES = {"src/a.py": "def load(store):\n    return store\n"}
URL = "https://host.example/acme/app"
NOTHING, BEFORE, AFTER = "0" * 40, "1" * 40, "2" * 40

#: Where kinds of hosts have the name of an event and the id of a delivery; Azure: in the body.
EVENT = {
    "gitea": "x-gitea-event",
    "github": "x-github-event",
    "gitlab": "x-gitlab-event",
    "bitbucket": "x-event-key",
    "bitbucket-server": "x-event-key",
}
DELIVERY = {
    "gitea": "x-gitea-delivery",
    "github": "x-github-delivery",
    "gitlab": "idempotency-key",
    "bitbucket": "x-request-uuid",
    "bitbucket-server": "x-request-id",
}
PUSH = {"bitbucket": "repo:push", "bitbucket-server": "repo:refs_changed", "azure": "git.push"}


class Sender:
    """A code host that sends webhooks, and the world behind the gateway."""

    def __init__(self, client, world, kind, sources):
        self.client, self.world, self.kind, self.sources = client, world, kind, sources
        self.url = url_of(kind)

    def push(self, ref="refs/heads/main", *, url="", before=BEFORE, after=AFTER, default=""):
        """Return the payload of a push. `default`: the default branch, if the host sends it."""
        url = url or f"{self.url}.git"
        made = PAYLOADS.get(self.kind, pushed_to_others)
        return made(url, (ref, before, after), {"default_branch": default} if default else {})

    def at(self, name):
        """Return the URL of a repository of the organisation."""
        return f"{self.url.rpartition('/')[0]}/{name}"

    async def send(self, payload, *, event=None, id="", secret=SECRET, name="work", **changes):
        event = PUSH.get(self.kind, "push") if event is None else event
        if self.kind == "azure" and isinstance(payload, dict):
            payload = {"eventType": event, "id": id, **payload}
        body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        headers = {
            "content-type": "application/json",
            **({EVENT[self.kind]: event} if self.kind in EVENT else {}),
            **({DELIVERY[self.kind]: id} if id and self.kind in DELIVERY else {}),
            **signed(self.kind, secret, body),
            **changes,
        }
        return await self.client.post(f"/webhooks/{name}", content=body, headers=headers)

    def runs(self):
        """Return the runs that were sent to the workers, as repository and ref."""
        ledger = self.world.ledger
        sent = [ledger.run(job[1]) for job in self.world.jobs.sent if job[0] == "pull"]
        return [(run.repository, run.ref) for run in sent]

    def sent(self, kind):
        return [job[1] for job in self.world.jobs.sent if job[0] == kind]


def url_of(kind):
    """Return the URL of the repository, as listings of this kind give it."""
    root = URL.rpartition("/acme")[0]
    return {
        "bitbucket-server": f"{root}/scm/acme/app",
        "azure": f"{root}/acme/Web%20Shop/_git/app",
    }.get(kind, URL)


def pushed_to_others(url, pushed, default):
    page = url.removesuffix(".git")
    name = page.split("/", 3)[-1]
    place = {"clone_url": url, "html_url": page, "full_name": name, **default}
    return {**dict(zip(("ref", "before", "after"), pushed, strict=True)), "repository": place}


def pushed_to_gitlab(url, pushed, default):
    page = url.removesuffix(".git")
    name = page.split("/", 3)[-1]
    place = {"git_http_url": url, "web_url": page, "path_with_namespace": name, **default}
    pushed = dict(zip(("ref", "before", "after"), pushed, strict=True))
    return {"object_kind": "push", **pushed, "project": place}


def pushed_to_bitbucket(url, pushed, default):
    ref, before, after = pushed
    kind = "tag" if ref.startswith("refs/tags/") else "branch"
    state = {"type": kind, "name": ref.split("/", 2)[-1]}
    old, new = (None if commit == NOTHING else state for commit in (before, after))
    name = url.removesuffix(".git").split("/", 3)[-1]
    return {"push": {"changes": [{"old": old, "new": new}]}, "repository": {"full_name": name}}


def pushed_to_bitbucket_server(url, pushed, default):
    ref, before, after = pushed
    kind = "ADD" if before == NOTHING else "DELETE" if after == NOTHING else "UPDATE"
    change = {"refId": ref, "fromHash": before, "toHash": after, "type": kind}
    _, key, slug = url.removesuffix(".git").rsplit("/", 2)
    return {"repository": {"slug": slug, "project": {"key": key.upper()}}, "changes": [change]}


def pushed_to_azure(url, pushed, default):
    ref, before, after = pushed
    project, _, name = unquote(url.removesuffix(".git")).split("/", 4)[-1].partition("/_git/")
    branch = {"defaultBranch": f"refs/heads/{default['default_branch']}"} if default else {}
    place = {"name": name, "project": {"name": project}, "remoteUrl": url, **branch}
    update = {"name": ref, "oldObjectId": before, "newObjectId": after}
    return {"resource": {"repository": place, "refUpdates": [update]}}


PAYLOADS = {
    "gitlab": pushed_to_gitlab,
    "bitbucket": pushed_to_bitbucket,
    "bitbucket-server": pushed_to_bitbucket_server,
    "azure": pushed_to_azure,
}


def signed(kind, secret, body):
    digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    pair = base64.b64encode(f"anybody:{secret}".encode()).decode()
    return {
        "gitea": {"x-gitea-signature": digest},
        "github": {"x-hub-signature-256": f"sha256={digest}"},
        "gitlab": {"x-gitlab-token": secret},
        "bitbucket": {"x-hub-signature": f"sha256={digest}"},
        "bitbucket-server": {"x-hub-signature": f"sha256={digest}"},
        "azure": {"authorization": f"Basic {pair}"},
    }[kind]


def index_at(world, ref, url=URL):
    """Index the repository at a ref, and let main be its default one."""
    world.index(APP, FILES, ref=ref)
    world.ledger.register(Repository(APP, url, default_ref=RefName("main"), is_pinned=True))
    world.jobs.sent.clear()


@asynccontextmanager
async def sending(tmp_path, kind="gitea", *, limited=False, audit=None):
    """A host whose gateway has indexed a repository at main, and follows its permissions."""
    (tmp_path / "secret").write_text(SECRET)
    sources = tmp_path / "sources.yaml"
    is_needed = kind in ("github", "bitbucket", "azure")
    organisation = "\n  organisation: acme" if is_needed else ""
    sources.write_text(
        f"connections:\n- name: work\n  kind: {kind}\n  url: https://host.example{organisation}\n"
        f"  token: {{env: UNUSED}}\n  webhook_secret: {{file: {tmp_path / 'secret'}}}\n"
    )
    settings = Settings(
        data=tmp_path,
        listen="127.0.0.1:0",
        http_listen="127.0.0.1:0",
        token="sesame",
        sources=str(sources),
    )
    world = World(settings)
    index_at(world, "main", url_of(kind))
    declared = SyncDeclaration("work", kind, "host.example/", 300, 3600, emails=True, claim="")
    world.dependencies.permissions.declare([declared])
    followed = SourceDeclaration("work", kind, "host.example/", 3600, "rules")
    world.dependencies.sources.declare([followed])
    counts = MemoryCallLimits() if limited else None
    gateway = Gateway(replace(world.dependencies, call_limits=counts, audit_log=audit))
    await gateway.start()
    try:
        base = f"http://127.0.0.1:{gateway.http_port}"
        async with connect(base) as client:
            yield Sender(client, world, kind, sources)
    finally:
        await gateway.stop(grace_s=0)
        await world.dependencies.close()


@pytest.fixture(params=KINDS)
async def host(request, tmp_path):
    async with sending(tmp_path, request.param) as made:
        yield made


@pytest.fixture
async def gitea(tmp_path):
    async with sending(tmp_path) as made:
        yield made


async def test_a_push_to_the_default_branch_starts_a_run(host):
    response = await host.send(host.push(), id="1")

    assert (response.status_code, response.content) == (202, b"")
    assert host.runs() == [(APP, DEFAULT_REF)]


async def test_a_push_to_another_ref_starts_a_run_only_if_it_is_indexed(host):
    index_at(host.world, "v1", host.url)
    answers = [
        (await host.send(host.push(ref))).status_code
        for ref in ("refs/tags/v1", "refs/heads/feature", "refs/heads/v2")
    ]

    assert answers == [202, 204, 204]
    assert host.runs() == [(APP, "v1")]


async def test_a_deleted_ref_leaves_with_a_run_of_the_default_branch(host):
    index_at(host.world, "old", host.url)
    if host.kind == "gitea":
        gone = {**host.push("old"), "ref_type": "branch"}
        response = await host.send(gone, event="delete")
    else:
        response = await host.send(host.push("refs/heads/old", after=NOTHING))

    assert response.status_code == 202
    assert host.runs() == [(APP, DEFAULT_REF)]


async def test_a_push_to_another_repository_asks_for_nothing(host):
    urls = (
        "https://host.example/acme/other.git",
        "https://other.example/acme/app.git",
        "https://host.example/acme/app/deeper",
    )
    # Some kinds name the repository, and give no URL that counts.
    for url in [host.at("other")] if host.kind in PUSH else urls:
        response = await host.send(host.push(url=url))

        assert response.status_code == 204, url
        assert host.runs() == []


@pytest.mark.parametrize("url", ["git@host.example:Acme/App.git", "https://HOST.example/acme/app/"])
async def test_every_spelling_of_the_url_is_the_repository(gitea, url):
    response = await gitea.send(gitea.push(url=url))

    assert response.status_code == 202
    assert gitea.runs() == [(APP, DEFAULT_REF)]


RIGHTS = {
    "gitea": ("repository", {"action": "deleted"}),
    "github": ("member", {"action": "removed"}),
    "gitlab": ("System Hook", {"event_name": "user_remove_from_team"}),
}


@pytest.mark.parametrize("kind", RIGHTS)  # the permissions of the others are not synchronised
async def test_a_change_of_rights_triggers_a_permission_sync(tmp_path, kind):
    event, payload = RIGHTS[kind]
    async with sending(tmp_path, kind) as host:
        response = await host.send(payload, event=event)

        assert response.status_code == 202
        assert host.sent("permissions") == ["work"]
        (state,) = host.world.dependencies.permissions.states()
        assert state.wanted


CHANGES = {
    "gitea": ("repository", {"action": "created"}),
    "github": ("repository", {"action": "renamed"}),
    "gitlab": ("System Hook", {"event_name": "project_transfer"}),
    "bitbucket": ("repo:transfer", {}),
    "bitbucket-server": ("repo:modified", {"old": {}, "new": {}}),
    "azure": ("git.repo.renamed", {"resource": {"oldName": "app"}}),
}


async def test_a_change_of_repositories_triggers_a_listing(host):
    event, payload = CHANGES[host.kind]
    response = await host.send(payload, event=event)

    assert response.status_code == 202
    assert host.sent("source") == ["work"]
    (state,) = host.world.dependencies.sources.states()
    assert (state.mode, bool(state.wanted)) == (Mode.SYNC, True)
    host.world.dependencies.sources.declare([])
    host.world.dependencies.permissions.declare([])
    assert (await host.send(payload, event=event)).status_code == 204


async def test_the_first_push_to_an_empty_repository_has_the_repositories_listed(host):
    def pushed(ref="refs/heads/main", before=NOTHING):
        return host.push(ref, url=host.at("new"), before=before, default="main")

    assert (await host.send(pushed())).status_code == 202
    assert (host.sent("source"), host.runs()) == (["work"], [])
    assert (await host.send(pushed(before=BEFORE))).status_code == 204
    says_more = host.kind not in ("bitbucket", "bitbucket-server")  # which branch is the default
    other = await host.send(pushed("refs/heads/next"))
    assert other.status_code == (204 if says_more else 202)
    assert (await host.send(pushed("refs/tags/main"))).status_code == 204


async def test_a_new_branch_of_a_registered_or_excluded_repository_triggers_no_listing(host):
    new = host.push(url=host.at("new"), before=NOTHING, default="main")
    assert (await host.send(host.push("refs/heads/x", before=NOTHING))).status_code == 204
    text = host.sources.read_text()
    host.sources.write_text(f"{text}  repositories: {{exclude: ['**/new']}}\n")
    assert (await host.send(new)).status_code == 204
    assert host.sent("source") == []


async def test_a_new_branch_that_matches_the_rules_starts_a_run_of_the_default_branch(host):
    text = host.sources.read_text()
    host.sources.write_text(f"{text}  repositories: {{branches: ['release/*']}}\n")

    assert (await host.send(host.push("refs/heads/release/2", before=NOTHING))).status_code == 202
    assert host.runs() == [(APP, DEFAULT_REF)]
    others = (
        host.push("refs/tags/release/2", before=NOTHING),
        host.push("refs/heads/release/2", before=BEFORE),
        host.push("refs/heads/x", before=NOTHING),
    )
    assert [(await host.send(one)).status_code for one in others] == [204] * 3


@pytest.mark.parametrize("follows", [True, False])
async def test_a_push_to_the_new_default_branch_starts_a_run_if_the_default_ref_follows_it(
    host, follows
):
    before = host.world.ledger.get(APP)
    host.world.ledger.register(replace(before, follows_default=follows))
    answers = [
        (await host.send(host.push(f"refs/heads/{ref}", default="trunk"))).status_code
        for ref in ("other", "trunk")
    ]

    is_told = follows and host.kind not in ("bitbucket", "bitbucket-server")
    assert answers == [204, 202 if is_told else 204]
    assert host.runs() == [(APP, DEFAULT_REF)] * is_told


async def test_a_push_to_a_paused_repository_starts_no_run(host):
    text = host.sources.read_text()
    rules = "{paused: ['acme/**'], branches: ['release/*']}"
    host.sources.write_text(f"{text}  repositories: {rules}\n")
    new = host.push("refs/heads/release/2", before=NOTHING)

    assert [(await host.send(one)).status_code for one in (host.push(), new)] == [204, 204]
    host.sources.write_text(f"{text}  repositories: {{paused: ['acme/other']}}\n")
    assert (await host.send(host.push())).status_code == 202


@pytest.mark.parametrize("kind", ["bitbucket", "bitbucket-server", "azure"])
async def test_a_push_of_several_refs_starts_a_run_of_each_that_is_indexed(tmp_path, kind):
    async with sending(tmp_path, kind) as host:
        index_at(host.world, "v1", host.url)
        both = host.push("refs/tags/v1")
        for ref in ("refs/heads/main", "refs/heads/x", "refs/heads/main"):
            more = host.push(ref)
            if kind == "azure":
                both["resource"]["refUpdates"] += more["resource"]["refUpdates"]
            else:
                changes = both["push"] if kind == "bitbucket" else both
                changes["changes"] += (more["push"] if kind == "bitbucket" else more)["changes"]

        assert (await host.send(both)).status_code == 202
        started = host.world.ledger.recent(EVERYTHING, limit=2)
        assert [(run.repository, run.ref) for run in started] == [(APP, DEFAULT_REF), (APP, "v1")]
        assert host.world.ledger.recent(EVERYTHING, limit=9)[2].state.is_over


def standard(key, body, *, at, id="1"):
    """Return the headers of a delivery that GitLab signs with a signing token."""
    digest = hmac.new(key, f"{id}.{at}.".encode() + body, hashlib.sha256).digest()
    other = base64.b64encode(bytes(32)).decode()
    given = f"v1,{other} v1,{base64.b64encode(digest).decode()}"
    return {
        "webhook-id": id,
        "webhook-timestamp": str(at),
        "webhook-signature": given,
        "idempotency-key": id,
        "x-gitlab-event": "Push Hook",
    }


async def test_a_signing_token_of_gitlab_signs_the_body_and_the_time(tmp_path):
    key, now = b"k" * 32, int(time.time())
    async with sending(tmp_path, "gitlab") as host:
        token = f"whsec_{base64.b64encode(key).decode()}"
        (tmp_path / "secret").write_text(token)
        body = json.dumps(host.push()).encode()
        refused = [
            standard(key, body, at=now - 3_600),  # recorded an hour ago
            standard(key, body, at=now + 3_600),
            {**standard(key, body, at=now), "webhook-timestamp": str(now - 1)},
            {**standard(key, body, at=now), "webhook-id": "2"},
            standard(b"x" * 32, body, at=now),
            {"x-gitlab-token": token},
        ]
        answers = [await host.client.post("/webhooks/work", content=body, headers=one)
                   for one in (*refused, standard(key, body, at=now))]  # fmt: skip

        assert [one.status_code for one in answers] == [401] * 6 + [202]


async def test_a_delivery_that_a_signing_token_signed_is_acted_on_once_under_any_other_id(tmp_path):
    key = b"k" * 32
    async with sending(tmp_path, "gitlab") as host:
        (tmp_path / "secret").write_text(f"whsec_{base64.b64encode(key).decode()}")
        body = json.dumps(host.push()).encode()
        headers, answers = standard(key, body, at=int(time.time())), []
        for id in ("1", "forged", ""):
            given = {**headers, "idempotency-key": id}
            answers.append(await host.client.post("/webhooks/work", content=body, headers=given))
            for job in host.sent("pull"):
                host.world.ledger.end(job, RunState.COMPLETE, "")

        assert [one.status_code for one in answers] == [202, 204, 204]
        assert len(host.runs()) == 1


async def test_an_invalid_time_in_a_signed_delivery_is_refused(tmp_path):
    key = b"k" * 32
    async with sending(tmp_path, "gitlab") as host:
        (tmp_path / "secret").write_text(f"whsec_{base64.b64encode(key).decode()}")
        for at in ("9" * 400, "9" * 5_000, "\u00b2", "", "-1", "1.0", "soon"):
            headers = standard(key, b"{}", at=at)
            headers["webhook-timestamp"] = at.encode("latin-1")
            known, unknown = [
                await host.client.post(f"/webhooks/{name}", content=b"{}", headers=headers)
                for name in ("work", "nobody")
            ]

            assert [known.status_code, unknown.status_code] == [401, 401], at


async def test_azure_gives_the_secret_as_a_password(tmp_path):
    pair = base64.b64encode(f"x:{SECRET}".encode()).decode()
    async with sending(tmp_path, "azure") as host:
        wrong = ("Basic", "Basic %%%", "Basic 4pi6", "Basic \u00fc", "Bearer {}", "{}")
        for given in (*wrong, "basic {}"):
            header = given.format(pair).encode("latin-1")
            response = await host.send(host.push(), authorization=header)

            assert response.status_code == (401 if given in wrong else 202), given


async def test_a_repeated_delivery_is_acted_on_once(host):
    first = await host.send(host.push(), id="the same")
    assert host.world.ledger.end(host.sent("pull")[0], RunState.COMPLETE, "") is None
    again = await host.send(host.push(), id="the same")
    other = await host.send(host.push(), id="another")

    assert [one.status_code for one in (first, again, other)] == [202, 204, 202]
    assert len(host.runs()) == 2


@pytest.mark.parametrize("id", ["x" * 10_000, "\u00fc", "a b"])
async def test_any_id_of_a_delivery_is_remembered(gitea, id):
    answers = [await gitea.send(gitea.push(), id=id.encode()) for _ in range(2)]

    assert [one.status_code for one in answers] == [202, 204]


async def test_a_delivery_that_failed_half_way_is_acted_on_when_it_is_repeated(gitea):
    gitea.world.jobs.is_away = True
    failed = await gitea.send(gitea.push(), id="1")
    gitea.world.jobs.is_away = False
    again = await gitea.send(gitea.push(), id="1")

    assert [failed.status_code, again.status_code] == [503, 202]
    assert gitea.runs() == [(APP, DEFAULT_REF)]


async def test_an_unknown_event_is_answered_with_204(host):
    for event in ("ping", "issues", "", "pu\tsh"):
        response = await host.send({"zen": "Keep it logically awesome."}, event=event)

        assert response.status_code == 204, event
        assert host.world.jobs.sent == []


async def test_github_may_send_its_payload_as_a_form(tmp_path):
    async with sending(tmp_path, "github") as host:
        body = urlencode({"payload": json.dumps(host.push())}).encode()
        form = {"content-type": "application/x-www-form-urlencoded"}
        response = await host.send(body, **form)

        assert response.status_code == 202
        assert host.runs() == [(APP, DEFAULT_REF)]


async def test_a_delivery_that_is_not_signed_changes_nothing(host):
    for change in (
        {"secret": "a guess"},
        {"secret": ""},
        {"name": "other"},
        {"name": "work%2f"},
        {"authorization": "Bearer sesame", "secret": "a guess"},
    ):
        with capture_logs() as logs:
            response = await host.send(host.push(), **change)

        assert response.status_code in (401, 404), change  # 404: with a slash, it is another path
        assert host.world.jobs.sent == []
        assert SECRET not in response.text + repr(logs)


async def test_the_error_of_a_delivery_is_also_logged(gitea):
    with capture_logs() as logs:
        response = await gitea.send(gitea.push(), secret="guess")

    assert response.status_code == 401
    (line,) = [one for one in logs if one["event"] == "http"]
    assert "the signature of this delivery is wrong" in line["error"]


async def test_the_error_for_a_form_without_a_payload_says_what_to_send(gitea):
    form = {"content-type": "application/x-www-form-urlencoded"}
    response = await gitea.send(gitea.push(), **form)

    assert response.status_code == 400
    assert "let the host send JSON" in response.json()["detail"]


async def test_a_body_that_was_changed_on_the_way_is_refused(gitea):
    body = json.dumps(gitea.push()).encode()
    headers = {EVENT["gitea"]: "push", **signed("gitea", SECRET, body)}
    changed = body.replace(b"main", b"evil")
    response = await gitea.client.post("/webhooks/work", content=changed, headers=headers)

    assert response.status_code == 401
    assert gitea.world.jobs.sent == []


async def test_unknown_and_known_connections_are_refused_in_the_same_words(gitea):
    known = await gitea.send(gitea.push(), secret="wrong")
    unknown = await gitea.send(gitea.push(), name="nothing")

    told = [one.json() for one in (known, unknown)]
    for one in told:
        del one["request_id"]
    assert told[0] == told[1]


async def test_wrong_signatures_are_limited_but_right_ones_are_processed(tmp_path):
    async with sending(tmp_path, limited=True) as host:
        refused = [(await host.send(host.push(), secret="guess")).status_code for _ in range(40)]
        right = await host.send(host.push())

    assert set(refused) == {401, 429}
    assert right.status_code in (202, 429)


async def test_a_signed_body_that_is_not_an_event_is_refused_with_the_reason(gitea):
    for body in (b"", b"[]", b"\xff", b"{", b'{"ref": 7}', b'{"ref": null}', b"[" * 100_000, b"{}"):
        response = await gitea.send(body)

        assert response.status_code == 400, body[:9]
        assert "is not an event of gitea" in response.json()["detail"]


async def test_a_body_beyond_the_limit_is_refused(gitea):
    response = await gitea.send(b"x" * (webhooks.MAX_BYTES + 1))

    assert response.status_code == 413


async def test_a_body_that_never_ends_times_out(tmp_path, monkeypatch):
    monkeypatch.setattr(webhooks, "BODY_S", 0.2)
    async with serving(tmp_path) as (_, gateway), asyncio.timeout(60):
        answer = await answer_to_half_a_body(gateway, "/webhooks/work")

    assert answer.startswith("HTTP/1.1 504 ")
    assert "was not sent within 0.2 s" in answer


@asynccontextmanager
async def slow_bodies(host, number):
    """Begin deliveries from 127.0.0.1 that do not end while the block runs."""
    port = host.client.base_url.port
    streams = [await asyncio.open_connection("127.0.0.1", port) for _ in range(number)]
    try:
        for _, writer in streams:
            writer.write(b"POST /webhooks/any HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
            await writer.drain()
        async with asyncio.timeout(60):
            while (await host.send(host.push())).status_code != 429:
                pass  # the gateway has not begun to read all of them
        yield
    finally:
        for _, writer in streams:
            writer.close()


@pytest.mark.skipif(sys.platform != "linux", reason="needs another loopback address")
async def test_slow_bodies_from_one_address_do_not_keep_others_out(gitea, monkeypatch):
    monkeypatch.setattr(webhooks, "WAIT_S", 0.1)
    monkeypatch.setattr(webhooks, "BODY_S", 60.0)
    other = httpx.AsyncHTTPTransport(local_address="127.0.0.2")
    async with (
        httpx.AsyncClient(transport=other, base_url=gitea.client.base_url, timeout=60) as client,
        slow_bodies(gitea, webhooks.AT_ONCE),
    ):
        there = Sender(client, gitea.world, gitea.kind, gitea.sources)
        assert (await there.send(there.push())).status_code == 202
        refused = await gitea.send(gitea.push())

    assert refused.status_code == 429
    assert "4 deliveries from 127.0.0.1 are being read" in refused.json()["detail"]
    assert refused.headers["retry-after"] == "5"


async def test_a_delivery_waits_while_others_from_its_address_are_read(gitea, monkeypatch):
    monkeypatch.setattr(webhooks, "WAIT_S", 0.1)
    async with slow_bodies(gitea, webhooks.AT_ONCE_FROM_ADDRESS):
        monkeypatch.setattr(webhooks, "WAIT_S", 60.0)
        waiting = asyncio.create_task(gitea.send(gitea.push()))
        refused, _ = await asyncio.wait([waiting], timeout=0.3)
        assert not refused
    assert (await waiting).status_code == 202


async def test_other_methods_are_refused_with_a_hint(gitea):
    response = await gitea.client.get("/webhooks/work")

    assert response.status_code == 405
    assert "POST" in response.json()["detail"]


async def test_a_file_that_is_broken_leaves_the_last_one_in_force(gitea):
    assert (await gitea.send(gitea.push())).status_code == 202
    text = gitea.sources.read_text()
    gitea.sources.write_text("connections: {}\n")
    with capture_logs() as logs:
        still = await gitea.send(gitea.push())
    gitea.sources.write_text(text.replace("name: work", "name: moved"))
    moved = [(await gitea.send(gitea.push(), name=name)).status_code for name in ("work", "moved")]

    assert still.status_code == 202
    assert "sources_file_rejected" in [line["event"] for line in logs]
    assert moved == [401, 202]


async def test_a_secret_that_is_missing_refuses_and_is_logged(gitea, tmp_path):
    (tmp_path / "secret").unlink()
    with capture_logs() as logs:
        response = await gitea.send(gitea.push())

    assert response.status_code == 401
    (line,) = [one for one in logs if one["event"] == "webhook_secret_missing"]
    assert line["connection"] == "work"


async def test_a_delivery_is_in_the_audit_log(tmp_path):
    file = RotatedFile(tmp_path / "audit.log", 1_000_000, 1)
    written = AuditLog(file, reads=False, queries=False)
    async with sending(tmp_path, audit=written) as host:
        await host.send(host.push())
        await host.send(host.push(), secret="guess")
    await asyncio.to_thread(written.close)

    lines = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
    shown = [(one["principal"], one["call"], one["outcome"]) for one in lines]
    assert shown == [("webhook:work", "deliver", "ok"), ("", "deliver", "Unauthenticated")]
    assert lines[0]["repositories"] == [APP]


async def test_many_deliveries_at_once_start_one_run_after_the_other(gitea):
    answers = await asyncio.gather(*(gitea.send(gitea.push(), id=str(n)) for n in range(60)))

    statuses = {one.status_code for one in answers}
    assert statuses <= {202, 429}
    # One run is active, and one waits for all pushes after the first.
    active = gitea.world.ledger.recent(EVERYTHING, limit=100)
    assert 1 <= len([run for run in active if not run.state.is_over]) <= 2
