"""Jobs are sent over a real broker."""

from __future__ import annotations

import json
import select
import socket
import socketserver
import threading
from urllib.parse import urlsplit

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


def test_a_removal_goes_to_the_queue_of_the_store_stage(broker, redis):
    broker.remove(RepositoryName("acme/http"))

    [message] = sent(redis, jobs.STORE)
    assert message["headers"]["task"] == jobs.FORGET_TASK
    assert arguments(message) == {"repository": "acme/http"}


def test_the_label_of_a_removed_ref_is_one_printable_line(broker, redis):
    broker.remove_ref(RepositoryName("acme/http"), RefName("a\u202eb"))

    [message] = sent(redis, jobs.STORE)
    assert message["headers"]["kwargsrepr"] == r"acme/http@'a\u202eb'"


def test_queues_have_their_numbers_of_messages_and_workers(broker):
    broker.pull(RUN)
    broker.pull(RUN)

    depths = {queue.name: (queue.messages, queue.workers) for queue in broker.queues()}

    assert depths == {name: (2 if name == jobs.PULL else 0, 0) for name in jobs.QUEUES}


def test_queues_can_be_read_after_the_broker_has_closed_the_connections(broker, redis_admin):
    first = broker.queues()
    redis_admin.client_kill_filter(_type="normal", skipme=True)
    redis_admin.client_kill_filter(_type="pubsub", skipme=True)

    assert broker.queues() == first


@pytest.mark.parametrize("call", [lambda j: j.pull(RUN), lambda j: j.queues()])
def test_an_unreachable_broker_raises_unavailable(call):
    away = CeleryJobs(Settings(redis_url="redis://127.0.0.1:1/0"))

    with pytest.raises(Unavailable, match="broker"):
        call(away)

    away.close()


class Severing:
    """A relay to a server that closes a connection as soon as a certain word is sent over it."""

    def __init__(self, url, word):
        path = urlsplit(url).path

        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                with socket.socket(socket.AF_UNIX) as server:
                    server.connect(path)
                    ends = {self.request: server, server: self.request}
                    while True:
                        for end in select.select(list(ends), [], [])[0]:
                            data = end.recv(65_536)
                            if not data or word in data:
                                return
                            ends[end].sendall(data)

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"redis://127.0.0.1:{self._server.server_address[1]}/0"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.mark.parametrize("word", [b"LLEN", b"PUBLISH"])
def test_a_broker_that_dies_during_a_call_raises_unavailable(redis_url, word):
    relay = Severing(redis_url, word)
    dying = CeleryJobs(Settings(redis_url=relay.url))
    try:
        with pytest.raises(Unavailable, match="is Redis running"):
            dying.queues()
    finally:
        dying.close()
        relay.close()
