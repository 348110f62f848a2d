"""Errors about a field of a request name the option or the argument that it came from."""

from __future__ import annotations

import click
import pytest

from codelode.cli.command import codelode as group
from codelode.cli.fields import in_own_terms, worded
from codelode.errors import InvalidQuery

NAMED = [
    (["search", "q", "--path", ""], "filters.paths", "--path"),
    (["search", "q"], "query", "QUERY"),
    (["search", "q"], "filters.not_paths", "--not-path"),
    (["search", "q"], "options.rank.window", "--set rank.window"),
    (["context", "q"], "options.assemble.budget_tokens", "--tokens (assemble.budget_tokens)"),
    (["similar", "a.py:1"], "filters.repositories", "--in"),
    (["similar", "a.py:1"], "repository", "--repo"),
    (["read", "a.py"], "repository", "--repo"),
    (["read", "a.py:9"], "path", "PATH"),
    (["read", "a.py:9"], "start_line", "FIRST"),
    (["read", "a.py:9-10"], "end_line", "LAST"),
    (["similar", "a.py:9"], "line", "LINE"),
    (["explain", "x"], "subject", "SUBJECT"),
    (["symbols", "x"], "name", "GLOB"),
    (["failures", "x"], "repository", "NAME"),
    (["index", "https://x/y"], "name", "--name"),
    (["index", "https://x/y"], "url", "URL_OR_PATH"),
    (["index", "https://x/y"], "include", "--include"),
    (["search", "q"], "page_token", "--page"),
    (["read", "a.py"], "page_token", "page_token"),
]


@pytest.mark.parametrize(
    ("args", "field", "shown"), NAMED, ids=[f"{args[0]} {field}" for args, field, _ in NAMED]
)
def test_an_invalid_field_is_named_as_the_command_names_it(
    served, gateway, codes, args, field, shown
):
    gateway.fail(codes.INVALID_ARGUMENT, "is wrong", field=field)
    answer = served(*args)

    assert (answer.status, answer.err) == (2, f"codelode: {shown}: is wrong\n")


def test_a_field_in_a_message_is_named_too(served, gateway, codes):
    told = "has a line break; allow `multiline`, or ask for a `literal` (see `codelode grep`)"
    gateway.fail(codes.INVALID_ARGUMENT, told, field="pattern")

    assert served("grep", "x").err == (
        "codelode: PATTERN: has a line break; allow --multiline, or ask for a --fixed-strings "
        "(see `codelode grep`)\n"
    )


def test_a_filter_in_a_notice_is_named_as_its_option():
    command = group.get_command(click.Context(group), "search")

    assert worded("filters.paths: 'x' matches nothing", command) == "--path: 'x' matches nothing"


def test_a_field_of_a_command_in_a_group_is_named_too():
    keys = group.get_command(click.Context(group), "keys")
    told = in_own_terms(InvalidQuery("repositories", "is wrong"), keys)

    assert str(told) == "--repos: is wrong"


def test_an_error_names_the_argument_that_it_is_about(served, gateway, codes):
    gateway.fail(codes.INVALID_ARGUMENT, "is taken", field="name")
    answer = served("index", "https://x/a", "https://x/b")

    assert answer.status == 2
    assert answer.err == (
        "codelode: https://x/a: --name: is taken\ncodelode: https://x/b: --name: is taken\n"
    )
