"""The branches and tags that are indexed by the rules of a connection."""

from __future__ import annotations

import pytest

from codelode.repository_rules import MAX_REFS, RepositoryRules
from workers.sources.refs import RefRules, chosen

LISTED = (
    *("refs/tags/v3", "refs/heads/main", "refs/heads/release/2", "refs/tags/v2"),
    *("refs/tags/nightly", "refs/heads/release/1", "refs/tags/v1", "refs/heads/v1", "refs/tags/v0"),
)


def test_branches_and_the_newest_tags_are_chosen_by_globs():
    rules = RepositoryRules(branches=("release/*", "main"), tags=("v*",), newest_tags=2)
    found = chosen(LISTED, rules)

    assert found.wanted == ("main", "release/2", "release/1", "v3", "v2")
    assert found.superseded == ("v0",)


def test_a_branch_with_the_name_of_a_superseded_tag_stays():
    found = chosen(LISTED, RepositoryRules(branches=("*",), tags=("v*",), newest_tags=1))

    assert ("v1" in found.wanted, found.superseded) == (True, ("v2", "v0"))


def test_a_tag_with_the_name_of_a_branch_that_no_rule_names_is_neither_taken_nor_superseded():
    """Its name means the branch, which somebody may have indexed."""
    found = chosen(LISTED, RepositoryRules(tags=("v*",), newest_tags=1))
    assert (found.wanted, found.superseded) == (("v3",), ("v2", "v0"))

    found = chosen(LISTED, RepositoryRules(tags=("v*",), newest_tags=3))
    assert (found.wanted, found.superseded) == (("v3", "v2", "v0"), ())


def test_the_branches_are_bounded():
    many = [f"refs/heads/b{number}" for number in range(1_000)]

    assert len(chosen(many, RepositoryRules(branches=("**",))).wanted) == MAX_REFS


@pytest.mark.parametrize(
    ("url", "is_named"),
    [
        ("https://git.example/acme/app", True),
        ("https://git.example/other/app", False),
        ("https://list.example/a/b", True),
        ("https://list.example/a/c", False),
        ("/srv/git/app", False),  # its connection names no ref
        ("/srv/other/app", False),
    ],
)
def test_the_rules_are_those_of_the_connection_of_a_repository(tmp_path, url, is_named):
    (tmp_path / "sources.yaml").write_text(
        "connections:\n"
        "- {name: work, kind: gitea, url: 'https://git.example', organisation: acme,\n"
        "   token: {env: T}, repositories: {branches: [next]}}\n"
        "- {name: list, kind: urls, urls: ['https://list.example/a/b'],\n"
        "   repositories: {tags: ['*']}}\n"
        "- {name: here, kind: folder, path: /srv/git}\n"
    )
    rules = RefRules(str(tmp_path / "sources.yaml"))(url)

    assert bool(rules) is is_named
    assert RefRules("")(url) is None
