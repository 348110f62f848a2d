"""A file of operators that no parser can read is a problem, and is followed all the same."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from codelode import scopes, sources
from codelode.errors import InvalidSettings, Unavailable
from gateway.access import followed, rules
from gateway.access.followed import FollowedFile
from tests.waiting import until

PARSERS = {"scopes": scopes.parse, "sources": sources.parse, "access": rules.parse}
ESCAPES = [r"\UFFFFFFFF", r"\U00110000", r"\Users", r"\uD800"]


@pytest.mark.parametrize("escape", ESCAPES)
@pytest.mark.parametrize("parse", PARSERS.values(), ids=PARSERS)
def test_the_error_for_an_invalid_escape_names_its_line(tmp_path, parse, escape):
    path = tmp_path / "file.yaml"
    path.write_text(f'\n"C:{escape}": 1\n')
    file = FollowedFile(str(path), what="file", parse=parse, empty="none")

    with capture_logs() as logs:
        told = [file.problem() for _ in range(2)]
    assert file.current() == "none"
    assert told[0] == told[1]
    assert told[0].startswith(f"{path}:2: ")
    assert [line["event"] for line in logs] == ["file_rejected"]


async def test_following_outlives_any_error_of_a_parser(tmp_path, monkeypatch):
    def parse(content, *, file):
        return {"good": "read", "better": "read again"}[content]

    monkeypatch.setattr(followed, "FOLLOW_INTERVAL_S", 0.001)
    path = tmp_path / "file"
    path.write_text("good")
    file = FollowedFile(str(path), what="file", parse=parse, empty="none")
    assert file.current() == "read"
    following = asyncio.create_task(file.follow())
    try:
        path.write_text("broken")
        with capture_logs() as logs:
            await until(
                lambda: "file_rejected" in [line["event"] for line in logs], "the rejection"
            )
        assert file.current() == "read"
        told = f"{path}: cannot be read: KeyError('broken')"
        assert [file.problem(), file.problem()] == [told, told]
        with pytest.raises(InvalidSettings, match="cannot be read"):
            file.require()
        path.write_text("better")
        await until(lambda: file.current() == "read again", "the new text")
        assert (file.problem(), following.done()) == ("", False)
    finally:
        following.cancel()


async def test_a_refused_value_is_reported_each_time_and_each_reason_logged_once(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(followed, "FOLLOW_INTERVAL_S", 0.001)
    reasons = ["Redis is down", "Redis is down", "Redis is full", "Redis is down", ""]
    taken = []

    def tell(value):
        if reason := reasons.pop(0):
            raise Unavailable(reason)
        taken.append(value)

    path = tmp_path / "file"
    path.write_text("text")
    file = FollowedFile(str(path), what="file", parse=lambda content, *, file: content, empty="")
    with capture_logs() as logs:
        following = asyncio.create_task(file.follow(tell))
        try:
            await until(lambda: taken, "the value to be taken")
        finally:
            following.cancel()

    assert taken == ["text"]
    assert [(line["event"], line["log_level"], line["reason"]) for line in logs] == [
        ("file_not_applied", "warning", reason)
        for reason in ("Redis is down", "Redis is full", "Redis is down")
    ]
