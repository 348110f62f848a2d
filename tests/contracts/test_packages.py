"""The contract of the port PackageIndex, over every implementation."""

from __future__ import annotations

import pytest

from codelode.backends.memory.packages import MemoryPackageIndex
from codelode.backends.redis.packages import RedisPackageIndex
from codelode.model import DEFAULT_REF
from codelode.ports import PublishedPackages


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.server)])
def packages(request):
    if request.param == "memory":
        return MemoryPackageIndex()
    return RedisPackageIndex(request.getfixturevalue("redis"))


def publication(**keys):
    return PublishedPackages(
        {key.replace("_", ":"): folder for key, folder in keys.items()}, {"npm": "1"}
    )


def test_a_package_key_leads_to_all_repositories_that_publish_it(packages):
    packages.publish("acme/ui", [DEFAULT_REF], publication(npm_ui="", npm_icons="packages/icons"))
    packages.publish("acme/fork", [DEFAULT_REF], publication(npm_ui="lib"))

    assert packages.publishers(["npm:ui", "npm:icons", "npm:none"]) == {
        "npm:ui": (("acme/fork", "lib"), ("acme/ui", "")),
        "npm:icons": (("acme/ui", "packages/icons"),),
    }
    assert packages.publishers([]) == {}


def test_published_packages_are_read_back(packages):
    packages.publish("acme/ui", [DEFAULT_REF], publication(npm_ui="packages/ü"))

    assert packages.published_by("acme/ui", DEFAULT_REF) == PublishedPackages(
        {"npm:ui": "packages/ü"}, {"npm": "1"}
    )
    assert packages.published_by("acme/none", DEFAULT_REF) == PublishedPackages({}, {})


def test_the_packages_of_many_repositories_are_read_at_once(packages):
    packages.publish("acme/ui", [DEFAULT_REF], publication(npm_ui=""))
    packages.publish("acme/old", ["v1"], publication(npm_old=""))
    packages.publish("acme/empty", [DEFAULT_REF], publication())

    assert packages.published_by_all(["acme/none", "acme/empty", "acme/old", "acme/ui"]) == {
        "acme/ui": PublishedPackages({"npm:ui": ""}, {"npm": "1"})
    }
    assert packages.published_by_all([]) == {}


def test_publishing_again_replaces_the_old_packages(packages):
    packages.publish("acme/ui", [DEFAULT_REF], publication(npm_ui="", npm_old=""))
    packages.publish("acme/ui", [DEFAULT_REF], publication(npm_ui="lib", npm_new=""))

    assert packages.publishers(["npm:ui", "npm:old", "npm:new"]) == {
        "npm:ui": (("acme/ui", "lib"),),
        "npm:new": (("acme/ui", ""),),
    }


def test_a_removed_repository_publishes_nothing(packages):
    for name in ("acme/ui", "acme/fork"):
        packages.publish(name, [DEFAULT_REF], publication(npm_ui=""))
    packages.remove_repository("acme/ui")
    packages.remove_repository("never-seen")

    assert packages.publishers(["npm:ui"]) == {"npm:ui": (("acme/fork", ""),)}
    assert packages.published_by("acme/ui", DEFAULT_REF) == PublishedPackages({}, {})


def test_removing_the_last_repository_leaves_no_keys(redis):
    packages = RedisPackageIndex(redis)
    packages.publish("acme/ui", [DEFAULT_REF], publication(npm_ui="", npm_icons=""))
    packages.remove_repository("acme/ui")

    assert list(redis.scan_iter()) == []
