"""What is written for a per-file job is what Celery itself would write."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery
from redis import Redis

from codelode import jobs
from codelode.backends.redis.queues import RedisQueues
from codelode.settings import load
from workers.delivery.messages import message

ARGUMENTS = {
    "run": "r1",
    "repository": "acme/app",
    "path": "src/ä b.py",
    "blob": "0" * 40,
    "size": 5,
}
ABOUT = "acme/app src/ä b.py"


@pytest.fixture
def app(redis_url: str) -> Iterator[Celery]:
    made = Celery("test")
    made.conf.update(**jobs.broker_settings(load(redis_url=redis_url)))
    yield made
    made.close()


def waiting(redis: Redis, queue: str) -> list[dict[str, Any]]:
    """The messages of a queue in the order in which they will be taken."""
    stored: Any = redis.lrange(f"{jobs.KEY_PREFIX}{queue}", 0, -1)
    return [json.loads(one) for one in reversed(stored)]


def body(sent: dict[str, Any]) -> Any:
    return json.loads(base64.b64decode(sent["body"]))


def without_ids(sent: dict[str, Any]) -> dict[str, Any]:
    headers, properties = dict(sent["headers"]), dict(sent["properties"])
    own = {headers.pop("id"), headers.pop("root_id"), properties.pop("correlation_id")}
    assert len(own) == 1
    assert properties.pop("delivery_tag")
    return {**sent, "body": body(sent), "headers": headers, "properties": properties}


def test_a_message_is_as_celery_writes_it(app: Celery, redis: Redis) -> None:
    app.send_task(
        jobs.PARSE_TASK, kwargs=ARGUMENTS, queue=jobs.PARSE, argsrepr="", kwargsrepr=ABOUT
    )
    RedisQueues(redis).push(jobs.PARSE, [message(app, jobs.PARSE, ARGUMENTS, about=ABOUT)])

    theirs, ours = map(without_ids, waiting(redis, jobs.PARSE))
    assert ours == theirs


def test_messages_of_a_stage_differ_in_file_and_ids_only(app: Celery, redis: Redis) -> None:
    files = [{**ARGUMENTS, "path": f"{n}.py"} for n in range(3)]
    made = [message(app, jobs.STORE, file, about=f"{file['path']}") for file in files]
    RedisQueues(redis).push(jobs.STORE, made)

    sent = waiting(redis, jobs.STORE)
    assert [body(one)[1]["path"] for one in sent] == ["0.py", "1.py", "2.py"]
    assert [one["headers"]["kwargsrepr"] for one in sent] == ["0.py", "1.py", "2.py"]
    assert {one["headers"]["task"] for one in sent} == {jobs.STORE_TASK}
    assert len({one["properties"]["delivery_tag"] for one in sent}) == 3
    assert len({one["headers"]["id"] for one in sent}) == 3


def test_a_message_sent_inside_a_task_belongs_to_no_other(app: Celery) -> None:
    sent: list[dict[str, Any]] = []

    @app.task(name="outer")  # type: ignore[untyped-decorator]
    def outer() -> None:
        sent.append(json.loads(message(app, jobs.EMBED, ARGUMENTS, about=ABOUT)))

    outer.apply()
    assert sent[0]["headers"]["parent_id"] is None
    assert sent[0]["headers"]["root_id"] == sent[0]["headers"]["id"]
