"""`codelode mcp install` and `uninstall` change the files of agents in a temporary home."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from codelode.operations.agents import AGENTS, applied, installation, removal

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="names the folders of Linux")

CODEX = """\
# my settings
model = "o9"  # the good one

[mcp_servers.docs]
command = "docs"   # mine
args = [
  "serve",  # why
]

# the last word
[tui]
notifications = true
"""

VS_CODE = """\
{
    // what the team uses
    "inputs": [ { "id": "key", "password": true } ],
    "servers": {
        "docs": { "type": "http", "url": "https://x/[y]//z" } // keep
        /* and that is all */
    }
}
"""

#: Contents of files that agents and people write.
JSON_FILES = {
    "empty": "",
    "an empty object": "{}",
    "an empty section": '{\n  "mcpServers": {}\n}\n',
    "a section with a comment": '{\n  "mcpServers": {\n    // none yet\n  }\n}\n',
    "other settings": '{\n  "theme": "dark",\n  "n": [1,2,\n 3]\n}',
    "another server": '{\n\t"mcpServers": {\n\t\t"a": {\n\t\t\t"command": "a"\n\t\t}\n\t}\n}\n',
    "one line": '{"mcpServers":{"a":{"command":"a"}},"x":1}',
    "line ends of Windows": '{\r\n  "mcpServers": {\r\n    "a": {"command": "a"}\r\n  }\r\n}\r\n',
    "a comment after the last": '{\n  "mcpServers": {\n    "a": {} // why\n  } // so\n}\n',
    "not only ASCII": '{\n  "näme": "→ 文",\n  "mcpServers": {"é": {"command": "ü"}}\n}\n',
}


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home without agents, from which the command line runs too."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    for name in ("CODEX_HOME", "CLAUDE_CONFIG_DIR", "CODELODE_SERVER", "CODELODE_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(folder)
    return folder


def changed(agent, path, text, records, entry=None):
    """Return the text of a file after an installation; None: the file did not exist before."""
    if text is not None:
        path.write_bytes(text.encode())
    made = {"command": "codelode", "args": ["mcp"]} if entry is None else entry
    applied(installation(AGENTS[agent], path, made, records=records), records=records)
    return path.read_bytes().decode()


def is_kept(text, within):
    """Return whether the other text has all non-blank characters of this one in order."""
    rest = iter(within)
    return all(char in rest for char in "".join(text.split()))


@pytest.mark.parametrize("text", JSON_FILES.values(), ids=JSON_FILES.keys())
def test_an_entry_is_added_to_what_is_there_and_removed_without_a_trace(tmp_path, text):
    path, records = tmp_path / "mcp.json", tmp_path / "records"

    after = changed("cursor", path, text, records)

    assert is_kept(text, after)
    plain = after.replace("// none yet", "").replace("// why", "").replace("// so", "")
    assert json.loads(plain)["mcpServers"]["codelode"] == {"command": "codelode", "args": ["mcp"]}

    applied(removal(AGENTS["cursor"], path, records=records), records=records)
    assert path.read_bytes().decode() == text
    assert list(records.iterdir()) == []


@pytest.mark.parametrize("text", JSON_FILES.values(), ids=JSON_FILES.keys())
def test_without_the_record_only_the_entry_is_removed(tmp_path, text):
    path, records, none = tmp_path / "mcp.json", tmp_path / "records", tmp_path / "none"
    changed("cursor", path, text, records)

    applied(removal(AGENTS["cursor"], path, records=none), records=none)

    left = path.read_text()
    assert "codelode" not in left
    assert is_kept(text, left)


def test_comments_in_json_and_the_form_of_the_file_stay(tmp_path):
    after = changed("vscode", tmp_path / "mcp.json", VS_CODE, tmp_path / "records")

    assert after == VS_CODE.replace("} // keep", "}, // keep").replace(
        "all */\n",
        "all */\n"
        '        "codelode": {\n'
        '            "command": "codelode",\n'
        '            "args": [\n'
        '                "mcp"\n'
        "            ]\n"
        "        }\n",
    )


def test_comments_in_toml_stay(tmp_path):
    path, records = tmp_path / "config.toml", tmp_path / "records"
    entry = {"command": "/x/codelode", "args": ["mcp"], "env": {"CODELODE_DATA": "/d"}}

    after = changed("codex", path, CODEX, records, entry)

    assert after == CODEX + (
        "\n[mcp_servers.codelode]\n"
        'command = "/x/codelode"\n'
        'args = ["mcp"]\n'
        'env = { "CODELODE_DATA" = "/d" }\n'
    )
    assert tomllib.loads(after)["mcp_servers"]["codelode"] == entry


@pytest.mark.parametrize("text", ["", 'model = "x"', CODEX, CODEX.replace("\n", "\r\n")])
def test_a_toml_file_is_restored_with_and_without_the_record(tmp_path, text):
    path, records = tmp_path / "config.toml", tmp_path / "records"

    changed("codex", path, text, records)
    applied(removal(AGENTS["codex"], path, records=tmp_path / "none"), records=records)
    assert tomllib.loads(path.read_text()) == tomllib.loads(text)
    assert is_kept(text, path.read_text())

    changed("codex", path, text, records)
    applied(removal(AGENTS["codex"], path, records=records), records=records)
    assert path.read_bytes().decode() == text


def test_a_table_in_the_middle_is_removed_with_its_subtables_only(tmp_path):
    path, records = tmp_path / "config.toml", tmp_path / "records"
    own = '[mcp_servers.codelode]\ncommand = "c"\n\n[mcp_servers.codelode.env]\nA = "b"\n\n'
    path.write_text(CODEX.replace("# the last word", f"{own}# the last word"))

    applied(removal(AGENTS["codex"], path, records=records), records=records)

    assert tomllib.loads(path.read_text()) == tomllib.loads(CODEX)
    assert "# the last word\n[tui]" in path.read_text()


def test_an_entry_that_is_there_is_replaced_and_undoing_restores_the_first_text(tmp_path):
    path, records = tmp_path / "mcp.json", tmp_path / "records"
    text = JSON_FILES["another server"]
    changed("cursor", path, text, records)

    after = changed("cursor", path, None, records, {"command": "other", "args": []})

    assert json.loads(after)["mcpServers"]["codelode"]["command"] == "other"
    assert after.count("codelode") == 1
    applied(removal(AGENTS["cursor"], path, records=records), records=records)
    assert path.read_text() == text


def test_a_later_change_of_the_file_is_kept_when_the_entry_is_removed(tmp_path):
    path, records = tmp_path / "mcp.json", tmp_path / "records"
    after = changed("cursor", path, JSON_FILES["another server"], records)
    path.write_text(after.replace('"a": {', '"b": {}, "a": {'))

    applied(removal(AGENTS["cursor"], path, records=records), records=records)

    assert json.loads(path.read_text()) == {"mcpServers": {"a": {"command": "a"}, "b": {}}}


def test_the_rights_of_a_file_and_a_link_to_it_stay(tmp_path):
    real, records = tmp_path / "dotfiles.json", tmp_path / "records"
    real.write_text("{}")
    real.chmod(0o640)
    link = tmp_path / "mcp.json"
    link.symlink_to(real)

    changed("cursor", link, None, records)

    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert "codelode" in real.read_text()
    assert [one.stat().st_mode & 0o777 for one in records.iterdir()] == [0o600]


# The commands


@pytest.mark.parametrize("agent", AGENTS)
def test_every_agent_is_configured_and_its_new_file_is_removed_on_undo(
    codelode, home, agent, monkeypatch
):
    told = codelode("mcp", "install", agent, "--yes")
    path = AGENTS[agent].file(None)
    assert path.is_relative_to(home)

    assert told.status == 0, told.err
    assert f"+++ {path}" in told.out
    values = AGENTS[agent].form.read(path.read_text())
    entry = values[AGENTS[agent].section]["codelode"]
    assert entry["command"] == str(Path(sys.executable).with_name("codelode"))
    assert entry["args"] == ["mcp"]
    assert entry["env"] == {"CODELODE_DATA": os.environ["CODELODE_DATA"]}
    assert codelode("mcp", "install", agent).err == f"{path} already has this entry\n"
    assert f"{agent} " in codelode("mcp", "install", "--list").out

    monkeypatch.setenv("CODELODE_DATA", str(home / "another cluster"))
    assert codelode("mcp", "uninstall", agent, "--yes").status == 0
    assert not path.exists()


@pytest.mark.slow
def test_the_command_written_to_the_configuration_starts_a_server(codelode, home, gateway):
    codelode("mcp", "--server", gateway.address, "install", "cursor", "--yes")
    entry = json.loads((home / ".cursor/mcp.json").read_text())["mcpServers"]["codelode"]
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}}
    hello["clientInfo"] = {"name": "test", "version": "1"}
    begin = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}

    ended = subprocess.run(
        [entry["command"], *entry["args"]],
        env={"PATH": os.defpath, **entry["env"]},
        input=f"{json.dumps(begin)}\n",
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert json.loads(ended.stdout.splitlines()[0])["result"]["serverInfo"]["name"] == "codelode"
    assert entry["args"] == ["mcp", "--server", gateway.address]


def test_the_list_shows_which_agents_use_codelode(codelode, home):
    codelode("mcp", "install", "gemini", "--yes")

    lines = codelode("mcp", "install", "--list").out.splitlines()

    states = {line.split()[0]: line.split()[1] for line in lines[1:]}
    assert states == {name: "yes" if name == "gemini" else "no" for name in AGENTS}


def test_the_list_names_a_file_that_is_broken(codelode, home):
    (home / ".cursor").mkdir()
    (home / ".cursor/mcp.json").write_text("{")

    assert "cursor          broken    " in codelode("mcp", "install", "--list").out


def test_the_project_option_writes_to_the_current_folder(codelode, home):
    codelode("mcp", "install", "claude-code", "--project", "--yes")

    assert "codelode" in json.loads((home / ".mcp.json").read_text())["mcpServers"]
    assert not (home / ".claude.json").exists()


def test_a_moved_home_of_an_agent_is_found(codelode, home, monkeypatch):
    monkeypatch.setenv("CODEX_HOME", str(home / "elsewhere"))

    codelode("mcp", "install", "codex", "--yes")

    assert "mcp_servers" in (home / "elsewhere/config.toml").read_text()


def test_no_token_is_written_and_a_note_says_so(codelode, home, monkeypatch):
    monkeypatch.setenv("CODELODE_TOKEN", "secret-of-mine")
    monkeypatch.setenv("CODELODE_TOKEN_FILE", "/x/token")

    told = codelode("mcp", "install", "cursor", "--yes")

    assert "CODELODE_TOKEN is not written" in told.err
    text = (home / ".cursor/mcp.json").read_text()
    assert "secret-of-mine" not in text + told.out
    assert json.loads(text)["mcpServers"]["codelode"]["env"]["CODELODE_TOKEN_FILE"] == "/x/token"


HTTP_ENTRIES = {
    "claude-code": {
        "type": "http",
        "url": "https://x/mcp",
        "headers": {"Authorization": "Bearer ${CODELODE_TOKEN}"},
    },
    "codex": {"url": "https://x/mcp", "bearer_token_env_var": "CODELODE_TOKEN"},
    "cursor": {
        "url": "https://x/mcp",
        "headers": {"Authorization": "Bearer ${env:CODELODE_TOKEN}"},
    },
    "gemini": {
        "httpUrl": "https://x/mcp",
        "headers": {"Authorization": "Bearer ${CODELODE_TOKEN}"},
    },
    "vscode": {
        "type": "http",
        "url": "https://x/mcp",
        "headers": {"Authorization": "Bearer ${env:CODELODE_TOKEN}"},
    },
    "windsurf": {
        "serverUrl": "https://x/mcp",
        "headers": {"Authorization": "Bearer ${env:CODELODE_TOKEN}"},
    },
}


@pytest.mark.parametrize("agent", HTTP_ENTRIES)
def test_an_agent_is_told_the_url_and_the_variable_with_the_token(
    codelode, home, agent, monkeypatch
):
    path, form = AGENTS[agent].file(None), AGENTS[agent].form
    told = codelode("mcp", "install", agent, "--http", "http://127.0.0.1:50080/", "--yes")
    without = form.read(path.read_text())[AGENTS[agent].section]["codelode"]
    monkeypatch.setenv("CODELODE_TOKEN", "secret-of-mine")
    codelode("mcp", "install", agent, "--http", "https://x", "--yes")
    text = path.read_text()

    assert told.status == 0, told.err
    assert "http://127.0.0.1:50080/mcp" in without.values()
    assert not {"headers", "bearer_token_env_var"} & without.keys()
    assert form.read(text)[AGENTS[agent].section]["codelode"] == HTTP_ENTRIES[agent]
    assert "secret-of-mine" not in text

    assert codelode("mcp", "uninstall", agent, "--yes").status == 0
    assert not path.exists()


BROKEN = {
    "broken JSON": (
        "cursor",
        '{\n  "mcpServers": {\n    "a": \n}\n',
        "is not valid JSON: see line",
    ),
    "a list": ("cursor", "[]", "is not a JSON object"),
    "a section that is not an object": ("cursor", '{"mcpServers": []}', "is not a JSON object"),
    "broken TOML": ("codex", "model = \n", "is not valid TOML: "),
    "a table on one line": ("codex", "mcp_servers = { a = { command = 'a' } }\n", "edit `mcp_serv"),
    "not UTF-8": ("cursor", "{\udcff}", "cannot read"),
}


@pytest.mark.parametrize(("agent", "text", "says"), BROKEN.values(), ids=BROKEN.keys())
def test_a_file_that_cannot_be_changed_safely_is_not_changed(codelode, home, agent, text, says):
    path = AGENTS[agent].file(None)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text.encode(errors="surrogateescape"))

    told = codelode("mcp", "install", agent, "--yes")

    assert told.status == 2
    assert str(path) in told.err
    assert says in told.err
    assert told.err.count("\n") == 1
    assert path.read_bytes() == text.encode(errors="surrogateescape")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["install"], "name an agent: claude-code, "),
        (["install", "emacs"], "there is no agent 'emacs': claude-code, "),
        (["install", "windsurf", "--project"], "Windsurf has no file for a project"),
        (["install", "cursor"], "there is no terminal to confirm on; give --yes"),
        (["uninstall", "cursor"], "Cursor does not use codelode"),
        (["install", "claude-desktop", "--http", "https://x"], "only starts commands"),
        (["install", "cursor", "--http", "http://x"], "give https://HOST:PORT"),
        (["install", "cursor", "--http", "x:50080"], "give https://HOST:PORT"),
        (["--server", "x:1", "install", "cursor", "--http", "https://x"], "not both"),
    ],
)
def test_a_mistake_is_one_line_with_its_remedy(codelode, home, args, says):
    told = codelode("mcp", *args)

    assert told.status == 2
    assert says in told.err
    assert told.err.count("\n") == 1
    assert list(home.iterdir()) == []
