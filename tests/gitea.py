"""A real Gitea server, and the actions of its administrator."""

from __future__ import annotations

import base64
import os
import socket
import subprocess
from pathlib import Path

import httpx

from tests.guardian import GUARDIAN
from tests.ssh_keys import new_ssh_key
from tests.waiting import wait_until

SETTINGS = """
APP_NAME = tests
RUN_MODE = prod
WORK_PATH = {folder}
I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = {is_root}
[server]
HTTP_ADDR = 127.0.0.1
HTTP_PORT = {port}
ROOT_URL = http://127.0.0.1:{port}/
{ssh}
OFFLINE_MODE = true
{assets}
[database]
DB_TYPE = sqlite3
PATH = {folder}/gitea.db
[security]
INSTALL_LOCK = true
SECRET_KEY = of-the-tests
INTERNAL_TOKEN = {internal}
PASSWORD_HASH_ALGO = argon2$2$8192$1$50
[oauth2]
JWT_SECRET = {jwt}
[service]
DISABLE_REGISTRATION = true
[log]
LEVEL = Warn
[cron]
ENABLED = false
[indexer]
ISSUE_INDEXER_TYPE = db
[repository]
DEFAULT_BRANCH = main
[webhook]
ALLOWED_HOST_LIST = loopback
"""

PASSWORD = "a-password-of-the-tests"

#: Maximum number of attempts of a call that may be repeated.
ATTEMPTS = 5


class Gitea:
    """A server for one test, which can be stopped and started again at the same address."""

    def __init__(self, program: str, folder: Path, *, has_ssh: bool = False) -> None:
        self._program = program
        self._folder = folder
        self.ssh_port = _free_port() if has_ssh else 0
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._settings = folder / "app.ini"
        # If the program was built without its assets, they are beside it.
        beside = Path(program).parent
        self._settings.write_text(
            SETTINGS.format(
                folder=folder,
                port=self.port,
                ssh=self._ssh() if has_ssh else "DISABLE_SSH = true",
                is_root=str(os.geteuid() == 0).lower(),
                assets=f"STATIC_ROOT_PATH = {beside}" if (beside / "templates").is_dir() else "",
                internal=self._run("generate", "secret", "INTERNAL_TOKEN", is_set=False),
                jwt=self._run("generate", "secret", "JWT_SECRET", is_set=False),
            )
        )
        self._run("migrate")
        self.admin_token = self._user("root", "--admin")

    def _ssh(self):
        """Make the host key, and return the settings of the built-in ssh server."""
        private, public = new_ssh_key()
        (self._folder / "host").touch(0o600)
        (self._folder / "host").write_text(private)
        self.known_hosts = f"[127.0.0.1]:{self.ssh_port} {public}"
        return (
            f"START_SSH_SERVER = true\nBUILTIN_SSH_SERVER_USER = git\nSSH_DOMAIN = 127.0.0.1\n"
            f"SSH_LISTEN_HOST = 127.0.0.1\nSSH_LISTEN_PORT = {self.ssh_port}\n"
            f"SSH_PORT = {self.ssh_port}\nSSH_SERVER_HOST_KEYS = {self._folder / 'host'}"
        )

    def start(self):
        with (self._folder / "log").open("ab") as log:
            self._process = GUARDIAN.popen(
                self._command("web"), stdout=log, stderr=log, env=self._environment()
            )
        wait_until(self._is_ready, f"Gitea ({self._folder}/log) to be ready")

    def allow_pages(self, *, of):
        """Set how many rows the server returns per page, from its next start on."""
        with self._settings.open("a") as settings:
            settings.write(f"[api]\nMAX_RESPONSE_ITEMS = {of}\n")

    def stop(self):
        self._process.terminate()
        self._process.wait(30)

    def call(self, method, path, *, sudo="", **body):
        """Return the answer to a call of the administrator, or of another user with `sudo`.

        On a busy machine, the server has answered PATCH with 500, so calls that may be repeated
        are.
        """
        for _ in range(1 if method == "POST" else ATTEMPTS):
            answer = httpx.request(
                method,
                f"{self.url}/api/v1{path}",
                headers={
                    "Authorization": f"token {self.admin_token}",
                    **({"Sudo": sudo} if sudo else {}),
                },
                json=body or None,
                trust_env=False,
                timeout=60,
            )
            if answer.status_code < 500:
                break
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def user(self, name, email="", **fields):
        """Create a user and return its id."""
        email = email or f"{name}@example.org"
        given = {"username": name, "email": email, "password": PASSWORD}
        found = self.call("POST", "/admin/users", **given, must_change_password=False)
        if fields:
            self.call("PATCH", f"/admin/users/{name}", login_name=name, source_id=0, **fields)
        return str(found["id"])

    def repository(self, name, *, private=True, content="def draw():\n    return 1\n"):
        """Create a repository of an organisation, with one file; return its clone URL."""
        owner, _, short = name.partition("/")
        path = f"/orgs/{owner}/repos"
        made = self.call("POST", path, name=short, private=private, auto_init=True)
        self.write(name, "draw.py", content)
        return made["clone_url"]

    def write(self, repository, path, content):
        """Add a file to the default branch."""
        encoded = base64.b64encode(content.encode()).decode()
        path = f"/repos/{repository}/contents/{path}"
        self.call("POST", path, content=encoded, message="add")

    def team(self, organisation, name, *, units=("repo.code",), repositories=(), members=()):
        """Create a team with read access, and return its id."""
        made = self.call(
            "POST", f"/orgs/{organisation}/teams", name=name, permission="read", units=list(units)
        )
        for repository in repositories:
            self.call("PUT", f"/teams/{made['id']}/repos/{repository}")
        for member in members:
            self.call("PUT", f"/teams/{made['id']}/members/{member}")
        return made["id"]

    def webhook(self, organisation, url, secret):
        """Send the events of an organisation to a URL."""
        config = {"url": url, "content_type": "json", "secret": secret}
        path = f"/orgs/{organisation}/hooks"
        events = ["push", "delete", "repository"]
        self.call("POST", path, type="gitea", config=config, events=events, active=True)

    def token_of(self, user):
        """Return a token with all rights of the user."""
        scopes = ("--scopes", "all", "--raw")
        name = ("--token-name", f"t{os.urandom(4).hex()}")
        return self._run("admin", "user", "generate-access-token", "-u", user, *name, *scopes)

    def _user(self, name, *options):
        given = ("--username", name, "--email", f"{name}@example.org", "--password", PASSWORD)
        self._run("admin", "user", "create", *given, "--must-change-password=false", *options)
        return self.token_of(name)

    def _run(self, *arguments, is_set=True):
        command = self._command(*arguments) if is_set else [self._program, *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=self._environment()
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip().splitlines()[-1] if done.stdout.strip() else ""

    def _command(self, *arguments):
        return [self._program, "--config", str(self._settings), *arguments]

    def _environment(self):
        own = {"HOME": str(self._folder), "GITEA_WORK_DIR": str(self._folder), "USER": "root"}
        return {**os.environ, **own}

    def _is_ready(self):
        try:
            return httpx.get(f"{self.url}/api/healthz", trust_env=False).status_code == 200
        except httpx.TransportError:
            return False


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
