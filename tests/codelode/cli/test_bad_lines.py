"""No command line, however wrong, ends in a stack trace or an internal error."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from functools import cache

import click
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codelode.cli import main
from codelode.cli.command import codelode as group
from tests.contracts.test_faces import HTTP, Running
from tests.examples import examples

#: The commands that ask a gateway; the others start, stop, or rewrite a cluster, or open a browser.
COMMANDS = (
    *("search", "context", "similar", "explain", "graph", "index", "default", "repos", "failures"),
    *("retry", "enrich", "cancel", "label", "remove", "status", "settings"),
    *("keys create", "keys list", "keys revoke", "permissions list", "permissions sync"),
    *("sources check", "sources schema", "sources list", "sources sync"),
    *("scopes", "scopes check", "scopes schema"),
)
#: Options that wait for workers, which do not exist here.
WAITING = {"wait", "watch", "follow"}

VALUES = st.one_of(
    st.sampled_from(
        [
            *("acme/http", "main", "retry", "Client.get", *HTTP, "src/client.js:1", "x:0", "x:-1"),
            *("", " ", "-", "--", "-1", "0", "1", "201", "99999999999999999999", "nan", "1e999"),
            *("{", "[]", "null", "rank.reranker=judge", "a.b=c", "retrieve.window=x", "=", "."),
            *("/", "../..", "/etc/passwd", "https:/u:p@h/r", "-u", "ext::sh", "**/" * 99, "[", "é"),
            *("\udcff", "\u202e", "\n", "x" * 9_000),
        ]
    ),
    st.text(st.characters(exclude_characters="\0"), max_size=12),
)


def options(command):
    """Return a strategy for one option of the command with its values, or for one of none."""
    known = [
        (name, 0 if option.is_flag else option.nargs)
        for option in command.params
        if isinstance(option, click.Option) and option.name not in WAITING
        for name in (*option.opts, *option.secondary_opts)
    ]
    some = st.sampled_from([*known, ("--no-such-option", 1)])
    return some.flatmap(
        lambda one: st.lists(VALUES, min_size=one[1], max_size=one[1]).map(lambda v: [one[0], *v])
    )


@cache  # to build the strategy takes longer than to draw from it
def lines(command):
    """Return a strategy for the arguments of the command."""
    parts = st.one_of(VALUES.map(lambda value: [value]), options(command))
    return st.lists(parts, max_size=5).map(lambda some: [word for part in some for word in part])


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    running = Running(tmp_path_factory.mktemp("lines"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CODELODE_DATA", str(tmp_path_factory.mktemp("data")))
        patch.setenv("CODELODE_SERVER", running.address)
        yield running.address
    running.close()


@pytest.mark.usefixtures("address")
@pytest.mark.parametrize("name", COMMANDS)
@settings(max_examples=examples(40, short=15), suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_wrong_command_line_ends_with_a_plain_error(name, data):
    command: click.Command | None = group
    for word in name.split():
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), word)
    assert command is not None
    arguments = data.draw(lines(command))
    out, err = io.StringIO(), io.StringIO()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", io.StringIO("def retry(): ..."))
        with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
            main([*name.split(), *arguments])

    assert ended.value.code in (0, 1, 2)
    assert "Traceback" not in err.getvalue()
    assert "defect of codelode" not in err.getvalue()
    assert err.getvalue() or ended.value.code != 2
