"""Jobs over a real broker."""

from __future__ import annotations

import json

import pytest

from codelode import jobs
from codelode.errors import Unavailable
from codelode.model import RefName, RepositoryName, Run, RunId, RunState
from codelode.settings import Settings
from gateway.jobs import CeleryJobs

RUN = Run(RunId("r1"), RepositoryName("acme/http"), RefName("main"), RunState.PULLING)


@pytest.fixture
def broker(redis, redis_url):
    opened = CeleryJobs(Settings(redis_url=redis_url))
    yield opened
    opened.close()


def sent(redis, queue):
    return [json.loads(raw) for raw in redis.lrange(jobs.KEY_PREFIX + queue, 0, -1)]


def arguments(message):
    import base64

    _, kwargs, _ = json.loads(base64.b64decode(message["body"]))
    return kwargs


def test_a_pull_goes_to_its_queue_with_a_readable_label(broker, redis):
    broker.pull(RUN)

    [message] = sent(redis, jobs.PULL)
    assert message["headers"]["task"] == jobs.PULL_TASK
    assert message["headers"]["kwargsrepr"] == "acme/http@main (run r1)"
    assert arguments(message) == {"run": "r1"}


def test_removing_goes_to_the_one_process_that_writes_the_index(broker, redis):
    broker.remove(RepositoryName("acme/http"))

    [message] = sent(redis, jobs.STORE)
    assert message["headers"]["task"] == jobs.FORGET_TASK
    assert arguments(message) == {"repository": "acme/http"}


def test_queues_show_what_waits_and_who_listens(broker):
    broker.pull(RUN)
    broker.pull(RUN)

    depths = {queue.name: (queue.messages, queue.workers) for queue in broker.queues()}

    assert depths == {name: (2 if name == jobs.PULL else 0, 0) for name in jobs.QUEUES}


@pytest.mark.parametrize("call", [lambda j: j.pull(RUN), lambda j: j.queues()])
def test_a_broker_that_is_away_is_unavailable(call):
    away = CeleryJobs(Settings(redis_url="redis://127.0.0.1:1/0"))

    with pytest.raises(Unavailable, match="broker"):
        call(away)

    away.close()
