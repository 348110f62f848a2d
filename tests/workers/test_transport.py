"""Messages are taken and acknowledged in batches, and none is lost between queue and worker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import kombu
import pytest
from kombu import Connection, Consumer, Message, Queue
from kombu.asynchronous import Hub, get_event_loop, set_event_loop
from kombu.transport.redis import Mutex
from redis import Redis

from codelode import jobs
from codelode.settings import load

PREFIX = jobs.KEY_PREFIX


class Worker:
    """A consumer of one queue with a prefetch limit."""

    def __init__(self, url: str, *, queue: str, may_hold: int, gathers_s: float = 0.0) -> None:
        shared = jobs.broker_settings(load(redis_url=url))
        options = {**shared["broker_transport_options"], "gathers_s": gathers_s}
        self.connection = Connection(shared["broker_url"], transport_options=options)
        self.messages: list[Message] = []
        channel = self.connection.channel()
        channel.basic_qos(prefetch_count=may_hold)
        consumer = Consumer(channel, [Queue(queue)], on_message=self.messages.append)
        consumer.consume()

    def send(self, queue: str, count: int, *, first: int = 0, priority: int = 0) -> None:
        with self.connection.Producer() as producer:
            for number in range(first, first + count):
                producer.publish(
                    ((), {"number": number}, {}),
                    headers={"task": f"workers.{queue}", "id": str(number)},
                    correlation_id=str(number),
                    routing_key=queue,
                    priority=priority,
                )

    def numbers(self) -> list[int]:
        return [message.payload[1]["number"] for message in self.messages]


@pytest.fixture
def loop() -> Iterator[Hub]:
    before, hub = get_event_loop(), Hub()
    set_event_loop(hub)
    yield hub
    hub.close()
    set_event_loop(before)


@pytest.fixture
def worker(redis_url: str, redis: Redis) -> Iterator[Worker]:
    made = Worker(redis_url, queue="parse", may_hold=5)
    yield made
    made.connection.release()


def unacknowledged(redis: Redis) -> Any:
    """Return the number of unacknowledged messages, by the messages and by their index."""
    return redis.hlen(f"{PREFIX}unacked"), redis.zcard(f"{PREFIX}unacked_index")


def test_a_message_fetches_the_following_ones_up_to_the_prefetch_limit(
    worker: Worker, redis: Redis
) -> None:
    worker.send("parse", 12)
    worker.connection.drain_events(timeout=5)
    assert worker.numbers() == [0, 1, 2, 3, 4]
    assert unacknowledged(redis) == (5, 5)
    assert redis.llen(f"{PREFIX}parse") == 7


def test_late_messages_are_taken_together_and_after_all_others(
    worker: Worker, redis: Redis
) -> None:
    worker.send("parse", 3, first=10, priority=jobs.Priority.LATE)
    worker.send("parse", 2)
    worker.connection.drain_events(timeout=5)
    assert worker.numbers() == [0, 1, 10, 11, 12]
    assert unacknowledged(redis) == (5, 5)
    worker.send("parse", 3, priority=jobs.Priority.LATE)
    assert jobs.depth(worker.connection, "parse") == 3
    assert redis.llen(f"{PREFIX}parse") == 0


def test_the_depth_of_a_queue_is_known_at_the_memory_limit(
    worker: Worker, redis_admin: Redis
) -> None:
    worker.send("parse", 3)
    redis_admin.config_set("maxmemory", 1)
    try:
        assert jobs.depth(worker.connection, "parse") == 3
    finally:
        redis_admin.config_set("maxmemory", 0)


MALFORMED = (
    b"no json",
    b"\xff\xfe",
    b"[1, 2]",
    b"7",
    b"{}",
    b'{"properties": 1, "body": ""}',
    b'{"properties": {"delivery_tag": "x", "delivery_info": []}, "body": ""}',
    b'{"properties": {"delivery_tag": "x", "delivery_info": {"exchange": "", "routing_key": ""}}}',
    b'{"body": "a", "properties": {"delivery_tag": "x", "body_encoding": "base64", '
    b'"delivery_info": {"exchange": "", "routing_key": "parse"}}}',
)


@pytest.mark.parametrize("malformed", MALFORMED)
def test_a_malformed_message_is_dropped_and_the_worker_goes_on(
    worker: Worker, redis: Redis, malformed: bytes
) -> None:
    redis.lpush(f"{PREFIX}parse", malformed)
    worker.send("parse", 1)
    redis.lpush(f"{PREFIX}parse", malformed)
    for _ in range(2):
        with suppress(TimeoutError):
            worker.connection.drain_events(timeout=1)
    assert worker.numbers() == [0]
    worker.messages[0].ack()
    assert unacknowledged(redis) == (0, 0)
    assert redis.llen(f"{PREFIX}parse") == 0


def test_a_worker_that_acknowledged_gets_more(worker: Worker, redis: Redis) -> None:
    worker.send("parse", 7)
    worker.connection.drain_events(timeout=5)
    for message in worker.messages[:]:
        message.ack()
    assert unacknowledged(redis) == (0, 0)
    worker.connection.drain_events(timeout=5)
    assert worker.numbers() == [0, 1, 2, 3, 4, 5, 6]
    assert unacknowledged(redis) == (2, 2)


def test_unacknowledged_messages_return_to_the_queue_when_the_connection_closes(
    worker: Worker, redis: Redis, redis_url: str
) -> None:
    worker.send("parse", 5)
    worker.connection.drain_events(timeout=5)
    worker.messages[0].ack()
    worker.connection.release()
    assert unacknowledged(redis) == (0, 0)
    other = Worker(redis_url, queue="parse", may_hold=9)
    other.connection.drain_events(timeout=5)
    other.connection.release()
    assert sorted(other.numbers()) == [1, 2, 3, 4]


def test_a_requeued_message_is_in_the_queue_again(worker: Worker, redis: Redis) -> None:
    worker.send("parse", 3)
    worker.connection.drain_events(timeout=5)
    worker.messages[1].reject(requeue=True)
    assert unacknowledged(redis) == (2, 2)
    worker.connection.drain_events(timeout=5)
    assert worker.numbers() == [0, 1, 2, 1]
    assert redis.llen(f"{PREFIX}parse") == 0


def test_acknowledgements_are_sent_in_one_command(loop: Hub, worker: Worker, redis: Redis) -> None:
    worker.send("parse", 5)
    worker.connection.drain_events(timeout=5)
    before = redis.info("commandstats").get("cmdstat_hdel", {"calls": 0})["calls"]
    for message in worker.messages:
        message.ack()
    assert unacknowledged(redis) == (5, 5)
    while loop.timer.queue:
        loop.fire_timers()
    assert unacknowledged(redis) == (0, 0)
    assert redis.info("commandstats")["cmdstat_hdel"]["calls"] == before + 1


def test_a_connection_that_closes_acknowledges_first(
    loop: Hub, worker: Worker, redis: Redis
) -> None:
    worker.send("parse", 3)
    worker.connection.drain_events(timeout=5)
    for message in worker.messages:
        message.ack()
    worker.connection.release()
    assert unacknowledged(redis) == (0, 0)
    assert redis.llen(f"{PREFIX}parse") == 0


def test_messages_gather_before_more_are_taken(loop: Hub, redis_url: str) -> None:
    worker = Worker(redis_url, queue="embed", may_hold=9, gathers_s=1)
    worker.connection.register_with_event_loop(loop)
    worker.send("embed", 1)
    turns = loop.loop
    began = time.monotonic()
    while not worker.messages:
        next(turns)
    worker.send("embed", 4)
    while len(worker.messages) == 1:
        next(turns)
    assert worker.numbers() == [0, 0, 1, 2, 3]
    assert time.monotonic() - began >= 1
    worker.connection.release()


def test_a_worker_that_dies_while_it_restores_messages_stops_others_for_seconds_only(
    worker: Worker, redis: Redis
) -> None:
    worker.send("parse", 1)
    worker.connection.drain_events(timeout=5)
    channel = worker.messages[0].channel
    with (
        channel.conn_or_acquire() as client,
        Mutex(client, channel.unacked_mutex_key, channel.unacked_mutex_expire),
    ):
        (lock,) = redis.scan_iter("*mutex*")
        assert 0 < redis.ttl(lock) <= jobs.RESTORE_LOCK_S


def test_the_transport_was_written_for_the_installed_kombu() -> None:
    assert kombu.__version__ == jobs.TRANSPORT_FOR_KOMBU, (
        "kombu moved, so its own transport is in use: compare its redis.py with "
        "codelode/backends/redis/transport.py, measure both, then raise the version or delete ours"
    )


def test_with_another_version_of_kombu_its_own_transport_is_used(
    redis_url: str, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as other:
        other.setattr(jobs, "TRANSPORT_FOR_KOMBU", "another")
        other.setattr(kombu.transport, "_transport_cache", {})  # as in a new process
        stock = Worker(redis_url, queue="parse", may_hold=5, gathers_s=0.05)
    assert type(stock.connection.transport).__module__ == "kombu.transport.redis"
    stock.send("parse", 7)
    assert jobs.depth(stock.connection, "parse") == 7
    for number in range(7):
        stock.connection.drain_events(timeout=5)
        stock.messages[number].ack()
    assert stock.numbers() == [0, 1, 2, 3, 4, 5, 6]
    assert unacknowledged(redis) == (0, 0)
    stock.connection.release()
    own = Worker(redis_url, queue="parse", may_hold=5)
    assert type(own.connection.transport).__module__ == "codelode.backends.redis.transport"
    own.connection.release()
