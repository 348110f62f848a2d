"""Users' queries replace built-in ones; if one fails, the built-in one is used."""

import os
import signal

import pytest

from codelode.model import HealthStatus
from tests import own_query
from workers.parse import own_queries, parse

CODE = b'route("/users", list_users)\ndef f():\n    pass\n'
ROUTES = own_query.ROUTES.encode()


def queries(source, name="python.scm", origin=".codelode/queries/"):
    return own_queries.load([(name, source)], origin=origin)


def names(own):
    return [symbol.name for symbol in parse(CODE, path="a.py", own=own).symbols]


def test_a_users_query_replaces_the_built_in_one():
    assert names(own_queries.NONE) == ["f"]
    assert names(queries(ROUTES)) == ["/users"]


def test_a_users_query_can_extend_the_built_in_one():
    assert names(queries(b"; inherits: python\n" + ROUTES)) == ["/users", "f"]


def test_a_query_for_another_language_changes_nothing():
    assert names(queries(ROUTES, name="ruby.scm")) == ["f"]


SLOW = b"((module (_)* @a (_)* @b (_)* @c (_)* @d (_)* @e (_)* @f (_)* @name) @definition.class)"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        pytest.param(b"(no_such_node) @name", "it does not compile: Invalid node type", id="node"),
        pytest.param(b"((identifier) @name", "it does not compile: Unexpected EOF", id="syntax"),
        pytest.param(b"\xff\xfe", "it does not compile", id="no text"),
        pytest.param(b"(module) @definition.x", "there is no @definition.x", id="kind"),
        pytest.param(b"; x\n" * 20_000, "it is larger than 64000 bytes", id="large"),
    ],
)  # fmt: skip
def test_a_query_that_fails_is_reported_and_the_built_in_one_is_used(source, reason):
    parsed = parse(CODE, path="a.py", own=queries(source))
    assert [symbol.name for symbol in parsed.symbols] == ["f"]
    assert parsed.health.status is HealthStatus.OK
    assert parsed.health.detail.startswith(f".codelode/queries/python.scm: {reason}")
    assert parsed.health.detail.endswith("; the built-in query was used")


def test_a_query_that_takes_too_long_is_aborted(monkeypatch):
    monkeypatch.setattr(own_queries, "MAX_QUERY_S", 0.05)
    data = CODE + b"x = [1, 2, 3]\n" * 3_000
    parsed = parse(data, path="a.py", own=queries(SLOW))
    assert "f" in [symbol.name for symbol in parsed.symbols]
    assert "it takes longer than 0.05 s" in parsed.health.detail


@pytest.mark.slow
def test_a_query_that_takes_too_long_twice_is_switched_off_for_its_repository(monkeypatch):
    monkeypatch.setattr(own_queries, "MAX_QUERY_S", 0.05)
    data = CODE + b"x = [1, 2, 3]\n" * 3_000
    files = [("python.scm", SLOW + b"; of this test")]
    mine = own_queries.of_repository(files, operators={}, name="acme/slow")
    details = [parse(data, path="a.py", own=mine).health.detail for _ in range(3)]
    assert "it takes longer than 0.05 s" in details[1]
    assert details[2].startswith(
        ".codelode/queries/python.scm: it took longer than 0.05 s 2 times, so it is switched off"
    )
    assert "switched off" in parse(b"x = 1\n", path="b.py", own=mine).health.detail
    other = own_queries.of_repository(files, operators={}, name="acme/other")
    assert "switched off" not in parse(b"x = 1\n", path="b.py", own=other).health.detail


def test_a_query_works_in_a_file_of_many_lines():
    body = "".join(f"    step_{line} = path.read({line})\n" for line in range(500))
    parsed = parse(CODE + f"def g():\n{body}".encode(), path="a.py", own=queries(ROUTES))
    assert [symbol.name for symbol in parsed.symbols] == ["/users"]
    assert not parsed.health.detail


def test_a_query_that_crashes_is_given_up(monkeypatch):
    def crash(query, root):
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(own_queries, "_run", crash)
    parsed = parse(CODE, path="a.py", own=queries(ROUTES))
    assert [symbol.name for symbol in parsed.symbols] == ["f"]
    assert "it crashes (SIGKILL)" in parsed.health.detail


def test_files_not_named_after_a_language_are_not_read_as_queries(tmp_path):
    for name in ("python.scm", "klingon.scm", "notes.txt"):
        (tmp_path / name).write_bytes(ROUTES)
    assert list(own_queries.in_folder(tmp_path)) == ["python"]
    assert own_queries.in_folder(tmp_path / "nothing") == {}


def test_the_digest_depends_on_languages_and_texts():
    assert own_queries.digest(own_queries.NONE) == ""
    ours = queries(ROUTES)
    assert own_queries.digest(ours) == own_queries.digest(queries(ROUTES, origin="elsewhere/"))
    assert own_queries.digest(ours) != own_queries.digest(queries(ROUTES + b"\n"))
    assert own_queries.digest(ours) != own_queries.digest(queries(ROUTES, name="ruby.scm"))
