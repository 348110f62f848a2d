"""Forged messages stop no worker, and an outage of Redis stops a cluster only while it lasts."""

from __future__ import annotations

import base64
import json
import os
import pickle
import signal
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from codelode import stages
from codelode.backends.redis.connection import connect
from codelode.client import Client
from codelode.cluster import token_of
from codelode.errors import CodelodeError, Unavailable
from codelode.jobs import KEY_PREFIX
from codelode.model import RunState
from tests.pausing import paused

#: The queues that workers serve in a cluster without a language model.
QUEUES = [queue for queue in stages.queues() if queue != "enrich"]

#: The headers that Celery writes, except the task.
HEADERS = {
    **{"lang": "py", "id": "1", "root_id": "1", "parent_id": None, "origin": "x"},
    **{"shadow": None, "eta": None, "expires": None, "group": None, "group_index": None},
    **{"retries": 0, "timelimit": [None, None], "argsrepr": "", "kwargsrepr": ""},
    **{"ignore_result": True, "replaced_task_nesting": 0, "stamped_headers": None, "stamps": {}},
}

#: Arguments that no process of ours sends.
FORGED = {"run": "0" * 16, "repository": "../../etc", "path": "/etc/passwd", "blob": "HEAD"}
BODY = json.dumps([[], FORGED, {}]).encode()

NO_MESSAGES = (
    *(b"no json", b"\xff\xfe", b"[1, 2]", b"7", b"null", b"{}", b"[" * 100_000),
    b'{"properties": {"delivery_info": {}}, "body": 1}',
)
BODIES = (
    *(b"", b"no json", b"\xff", b"7", b"{}", b"[]", b"[[], {}]", b"[1, 2, 3]", b"[[], [], []]"),
    *(b'["a", "b", "c"]', b"[[1, 2], {}, {}]", b"[" * 100_000, BODY),
    b'[[], {}, {"callbacks": 7, "chord": 8, "chain": 9}]',
    b'[[], {}, {"callbacks": [{"task": "workers.forget", "kwargs": {"repository": "app"}}]}]',
    json.dumps([[], {**FORGED, "path": "x" * 20_000_000}, {}]).encode(),
)
WRONG_HEADERS = (
    *({}, 7, [], None, {"task": "workers.pull"}, {"id": "1"}),
    *({**HEADERS, "task": task} for task in ("os.system", "workers.none", 7, [], None)),
)
WRONG_FIELDS = (
    *({"id": 7}, {"id": []}, {"retries": "x"}, {"eta": "x"}, {"eta": 7}, {"expires": "x"}),
    *({"expires": []}, {"timelimit": "x"}, {"timelimit": ["x", []]}, {"root_id": []}),
    *({"group": {}}, {"argsrepr": 7}, {"shadow": {}}, {"ignore_result": []}, {"origin": {}}),
    *({"stamps": 3, "stamped_headers": "x"}, {"compression": "application/x-gzip"}),
)
WRONG_PROPERTIES = (
    *({"reply_to": []}, {"correlation_id": []}, {"priority": "x"}, {"priority": 77}),
    *({"body_encoding": "rot13"}, {"body_encoding": []}, {"delivery_tag": []}),
    {"delivery_info": {"exchange": "x", "routing_key": "y"}},
)


@pytest.fixture(scope="module")
def attacked(tmp_path_factory, cluster_at):
    made = cluster_at(tmp_path_factory.mktemp("attacked") / "data")
    made.start()
    yield made
    made.kill()


class Touch:
    """Creates a file when it is unpickled."""

    def __init__(self, path):
        self._path = path

    def __reduce__(self):
        return Path.touch, (self._path,)


def envelope(queue, body=BODY, headers=None, *, kind="application/json", **properties):
    """Return a message as kombu writes it."""
    return json.dumps(
        {
            "body": base64.b64encode(body).decode(),
            "content-encoding": "utf-8" if "json" in kind else "binary",
            "content-type": kind,
            "headers": headers,
            "properties": {
                **{"correlation_id": "1", "delivery_mode": 2, "priority": 0, "reply_to": ""},
                **{"delivery_info": {"exchange": "", "routing_key": queue}},
                **{"body_encoding": "base64", "delivery_tag": str(uuid.uuid4()), **properties},
            },
        }
    ).encode()


