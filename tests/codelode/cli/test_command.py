"""The common behaviour of all commands: errors are one plain line, servers are found."""

from __future__ import annotations

import os
import subprocess
import sys

import click
import pytest

from codelode.cli import data_folder
from codelode.cli.command import SUBCOMMANDS
from codelode.cli.command import codelode as group
from codelode.cli.options import default_server
from codelode.cluster import Cluster
from codelode.model import Category, Kind
from codelode.v1 import index_pb2


@pytest.mark.parametrize("command", sorted(SUBCOMMANDS))
def test_every_command_explains_itself(codelode, command):
    answer = codelode(command, "--help")

    assert answer.status == 0
    assert answer.out.startswith(f"Usage: codelode {command}")


@pytest.mark.parametrize(
    "command",
    [
        *(
            "up",
            "index",
            "search",
            "context",
            "explain",
            "similar",
            "graph",
            "failures",
            "retry",
            "ls",
        ),
        *("eval", "reindex", "doctor", "backup", "restore"),
    ],
)
def test_every_command_of_importance_gives_examples_of_itself(codelode, command):
    assert f"Examples:\n    codelode {command}" in codelode(command, "--help").out


def made(command: str) -> click.Command:
    found = group.get_command(click.Context(group), command)
    assert found is not None
    return found


@pytest.mark.parametrize("command", sorted(SUBCOMMANDS))
def test_every_option_has_a_sentence_as_help(command):
    helps = {one.name: one.help for one in made(command).params if isinstance(one, click.Option)}

    assert [
        name for name, text in helps.items() if not text or text[0].islower() or text[-1] != "."
    ] == []


@pytest.mark.parametrize("command", sorted(SUBCOMMANDS))
def test_the_list_of_commands_has_the_first_sentence_of_each(command):
    first, *_ = (made(command).help or "").split("\n\n")

    assert SUBCOMMANDS[command].summary == " ".join(first.split())


@pytest.mark.parametrize(
    "name", [name for name in SUBCOMMANDS if isinstance(made(name), click.Group)]
)
def test_the_help_of_a_group_cuts_no_sentence_on_a_narrow_terminal(codelode, monkeypatch, name):
    monkeypatch.setenv("COLUMNS", "80")

    listed = codelode(name, "--help").out.partition("\nCommands:\n")[2]
    assert listed
    assert [line for line in listed.splitlines() if not line.endswith(".") or "..." in line] == []


def test_the_help_lists_every_command_under_its_section(codelode):
    listed = codelode("--help").out

    assert all(f"\n  {name} " in listed for name in SUBCOMMANDS)
    assert listed.index("Search:") < listed.index("Index:") < listed.index("Operate:")


def test_the_filters_name_every_kind_and_category(codelode):
    shown = codelode("search", "--help").out

    assert [one.value for one in (*Kind, *Category) if one.value not in shown] == []


#: Modules that only the server needs, or whose import takes longer than a search.
SERVER_LIBRARIES = (
    *("celery", "faiss", "git", "httpx", "mcp", "numpy", "ollama", "pydantic", "redis", "simsimd"),
    *(
        "sqlite3",
        "structlog",
        "tantivy",
        "tree_sitter",
        "weaviate",
        "codelode.backends",
        "codelode.settings",
    ),
    *("gateway", "workers"),
)


@pytest.mark.parametrize(
    ("commands", "too_much"),
    [
        ([["--version"], ["--help"]], (*SERVER_LIBRARIES, "grpc", "google.protobuf")),
        ([["search", "--help"], ["mcp", "--help"]], (*SERVER_LIBRARIES, "grpc")),
        ([["search", "retry"]], (*SERVER_LIBRARIES, "codelode.model")),
        (
            [
                *(["context", "retry"], ["similar", "a.py:1"], ["explain", "a.py"], ["repos"]),
                *(["status"], ["index", "https://x/y.git", "--wait"]),
            ],
            SERVER_LIBRARIES,
        ),
    ],
    ids=["version and help", "help of a command", "search", "others"],
)
def test_a_command_of_the_client_imports_nothing_of_the_server(
    gateway, tmp_path, commands, too_much
):
    script = (
        "import sys\n"
        "from codelode.cli import main\n"
        f"for arguments in {commands!r}:\n"
        "    try:\n"
        "        main(arguments)\n"
        "    except SystemExit as end:\n"
        "        assert not end.code, (arguments, end.code)\n"
        f"print([name for name in {too_much!r} if name in sys.modules], file=sys.stderr)\n"
    )
    environment = {**os.environ, "CODELODE_SERVER": gateway.address, "CODELODE_DATA": str(tmp_path)}

    ended = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert ended.stderr.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("search", "Return this many hits, 1 to 200."),
        ("similar", "Return this many hits, 1 to 200."),
        ("context", "Choose from this many hits, 1 to 200."),
        ("context", "Fit the text into this many tokens, 100 to 200,000."),
    ],
)
def test_the_help_of_an_option_states_its_bounds(codelode, command, says):
    assert says in " ".join(codelode(command, "--help").out.split())


