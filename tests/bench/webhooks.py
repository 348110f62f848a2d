"""Time webhooks of a real Gitea: the answer to a delivery, and a push until it is searchable.

    python tests/bench/webhooks.py [--pushes N] [--files N] [--json FILE]

The cluster follows an organisation. A push changes ten files of a repository of 200. This program
sends its webhook, signed as Gitea does, and measures the time from then to the answer, and to the
first search that finds a word of the last file. For other deliveries, which start a run or nothing,
only the time to the answer is measured. All of this is measured on an idle cluster, and while a
large repository is indexed. At the end, Gitea itself sends the webhooks, with a delay, and pushes
are timed from the end of `git push`.
"""

from __future__ import annotations

import argparse
import hashlib
import hmac
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import quote

import httpx
from embedded import machine, running
from fairness import commit, git
from interactive import BACKFILL, FILES, LEAD, POLL_S, PUSHED, large, text

from codelode.client import Client
from codelode.cluster import running_cluster
from codelode.model import RunState
from tests.gitea import PASSWORD, Gitea

PUSHES, DELIVERIES = 20, 200
LIMIT_S = 300.0
SECRET = "a-secret-of-the-measurement"
REPOSITORY = "acme/small"
SERVICES = Path(__file__).resolve().parents[2] / "deploy" / "services.sh"


class Sender:
    """Sends deliveries of pushes to the repository, as the host does, and times the answers."""

    def __init__(self, http: str, gitea: Gitea) -> None:
        self._client = httpx.Client(base_url=http, trust_env=False, timeout=60)
        url = f"{gitea.url}/{REPOSITORY}"
        place = {"full_name": REPOSITORY, "html_url": url, "clone_url": f"{url}.git"}
        self._event = {"before": "1" * 40, "after": "2" * 40, "repository": place}
        self._number = 0

    def answer_s(self, ref: str) -> float:
        """Return the time until a delivery is answered, seconds."""
        self._number += 1
        body = json.dumps({"ref": ref, **self._event}).encode()
        headers = {
            "x-gitea-event": "push",
            "x-gitea-delivery": f"measured-{self._number}",
            "x-gitea-signature": hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest(),
        }
        began = time.monotonic()
        answer = self._client.post("/webhooks/work", content=body, headers=headers)
        took_s = time.monotonic() - began
        assert answer.status_code in (202, 204), answer.text
        return took_s


def push_s(client: Client, sender: Sender | None, folder: Path, word: str) -> float:
    """Push ten changed files; return the time until the last of them is found, seconds.

    `sender`: None if the host sends the webhook.
    """
    for at in range(PUSHED):
        (folder / f"src/{at}.py").write_text(text(f"{word}x{at}"))
    git(folder, "commit", "--quiet", "--all", "--message=x")
    git(folder, "push", "--quiet", "origin", "main")
    began = time.monotonic()
    if sender:
        sender.answer_s("refs/heads/main")
    return until_found(client, f"task_{word}x{PUSHED - 1}", began)


def until_found(client: Client, word: str, began: float) -> float:
    while time.monotonic() - began < LIMIT_S:
        if any(word in hit.content for hit in client.search(word, repositories=[REPOSITORY]).hits):
            return time.monotonic() - began
        time.sleep(POLL_S)
    raise SystemExit(f"{word} was not found within {LIMIT_S:.0f} s")


def quantile_s(of: Sequence[float], part: float) -> float:
    return sorted(of)[min(len(of) - 1, int(part * len(of)))]


def shown(what: str, of: Sequence[float]) -> dict[str, float]:
    """Print a row, and return its figures in seconds."""
    figures = {"p50": statistics.median(of), "p95": quantile_s(of, 0.95), "most": max(of)}
    times = (f"{name} {seconds * 1000:7.0f} ms" for name, seconds in figures.items())
    print(what.ljust(40), *times, flush=True)
    return {name: round(seconds, 4) for name, seconds in figures.items()}


