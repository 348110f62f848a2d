"""Git reads over ssh with the key of a connection, and only from hosts with pinned keys."""

from __future__ import annotations

import getpass
import os
import shlex
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from codelode.errors import Denied, InvalidSettings
from codelode.git_access import SshIdentity
from codelode.model import Repository, RepositoryName
from tests.waiting import wait_until
from workers.pull import git
from workers.pull.mirror import Mirrors
from workers.sources.credentials import GitCredentials

NAME = RepositoryName("team/lib")
KEYGEN = shutil.which("ssh-keygen")
SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        KEYGEN is None and not os.environ.get("CI"), reason="no ssh-keygen: install openssh-client"
    ),
]


def new_key(path: Path) -> tuple[str, str]:
    """Make a pair of keys, and return the private and the public one."""
    command = [KEYGEN, "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", path]
    subprocess.run(command, check=True)
    return path.read_text(), path.with_suffix(".pub").read_text().strip()


def said(*command: object) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_openssh_reads_the_key_and_the_hosts_and_no_file_remains(tmp_path):
    private, public = new_key(tmp_path / "key")
    identity = SshIdentity(private.strip(), f"h.example {public}")
    options = dict(one[2:].split("=", 1) for one in identity.options.split())
    key, hosts = options["IdentityFile"], options["UserKnownHostsFile"]

    assert said(KEYGEN, "-y", "-f", key).split()[:2] == public.split()[:2]
    assert public in said(KEYGEN, "-F", "h.example", "-f", hosts)
    assert "PRIVATE" not in repr(identity)
    del identity
    assert not Path(key).exists()


def asked_of_ssh(access: SshIdentity | None) -> dict[str, str]:
    """Return the options with which git would start ssh, as ssh itself understands them."""
    command = git.environment(protocols="ssh", access=access)["GIT_SSH_COMMAND"]
    lines = said(*shlex.split(command), "-G", "h.example").splitlines()
    return dict(line.split(" ", 1) for line in lines if " " in line)


def test_the_configuration_of_the_operator_changes_nothing_for_the_key_of_a_connection(
    tmp_path, key, monkeypatch
):
    (tmp_path / "config").write_text(
        f"ControlMaster auto\nControlPath {tmp_path}/shared\nControlPersist yes\n"
        "GlobalKnownHostsFile /elsewhere\nProxyJump other.example\n"
    )
    monkeypatch.setenv(
        "GIT_SSH_COMMAND",
        f"ssh -F {tmp_path}/config -oStrictHostKeyChecking=no -oUserKnownHostsFile=/elsewhere",
    )
    identity = SshIdentity(key[0], f"h.example {key[1]}")
    found = asked_of_ssh(identity)

    assert found["stricthostkeychecking"] in ("true", "yes")
    assert f"-oUserKnownHostsFile={found['userknownhostsfile']}" in identity.options.split()
    assert found["globalknownhostsfile"] == "/dev/null"
    assert found["controlmaster"] in ("false", "no")
    assert {"controlpath", "proxyjump"} & found.keys() == set()


def test_a_clone_without_credentials_shares_no_session(tmp_path, monkeypatch):
    config = tmp_path / "config"
    config.write_text(f"ControlMaster auto\nControlPath {tmp_path}/shared\nProxyJump other\n")
    monkeypatch.setenv("GIT_SSH_COMMAND", f"ssh -F {config}")
    found = asked_of_ssh(None)

    assert (found["controlmaster"] in ("false", "no"), "controlpath" in found) == (True, False)
    assert found["proxyjump"] == "other"


class Server:
    """An sshd that lets this user in with one key."""

    def __init__(self, folder: Path, public: str, *more: str) -> None:
        _, self.key = new_key(folder / "host")
        (folder / "authorized").write_text(f"{public}\n")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        lines = (
            *(f"Port {self.port}", "ListenAddress 127.0.0.1", f"HostKey {folder / 'host'}"),
            *(f"AuthorizedKeysFile {folder / 'authorized'}", "StrictModes no", "PidFile none"),
            *("PasswordAuthentication no", "KbdInteractiveAuthentication no"),
            *more,
        )
        (folder / "config").write_text("\n".join(lines) + "\n")
        if os.geteuid() == 0:  # where sshd was never started as a service
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        with (folder / "sshd.log").open("wb") as log:
            command = [SSHD, "-D", "-e", "-f", folder / "config"]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        wait_until(self._answers, "sshd to listen", give_up=self._ended)

    def line(self, key: str) -> str:
        """Return the line of known_hosts that gives the server a key."""
        return f"[127.0.0.1]:{self.port} {key}"

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(10)

    def _answers(self) -> bool:
        with socket.socket() as trying:
            return trying.connect_ex(("127.0.0.1", self.port)) == 0

    def _ended(self) -> str:
        return "" if self._process.poll() is None else "sshd has ended"


