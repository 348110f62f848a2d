"""Registration of repositories, as both sides use it."""

from __future__ import annotations

import pytest

from codelode import local_repositories
from codelode.access import EVERYTHING, Visibility
from codelode.addresses import path_of
from codelode.backends.memory.ledger import MemoryLedger
from codelode.errors import Denied, InvalidQuery
from codelode.model import FilePatterns, RepositoryName
from codelode.registration import register
from codelode.repository_globs import Within

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


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("https://host.example/payments/api.git", "payments/api"),
        ("ssh://git@host.example:7999/payments/api", "payments/api"),
        ("git@host.example:/payments/api.git", "payments/api"),
        ("https://host.example/payments/team/api", "payments/team/api"),
        ("https://host.example/secret/payments/api", "secret/payments/api"),
        ("https://host.example/PAYMENTS/api", "PAYMENTS/api"),
        ("https://host.example/payments/../secret/api", ""),
        ("https://host.example/payments/%2e%2e/secret/api", ""),
        ("https://host.example/payments/%252e%252e/secret/api", ""),
        ("https://host.example/payments//api", ""),
        ("git@host.example:payments/./api", ""),
        ("https://host.example/payments/..;/secret/api", ""),
        ("https://host.example/payments/..%5Csecret%5Capi", ""),
        ("git@host.example:payments/..%5Csecret", ""),
        ("https://host.example/payments/..%20/secret/api", ""),
        ("https://host.example/payments/%EF%BC%8E%EF%BC%8E/secret/api", ""),
        ("https://host.example/payments/%c0%ae%c0%ae/secret/api", ""),
        ("https://host.example/payments/_git/Card%20Data%20(new)", "payments/_git/Card Data (new)"),
        ("https://host.example/payments/.github", "payments/.github"),
        ("/srv/payments/api/.git", "srv/payments/api"),
    ],
)
def test_the_globs_of_an_admin_must_match_the_path_of_a_url(url, path, monkeypatch):
    monkeypatch.setattr(local_repositories, "check", lambda folder, local_paths: folder)
    ledger, own = MemoryLedger(), Within((("payments/**",),))
    arguments = {"url": url, "name": "payments/x", "local_paths": ""}
    assert path_of(url) == path

    if path.startswith("payments/"):
        assert register(ledger, own, paths=own, **arguments).url == url
    else:
        refusal = "globs of your key" if path else "may lead to another repository"
        for paths in (own, *([] if path else [Within((("*",),))])):  # `*` matches the empty path
            with pytest.raises(Denied, match=refusal):
                register(ledger, own, paths=paths, **arguments)
        assert ledger.repositories() == ()
        register(ledger, EVERYTHING, **arguments)  # an admin without globs may
    known = register(ledger, own, paths=own, **arguments)
    assert (known.name, known.url) == ("payments/x", url)


@pytest.mark.parametrize("name", ["", "payments/api", "payments/new"])
@pytest.mark.parametrize("has_globs", [False, True], ids=["indexer", "admin with globs"])
def test_errors_do_not_tell_a_local_folder_from_none(tmp_path, name, has_globs):
    ledger = MemoryLedger()
    known = RepositoryName("payments/api")
    register(ledger, EVERYTHING, url=URL, name=known, local_paths="")
    (tmp_path / "hidden").mkdir()
    globs = Within((("payments/**",),))
    visible, paths = (globs, globs) if has_globs else (Visibility.of([known]), None)

    def refusal(folder):
        with pytest.raises((Denied, InvalidQuery)) as refused:
            register(
                ledger,
                visible,
                paths=paths,
                url=str(tmp_path / folder),
                name=name,
                local_paths="owned",
            )
        return type(refused.value), str(refused.value).replace(folder, "FOLDER")

    assert refusal("hidden") == refusal("absent")
