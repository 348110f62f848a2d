"""Registration of repositories, as both sides use it."""

from __future__ import annotations

import pytest

from codelode.access import EVERYTHING, Visibility
from codelode.backends.memory.ledger import MemoryLedger
from codelode.errors import Denied, InvalidQuery
from codelode.model import FilePatterns, RepositoryName
from codelode.registration import register

URL = "https://host.example/acme/http"


def test_a_repository_is_registered_under_the_name_of_its_url():
    ledger = MemoryLedger()

    made = register(ledger, EVERYTHING, url=URL, exclude=["vendor/"], local_paths="")

    assert made.name == "acme/http"
    assert [known.name for known in ledger.repositories()] == ["acme/http"]
    assert ledger.repositories()[0].patterns == FilePatterns(exclude=("vendor/",))


def test_without_a_name_a_url_keeps_the_one_that_it_is_registered_under():
    ledger = MemoryLedger()
    for name in ("web", "hidden", "apps"):
        register(ledger, EVERYTHING, url=URL, name=name, local_paths="")
    visible = Visibility.of(map(RepositoryName, ("web", "acme/http", "apps")))

    assert register(ledger, visible, url=URL, local_paths="").name == "apps"
    register(ledger, EVERYTHING, url=URL, name="acme/http", local_paths="")
    assert register(ledger, visible, url=URL, local_paths="").name == "acme/http"
    with pytest.raises(Denied, match="'acme/http'"):
        register(ledger, Visibility.of([RepositoryName("other")]), url=URL, local_paths="")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"url": "ext::sh -c id"}, InvalidQuery),
        ({"url": URL, "name": "../x"}, InvalidQuery),
        ({"url": URL, "include": ["!src"]}, InvalidQuery),
        ({"url": URL, "exclude": [" "]}, InvalidQuery),
        ({"url": URL, "name": "hidden"}, Denied),
    ],
    ids=["url", "name", "include", "exclude", "not visible"],
)
def test_nothing_is_stored_of_a_repository_that_is_refused(arguments, error):
    ledger = MemoryLedger()

    with pytest.raises(error):
        register(ledger, Visibility.of([RepositoryName("acme/http")]), **arguments, local_paths="")

    assert ledger.repositories() == ()
