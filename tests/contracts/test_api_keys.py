"""The contract of the port ApiKeys, over every implementation."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from codelode import api_keys
from codelode.access import Role
from codelode.api_keys import USE_INTERVAL_S, ApiKey
from codelode.backends.memory.api_keys import MemoryApiKeys
from codelode.backends.redis.api_keys import RedisApiKeys

KEY = ApiKey(
    id="a" * 16,
    name="ci",
    digest=api_keys.digest("secret"),
    role=Role.INDEXER,
    bounds=(("payments/*", "shared"), ("**",)),
    created_at=1_700_000_000.25,
    created_by="token",
    expires_at=1_800_000_000.5,
)


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.server)])
def keys(request):
    if request.param == "memory":
        return MemoryApiKeys()
    return RedisApiKeys(request.getfixturevalue("redis"))


def test_a_key_is_read_as_it_was_stored(keys):
    forever = replace(KEY, id="b" * 16, name="admin", role=Role.ADMIN, bounds=(), expires_at=None)

    assert keys.add(KEY)
    assert keys.add(forever)
    assert keys.get(KEY.id) == KEY
    assert keys.all() == (forever, KEY)


def test_an_unknown_id_has_no_key(keys):
    keys.add(KEY)

    assert keys.get("0" * 16) is None
    assert keys.get("") is None


def test_a_name_belongs_to_one_key_until_it_is_removed(keys):
    other = replace(KEY, id="b" * 16)
    keys.add(KEY)

    assert not keys.add(other)
    assert keys.all() == (KEY,)
    keys.remove(KEY.id)
    assert keys.add(other)
    assert keys.all() == (other,)


def test_a_removed_key_is_gone_and_removing_it_again_has_no_effect(keys):
    keys.add(KEY)

    for _ in range(2):
        keys.remove(KEY.id)
        assert keys.get(KEY.id) is None
        assert keys.all() == ()


def test_a_use_is_recorded_at_most_once_a_minute(keys):
    keys.add(KEY)
    seen = []
    for at in (1_000.5, 1_000.5 + USE_INTERVAL_S / 2, 1_000.5 + USE_INTERVAL_S, 999.0):
        keys.used(KEY.id, at)
        seen.append(keys.get(KEY.id).used_at)

    assert seen == [1_000.5, 1_000.5, 1_000.5 + USE_INTERVAL_S, 1_000.5 + USE_INTERVAL_S]
    assert keys.all()[0].used_at == seen[-1]


def test_a_use_does_not_restore_a_removed_key(keys):
    keys.add(KEY)
    keys.remove(KEY.id)
    keys.used(KEY.id, 1_000.0)

    assert keys.get(KEY.id) is None
    assert keys.all() == ()
    keys.add(KEY)
    assert keys.get(KEY.id).used_at is None


def test_only_one_of_the_keys_added_concurrently_under_one_name_is_stored(keys):
    added = []
    threads = [
        threading.Thread(target=lambda n=n: added.append(keys.add(replace(KEY, id=f"{n:016x}"))))
        for n in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sum(added) == len(keys.all()) == 1
