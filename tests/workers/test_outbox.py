"""Messages reach their queue in order, with the labels that Flower shows."""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from celery import Celery
from kombu import Producer
from redis import Redis

from codelode import jobs
from codelode.errors import Unavailable
from codelode.jobs import Priority
from codelode.model import BlobId, RefName, RepositoryName, Run, RunId, RunState
from codelode.settings import load
from workers.delivery.files import Job
from workers.delivery.outbox import CeleryOutbox

FILES = [
    Job(RunId("r1"), RepositoryName("acme/app"), path, BlobId("0" * 40), 5)
    for path in ("src/ä b.py", "b.py", "c\u202e\n.py")
]


def app_at(url: str) -> Celery:
    made = Celery("test", set_as_current=False)
    made.conf.update(**jobs.broker_settings(load(redis_url=url)))
    return made


@pytest.fixture
def app(redis_url: str) -> Iterator[Celery]:
    made = app_at(redis_url)
    yield made
    made.close()


def waiting(redis: Redis, queue: str) -> list[dict[str, Any]]:
    """Return the messages of a queue in the order in which they will be fetched."""
    stored: Any = redis.lrange(f"{jobs.KEY_PREFIX}{queue}", 0, -1)
    return [json.loads(one) for one in reversed(stored)]


def test_files_wait_in_the_queue_of_their_stage_in_order(app: Celery, redis: Redis) -> None:
    CeleryOutbox(app).push("parse", FILES)
    sent = waiting(redis, "parse")
    bodies = [json.loads(base64.b64decode(one["body"])) for one in sent]
    assert [kwargs for _, kwargs, _ in bodies] == [job.arguments for job in FILES]
    assert [one["headers"]["kwargsrepr"] for one in sent] == [
        "acme/app src/ä b.py (run r1)",
        "acme/app b.py (run r1)",
        r"acme/app 'c\u202e\n.py' (run r1)",
    ]
    assert {one["headers"]["task"] for one in sent} == {"workers.parse"}
    assert len({one["headers"]["id"] for one in sent}) == len(FILES)


