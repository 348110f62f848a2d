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