def malformed(queue, touched):
    """Yield messages of every kind that no process of ours sends."""
    known = {**HEADERS, "task": f"workers.{queue}"}
    yield from NO_MESSAGES
    yield from (envelope(queue, body, known) for body in BODIES)
    yield from (envelope(queue, headers=wrong) for wrong in WRONG_HEADERS)
    yield from (envelope(queue, headers={**known, **wrong}) for wrong in WRONG_FIELDS)
    yield from (envelope(queue, headers=known, **wrong) for wrong in WRONG_PROPERTIES)
    code = pickle.dumps(Touch(touched))
    for kind in ("application/x-python-serialize", "application/x-yaml", "no/such"):
        yield envelope(queue, code, known, kind=kind)


def index_small(client, make_git, name):
    small = make_git()
    small.commit({"small.py": f"def {name}():\n    return 1\n"})
    assert client.index(str(small.folder), name=name).state is RunState.COMPLETE


def test_forged_messages_stop_no_worker(attacked, make_git, wait_for, tmp_path):
    """Each is sent twice, because workers fetch the messages that follow one in another way."""
    touched, before = tmp_path / "touched", set(attacked.pids("-m workers"))
    with attacked.client() as client, connect(attacked.facts["redis"]) as redis:

        def lengths():
            return [redis.llen(f"{KEY_PREFIX}{queue}") for queue in QUEUES]

        for queue in QUEUES:
            for message in malformed(queue, touched):
                redis.lpush(f"{KEY_PREFIX}{queue}", message, message)
        index_small(client, make_git, "beside")
        wait_for(lambda: not any(lengths()), "all messages to be taken")
        wait_for(lambda: not redis.hlen(f"{KEY_PREFIX}unacked"), "all to be acknowledged")
        index_small(client, make_git, "after")
    logs = "".join(one.read_text() for one in (attacked.data / "logs").glob("*.log"))
    assert set(attacked.pids("-m workers")) == before
    assert "Connection to broker lost" not in logs
    assert not touched.exists()


def redis_pid(cluster):
    return int((cluster.data / "run" / "redis.pid").read_text().partition(" ")[0])


@contextmanager
def calling(cluster, threads):
    """Ask for the status and for hits continuously. Yields the errors and the successes by call."""
    errors, answers, is_over = [], {"status": 0, "search": 0}, threading.Event()

    def ask(name):
        address = cluster.facts["grpc"]
        with Client(address, token=token_of(address, cluster.data), timeout_s=20) as client:
            calls = {"status": client.status, "search": lambda: client.search("small")}
            while not is_over.is_set():
                try:
                    calls[name]()
                    answers[name] += 1
                except CodelodeError as exc:
                    errors.append(exc)

    with ThreadPoolExecutor(threads) as pool:
        asking = [pool.submit(ask, ("status", "search")[n % 2]) for n in range(threads)]
        try:
            yield errors, answers
        finally:
            is_over.set()
        for one in asking:
            one.result()


def test_calls_without_redis_fail_with_the_reason_and_succeed_after_its_return(
    attacked, make_git, wait_for
):
    with attacked.client() as client, calling(attacked, 8) as (errors, answers):
        index_small(client, make_git, "known")
        with paused([attacked.facts["pid"]]):  # else it starts Redis again at once
            os.kill(redis_pid(attacked), signal.SIGKILL)
            wait_for(lambda: len(errors) > 20, "calls to fail")
            wait_for(lambda: not client.is_serving(), "the health to tell")
        wait_for(client.is_serving, "the gateway to recover")
        before = dict(answers)
        wait_for(lambda: all(answers[one] > before[one] for one in before), "calls to succeed")
    assert all(isinstance(one, Unavailable) for one in errors), errors
    assert all("Redis" in str(one) for one in errors), {str(one) for one in errors}


def test_a_gateway_whose_threads_all_wait_for_redis_is_unhealthy(attacked, wait_for):
    """A Redis that is stopped holds each thread until its time limit."""
    with attacked.client() as client, calling(attacked, 48) as (errors, answers):
        wait_for(lambda: min(answers.values()), "calls to succeed")
        with paused([redis_pid(attacked)]):
            wait_for(lambda: not client.is_serving(), "the health to tell")
        wait_for(client.is_serving, "the gateway to recover")
        before = dict(answers)
        wait_for(lambda: all(answers[one] > before[one] for one in before), "calls to succeed")
    assert all(isinstance(one, Unavailable) for one in errors), errors