def test_files_are_sent_as_celery_sends_them(
    app: Celery, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: list[dict[str, Any]] = []
    publish = Producer.publish

    def noted(self: Producer, body: Any, **given: Any) -> Any:
        options.append(given)
        return publish(self, body, **given)

    monkeypatch.setattr(Producer, "publish", noted)
    job = FILES[0]
    CeleryOutbox(app).push("parse", [job], priority=Priority.BULK)
    app.send_task(
        "workers.parse",
        kwargs=job.arguments,
        queue="parse",
        priority=int(Priority.BULK),
        argsrepr="",
        kwargsrepr=job.title,
        ignore_result=True,
    )
    own, celerys = waiting(redis, f"parse\x06\x16{Priority.BULK:d}")
    assert own["body"] == celerys["body"]
    for sent in (own, celerys):
        assert sent["headers"]["id"] == sent["headers"]["root_id"]
        assert sent["headers"]["id"] == sent["properties"]["correlation_id"]
    # What is left out of a message has its default, or is for people (`origin`).
    optional = {"shadow", "group_index", "origin", "replaced_task_nesting"}
    left_out = {"id", "root_id", "stamped_headers", "stamps", *optional}
    assert _without(own["headers"], left_out) == _without(celerys["headers"], left_out)
    # Celery repeats two headers among the properties, where nobody reads them.
    of_one = {"correlation_id", "delivery_tag", "reply_to", "argsrepr", "kwargsrepr"}
    assert _without(own["properties"], of_one) == _without(celerys["properties"], of_one)
    for name in ("retry", "retry_policy", "routing_key", "serializer", "priority"):
        assert options[0][name] == options[1][name]


def test_files_are_sent_after_redis_has_closed_the_connection(
    app: Celery, redis: Redis, redis_admin: Redis
) -> None:
    outbox = CeleryOutbox(app)
    outbox.push("parse", FILES)
    with app.producer_or_acquire() as producer:
        id = producer.channel.client.client_id()
    assert redis_admin.client_kill_filter(_id=id) == 1
    outbox.push("parse", FILES)
    assert _paths(waiting(redis, "parse")) == 2 * [job.path for job in FILES]


def _without(found: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if name not in names}


def test_messages_of_a_higher_priority_are_recognised(app: Celery, redis: Redis) -> None:
    outbox = CeleryOutbox(app)
    found = []
    for priority in (Priority.LATE_BULK, Priority.BULK, Priority.LATE, Priority.FIRST):
        outbox.push("parse", FILES[:1], priority=priority)
        found.append([outbox.has_waiting("parse", before=one) for one in Priority])
    assert found == [
        [False, False, False, False],
        [False, False, False, True],
        [False, False, True, True],
        [False, True, True, True],
    ]
    assert not outbox.has_waiting("embed", before=Priority.LATE_BULK)


def test_held_back_files_of_large_runs_are_released_before_all_others(
    app: Celery, redis: Redis
) -> None:
    outbox = CeleryOutbox(app)
    by_priority = zip(Priority, ("first", "late", "bulk", "late_bulk"), strict=True)
    for priority, name in by_priority:
        paths = [f"{name}/{number}" for number in range(3)]
        files = [replace(FILES[0], path=path) for path in paths]
        outbox.push("parse", files, priority=priority)
    outbox.let_in("parse", 2)
    assert _paths(waiting(redis, "parse")) == [
        *("late_bulk/1", "late_bulk/0", "bulk/1", "bulk/0"),
        *("first/0", "first/1", "first/2"),
    ]
    outbox.let_in("parse", 5)
    assert len(waiting(redis, "parse")) == 9
    assert not outbox.has_waiting("embed", before=Priority.LATE_BULK)


def test_waiting_files_of_a_run_that_is_ahead_become_late_ones(app: Celery, redis: Redis) -> None:
    outbox = CeleryOutbox(app)
    misleading = replace(FILES[0], run=RunId("r2"), path='(run r1)"')
    ahead = [replace(FILES[0], path=f"{number}") for number in range(4)]
    late = replace(FILES[0], path="late")
    outbox.push("parse", [late], priority=Priority.LATE_BULK)
    outbox.push("parse", [ahead[0], misleading, *ahead[1:3]], priority=Priority.BULK)
    outbox.push("parse", ahead[3:], priority=Priority.FIRST)
    outbox.hold_back("parse", RunId("r1"), is_bulk=True)
    found = {one: waiting(redis, f"parse\x06\x16{one:d}") for one in Priority if one}
    assert _paths(found[Priority.BULK]) == [misleading.path]
    assert _paths(found[Priority.LATE_BULK]) == ["late", "0", "1", "2"]
    assert _paths(waiting(redis, "parse")) == ["3"]
    for priority, messages in found.items():
        assert {one["properties"]["priority"] for one in messages} <= {priority}
    outbox.hold_back("parse", RunId("r1"), is_bulk=False)
    assert _paths(waiting(redis, f"parse\x06\x16{Priority.LATE:d}")) == ["3"]
    assert not waiting(redis, "parse")


def test_a_broker_without_memory_is_unavailable_for_what_moves_messages(
    app: Celery, redis: Redis, redis_admin: Redis
) -> None:
    outbox = CeleryOutbox(app)
    outbox.push("parse", FILES, priority=Priority.BULK)
    redis_admin.config_set("maxmemory", 1)
    try:
        with pytest.raises(Unavailable, match="broker"):
            outbox.let_in("parse", 2)
    finally:
        redis_admin.config_set("maxmemory", 0)
    outbox.let_in("parse", 2)


def test_a_broker_without_memory_loses_no_message_that_is_held_back(
    app: Celery, redis: Redis, redis_admin: Redis
) -> None:
    outbox = CeleryOutbox(app)
    others = [replace(FILES[0], run=RunId("r2"))]
    outbox.push("parse", [*FILES, *others], priority=Priority.BULK)
    outbox.hold_back("parse", RunId("r3"), is_bulk=True)  # the server knows the script now
    redis_admin.config_set("maxmemory", 1)
    try:
        outbox.hold_back("parse", RunId("r1"), is_bulk=True)
    finally:
        redis_admin.config_set("maxmemory", 0)
    usual, late = (
        waiting(redis, f"parse\x06\x16{one:d}") for one in (Priority.BULK, Priority.LATE_BULK)
    )
    assert (_paths(usual), _paths(late)) == (_paths_of(others), _paths_of(FILES))


def _paths_of(files: Sequence[Job]) -> list[str]:
    return [job.path for job in files]


def _paths(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    bodies = [json.loads(base64.b64decode(one["body"])) for one in messages]
    return [arguments["path"] for _, arguments, _ in bodies]


def test_flower_shows_each_ref_as_one_printable_line(app: Celery, redis: Redis) -> None:
    outbox, name, ref = CeleryOutbox(app), RepositoryName("acme/app"), RefName("a\u202eb")
    outbox.pull(Run(RunId("r1"), name, ref, RunState.PULLING))
    outbox.forget_ref(name, ref)
    sent = [*waiting(redis, "pull"), *waiting(redis, "store")]
    shown = r"acme/app@'a\u202eb'"
    assert [one["headers"]["kwargsrepr"] for one in sent] == [f"{shown} (run r1)", shown]


def test_a_broker_that_is_away_is_unavailable() -> None:
    app = app_at("redis://127.0.0.1:1/0")
    app.conf.update(task_publish_retry=False, broker_connection_timeout=1)
    with pytest.raises(Unavailable, match="broker"):
        CeleryOutbox(app).push("parse", FILES)
    app.close()