def test_without_arguments_the_help_is_printed_as_it_is(codelode):
    answer = codelode()

    assert (answer.status, answer.out) == (2, "")
    assert answer.err == codelode("--help").out


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["search"], "Missing argument 'QUERY'"),
        (["serch"], "No such command 'serch'. Did you mean 'search'?"),
        (["frobnicate"], "No such command 'frobnicate'. (see "),
        (["search", "q", "--top-k", "many"], "'many' is not a valid integer"),
        (["search", "q", "--server", "nowhere"], "HOST:PORT"),
        (["search", "\udcff"], "not valid UTF-8"),
        (["index", "a", "b", "--name", "n"], "--name is the name of one repository"),
        (["up", "--port", "99999"], "99999"),
        (["failures", "--repo", "n"], "'--repo'. The repository is the argument NAME. (see "),
        (["failures", "--partail"], "'--partail'. Did you mean '--partial'? (see "),
        (["repos", "--repo", "n"], "No such option '--repo'. (see "),
    ],
)
def test_a_mistake_is_one_line_and_status_two(codelode, args, said):
    answer = codelode(*args)

    assert answer.status == 2
    assert said in answer.err
    assert answer.err.startswith("codelode: ")
    assert answer.err.count("\n") == 1


def test_a_wrong_setting_is_one_line_that_names_the_variable(codelode, monkeypatch):
    monkeypatch.setenv("CODELODE_WINDOW", "none")

    answer = codelode("doctor")

    assert answer.status == 2
    assert answer.err.startswith("codelode: CODELODE_WINDOW='none'")


def test_an_internal_error_is_also_reported_in_one_line(codelode, monkeypatch):
    @click.command()
    def broken() -> None:
        raise KeyError("x")

    monkeypatch.setitem(group.commands, "broken", broken)

    answer = codelode("broken")

    assert answer.status == 2
    assert answer.err.startswith("codelode: unexpected KeyError: 'x'")
    assert answer.err.count("\n") == 1


def test_ctrl_c_ends_with_130(codelode, monkeypatch):
    @click.command()
    def patient() -> None:
        raise KeyboardInterrupt

    monkeypatch.setitem(group.commands, "patient", patient)

    answer = codelode("patient")

    assert answer.status == 130
    assert "Traceback" not in answer.err


@pytest.mark.slow
@pytest.mark.parametrize(
    "args",
    [["search", "retry"], ["search", "retry", "--json"], ["repos"], ["--help"]],
    ids=lambda args: " ".join(args),
)
@pytest.mark.parametrize("are_both", [False, True], ids=["stdout", "stdout and stderr"])
def test_a_reader_that_stops_early_is_not_an_error(gateway, tmp_path, args, are_both):
    gateway.hits = gateway.hits * 10
    gateway.repositories = [index_pb2.Repository(name="acme/http")]
    environment = {**os.environ, "CODELODE_SERVER": gateway.address, "CODELODE_DATA": str(tmp_path)}
    reader, writer = os.pipe()
    os.close(reader)

    ended = subprocess.run(
        [sys.executable, "-m", "codelode", *args],
        stdout=writer,
        stderr=writer if are_both else subprocess.PIPE,
        env=environment,
        check=False,
        timeout=60,
    )
    os.close(writer)

    assert (ended.returncode, ended.stderr or b"") == (0, b"")


@pytest.mark.slow
def test_an_error_has_its_exit_status_even_if_its_output_is_not_read():
    reader, writer = os.pipe()
    os.close(reader)

    ended = subprocess.run(
        [sys.executable, "-m", "codelode", "serch"],
        stdout=writer,
        stderr=writer,
        check=False,
        timeout=60,
    )
    os.close(writer)

    assert ended.returncode == 2


@pytest.mark.slow
def test_head_of_a_long_answer_is_its_first_line_and_nothing_else(gateway, tmp_path):
    gateway.hits = gateway.hits * 10_000  # more than a pipe holds
    environment = {**os.environ, "CODELODE_SERVER": gateway.address, "CODELODE_DATA": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-m", "codelode", "search", "retry"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    ) as process:
        head = subprocess.run(
            ["head", "-1"], stdin=process.stdout, capture_output=True, check=True, timeout=60
        )
        process.stdout.close()
        _, err = process.communicate(timeout=60)

    assert head.stdout.startswith(b"acme/http src/retry.py:9-11")
    assert (process.returncode, err) == (0, b"")


def test_the_running_cluster_of_the_data_folder_is_the_default_server(monkeypatch, tmp_path):
    monkeypatch.setenv("CODELODE_DATA", str(tmp_path))
    assert default_server() == "127.0.0.1:50051"

    with data_folder.locked(tmp_path):
        data_folder.publish(
            Cluster(
                pid=os.getpid(),
                grpc="127.0.0.1:4711",
                flower="http://x",
                redis="redis://x",
                data=str(tmp_path),
            )
        )
        assert default_server() == "127.0.0.1:4711"

        monkeypatch.setenv("CODELODE_SERVER", "gateway:1")
        assert default_server() == "gateway:1"
