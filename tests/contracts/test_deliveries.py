"""The contract of the port Deliveries, over every implementation."""

from __future__ import annotations

import pytest

from codelode.backends.memory.deliveries import MemoryDeliveries
from codelode.backends.redis.deliveries import RedisDeliveries
from codelode.ports import DELIVERIES_KEPT_S


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.server)])
def deliveries(request):
    if request.param == "memory":
        return MemoryDeliveries()
    return RedisDeliveries(request.getfixturevalue("redis"))


def test_a_delivery_is_known_once_it_was_added(deliveries):
    assert not deliveries.is_known("work", "1")
    deliveries.add("work", "1")
    deliveries.add("work", "1")

    assert deliveries.is_known("work", "1")
    assert not deliveries.is_known("work", "2")
    assert not deliveries.is_known("other", "1")


@pytest.mark.parametrize("id", ["x" * 100_000, "\ud800", "a\0b", "ü"])
def test_any_text_is_an_id(deliveries, id):
    deliveries.add("work", id)

    assert deliveries.is_known("work", id)
    assert not deliveries.is_known("work", id[:-1])


def test_a_delivery_is_forgotten_after_its_time():
    now = 0.0
    deliveries = MemoryDeliveries(now=lambda: now)
    deliveries.add("work", "1")
    now = DELIVERIES_KEPT_S - 1.0
    assert deliveries.is_known("work", "1")
    now = DELIVERIES_KEPT_S + 1.0
    assert not deliveries.is_known("work", "1")


@pytest.mark.server
def test_in_redis_a_delivery_expires(redis):
    RedisDeliveries(redis).add("work", "1")

    (key,) = redis.scan_iter("codelode:delivery:*")
    assert 0 < redis.ttl(key) <= DELIVERIES_KEPT_S