def measured(
    client: Client, sender: Sender, folder: Path, pushes: int, word: str
) -> dict[str, dict[str, float]]:
    found = [push_s(client, sender, folder, f"{word}{at}") for at in range(pushes)]
    answers = {
        "a run": [sender.answer_s("refs/heads/main") for _ in range(DELIVERIES)],
        "nothing": [sender.answer_s("refs/heads/other") for _ in range(DELIVERIES)],
    }
    rows = {f"{word}: webhook to first hit": found}
    rows |= {f"{word}: delivery that asks for {what}": of for what, of in answers.items()}
    return {name: shown(name, of) for name, of in rows.items()}


def repository(gitea: Gitea, folder: Path) -> Path:
    """Create the repository on the host, and return a clone of it."""
    folder.mkdir()
    commit(folder, {f"src/{at}.py": text(f"first_{at}") for at in range(FILES)})
    gitea.call("POST", "/orgs/acme/repos", name=REPOSITORY.partition("/")[2], private=True)
    own = gitea.url.replace("://", f"://root:{quote(PASSWORD)}@")
    git(folder, "remote", "add", "origin", f"{own}/{REPOSITORY}.git")
    git(folder, "push", "--quiet", "origin", "main")
    return folder


def declared(gitea: Gitea, folder: Path) -> Path:
    """Write the sources file and its secrets."""
    (folder / "token").write_text(gitea.admin_token)
    (folder / "secret").write_text(SECRET)
    path = folder / "sources.yaml"
    path.write_text(
        f"connections:\n- name: work\n  kind: gitea\n  url: {gitea.url}\n  organisation: acme\n"
        f"  token: {{file: {folder / 'token'}}}\n  repositories: {{}}\n"
        f"  webhook_secret: {{file: {folder / 'secret'}}}\n"
    )
    return path


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    arguments.add_argument("--files", type=int, default=BACKFILL, help="of the large repository")
    arguments.add_argument("--pushes", type=int, default=PUSHES)
    arguments.add_argument("--json", type=Path, help="write the figures to this file")
    given = arguments.parse_args()
    program = subprocess.check_output([SERVICES, "binary", "gitea"], text=True).strip()
    with tempfile.TemporaryDirectory() as place:
        scratch = Path(place)
        (scratch / "gitea").mkdir()
        gitea = Gitea(program, scratch / "gitea")
        gitea.start()
        try:
            figures = against(gitea, scratch, given.files, given.pushes)
        finally:
            gitea.stop()
    if given.json:
        given.json.write_text(json.dumps({**machine(), **figures}, indent=2) + "\n")


def against(gitea: Gitea, scratch: Path, files: int, pushes: int) -> dict[str, object]:
    gitea.call("POST", "/orgs", username="acme", visibility="private")
    folder, code = repository(gitea, scratch / "small"), large(scratch / "large", files)
    path = declared(gitea, scratch)
    with running(scratch / "data", sources=str(path)) as cluster:
        facts, client = running_cluster(cluster.data), Client(cluster.address)
        assert facts is not None
        assert facts.http is not None
        wait(lambda: any(one.state is RunState.COMPLETE for one in client.status().runs))
        sender = Sender(facts.http, gitea)
        push_s(client, sender, folder, "warm")
        rows = measured(client, sender, folder, pushes, "idle")
        run = client.index(str(code), name="large", wait=False)
        for seen in client.watch(run):
            if seen.done >= LEAD:
                break
        rows |= measured(client, sender, folder, pushes, "busy")
        now = next(iter(client.watch(run)))
        print(f"the large repository had {now.done} of {now.total} files at the end")
        client.cancel(run)
        gitea.webhook("acme", f"{facts.http}/webhooks/work", SECRET)
        name = "idle: push to first hit, by Gitea"
        rows[name] = shown(name, [push_s(client, None, folder, f"own{at}") for at in range(pushes)])
    return {"seconds": rows, "large": [now.done, now.total]}


def wait(is_so: Callable[[], bool]) -> None:
    began = time.monotonic()
    while not is_so():
        if time.monotonic() - began > LIMIT_S:
            raise SystemExit("the organisation was not indexed in time")
        time.sleep(POLL_S)


if __name__ == "__main__":
    main()