@pytest.fixture
def key(tmp_path):
    return new_key(tmp_path / "key")


@pytest.fixture
def serve(tmp_path, key):
    """Return a function that starts a server, with more lines of its configuration."""
    if SSHD is None:
        told = "no sshd: install openssh-server"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(told)
    made = []

    def started(*more: str) -> Server:
        made.append(Server(tmp_path, key[1], *more))
        return made[-1]

    yield started
    for one in made:
        one.stop()


@pytest.fixture
def server(serve):
    return serve()


@pytest.fixture
def repository(tmp_path, server):
    folder = tmp_path / "source"
    said("git", "init", "-q", "-b", "main", folder)
    commit(folder)
    return Repository(NAME, f"ssh://{getpass.getuser()}@127.0.0.1:{server.port}{folder}")


def commit(folder: Path) -> None:
    who = ("-c", "user.name=T", "-c", "user.email=t@host.example")
    said("git", "-C", folder, *who, "commit", "-q", "--allow-empty", "-m", "x")


@pytest.fixture
def mirrors(tmp_path, repository, key, server, monkeypatch):
    """Mirrors with the credentials of a sources file, and no ssh configuration of a user."""
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setenv("OF_LIB", key[0])
    declare(tmp_path, repository, server.line(server.key))
    credentials = GitCredentials(str(tmp_path / "sources.yaml"), lambda _, name: repository.url)
    return Mirrors(tmp_path / "mirrors", credentials=credentials)


def declare(folder: Path, repository: Repository, known_hosts: str) -> None:
    (folder / "sources.yaml").write_text(
        f"connections:\n- name: lib\n  kind: urls\n  urls: ['{repository.url}']\n"
        f"  ssh: {{private_key: {{env: OF_LIB}}, known_hosts: '{known_hosts}'}}\n"
    )


def test_a_repository_is_cloned_with_the_key_of_its_connection(mirrors, repository):
    mirrors.sync(repository)

    assert mirrors.resolve(NAME)[0] == "main"


def test_a_host_with_another_key_is_refused_with_a_remedy_and_the_mirror_stays(
    mirrors, repository, server, tmp_path
):
    mirrors.sync(repository)
    before = mirrors.resolve(NAME)
    commit(tmp_path / "source")
    _, other = new_key(tmp_path / "other")
    declare(tmp_path, repository, server.line(other))
    with pytest.raises(Denied, match="not the one in known_hosts"):
        mirrors.sync(repository)
    assert mirrors.resolve(NAME) == before

    declare(tmp_path, repository, f"h.example {server.key}")
    with pytest.raises(Denied, match="add the host to known_hosts"):
        mirrors.sync(repository)


def test_a_key_that_the_host_does_not_know_is_refused(mirrors, repository, tmp_path, monkeypatch):
    monkeypatch.setenv("OF_LIB", new_key(tmp_path / "other")[0])

    with pytest.raises(Denied, match="register its public key"):
        mirrors.sync(repository)


def test_an_unreadable_key_is_reported_before_ssh_runs(mirrors, repository, monkeypatch):
    monkeypatch.setenv("OF_LIB", "canary")

    with pytest.raises(InvalidSettings, match="has no credentials for this host") as raised:
        mirrors.sync(repository)
    assert "canary" not in str(raised.value)


def test_azure_is_asked_for_the_path_that_it_has_over_ssh(tmp_path, serve, key, monkeypatch):
    """The server maps the path that Azure shows to a repository, and knows no other one."""
    source, command = tmp_path / "source", tmp_path / "command"
    said("git", "init", "-q", "-b", "main", source)
    commit(source)
    shown = "git-upload-pack '/v3/acme/Web%20Shop/My%20App'"
    command.write_text(
        f'#!/bin/sh\n[ "$SSH_ORIGINAL_COMMAND" = "{shown}" ] && exec git-upload-pack {source}\n'
    )
    command.chmod(0o700)
    server = serve(f"ForceCommand {command}")
    monkeypatch.setenv("KEY", key[0])
    (tmp_path / "sources.yaml").write_text(
        "connections:\n- name: cloud\n  kind: azure\n  organisation: acme\n"
        "  token: {env: KEY}\n  repositories: {}\n  ssh:\n"
        f"    url: ssh://{getpass.getuser()}@127.0.0.1:{server.port}\n"
        f"    private_key: {{env: KEY}}\n    known_hosts: '{server.line(server.key)}'\n"
    )
    url = "https://dev.azure.com/acme/Web%20Shop/_git/My%20App"
    credentials = GitCredentials(str(tmp_path / "sources.yaml"), lambda *_: url)
    made = Mirrors(tmp_path / "mirrors", credentials=credentials)
    made.sync(Repository(NAME, url))

    assert made.resolve(NAME)[0] == "main"
