"""The scopes file is read, and errors in it name the line."""

from __future__ import annotations

import pytest
import yaml

from codelode.errors import InvalidSettings
from codelode.scopes import MAX_SCOPES, NO_SCOPES, Scope, parse, read, schema

GOOD = """
scopes:
  payments:
    description: Everything that moves money
    repositories: [payments/*, shared/ledger, "!payments/archive-*"]
    refs: [HEAD, release-2]
    paths: [src/**, "!**/testdata/**"]
  docs:
    paths: ["docs/**"]
  not-legacy:
    repositories: ["!legacy/**"]
"""


def test_a_file_gives_scopes_repositories_refs_and_paths():
    assert parse(GOOD, file="f") == {
        "payments": Scope(
            "payments",
            "Everything that moves money",
            ("payments/*", "shared/ledger", "!payments/archive-*"),
            ("HEAD", "release-2"),
            ("src/**", "!**/testdata/**"),
        ),
        "docs": Scope("docs", paths=("docs/**",)),
        "not-legacy": Scope("not-legacy", repositories=("!legacy/**",)),
    }
    assert parse("scopes: {}", file="f") == NO_SCOPES


def test_a_scope_admits_what_a_glob_matches_and_no_exclusion_does():
    payments, docs, not_legacy = parse(GOOD, file="f").values()

    names = ["payments/api", "payments/archive-1", "payments/a/b", "shared/ledger", "legacy/a"]
    assert list(filter(payments.admits, names)) == ["payments/api", "shared/ledger"]
    assert list(filter(docs.admits, names)) == names
    assert list(filter(not_legacy.admits, names)) == names[:-1]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "is empty; write `scopes: {}`"),
        ("scope: {}", 1, "the file has no field 'scope'; it may have: scopes"),
        ("scopes:\n  a/b: {paths: [a]}", 2, "'a/b' cannot name a scope"),
        ("scopes:\n  a: {path: [a]}", 2, "'a' has no field 'path'; it may have: description,"),
        ("scopes:\n  a: {description: x}", 2, "give at least one of repositories, refs, paths"),
        ("scopes:\n  a: {paths: [a]}\n  a: {paths: [b]}", 3, "has 'a' twice"),
        ("scopes:\n  a:\n    repositories: x", 3, "repositories must be a list: [payments/*"),
        ("scopes:\n  a:\n    repositories: [a b]", 3, "repositories holds 'a b'; write names"),
        ("scopes:\n  a:\n    repositories: []", 3, "repositories is empty; leave the field out"),
        ("scopes:\n  a:\n    repositories: [/x]", 3, "holds '/x', which matches no name; remove"),
        ("scopes:\n  a:\n    repositories: [a, '!x/']", 3, "holds 'x/', which matches no name"),
        ("scopes:\n  a:\n    repositories: [a, '!**']", 3, "excludes every repository; remove it"),
        ("scopes:\n  a:\n    refs: [a..b]", 3, "holds an invalid ref: 'a..b' cannot be a branch"),
        ("scopes:\n  a:\n    paths: [/src]", 3, "holds an invalid glob: '/src' starts with '/'"),
        ("scopes:\n  a:\n    paths: ['!src/']", 3, "write 'src/**' for everything inside"),
        ("scopes:\n  a:\n    paths: ['[']", 3, "holds an invalid glob: '[' has an unclosed '['"),
        ("scopes:\n  a:\n    paths: ['']", 3, "paths holds an invalid glob: it is empty"),
        ("scopes:\n  a:\n    paths: ['a**/b**/c**/d**/e**/f**/g']", 3, "after a `/`"),
        ("scopes:\n  a:\n    paths: [1]", 3, "an entry of paths must be a text; write"),
        ('scopes:\n  a: {paths: [a], description: "a\\nb"}', 2, "description must be one line"),
    ],
)
def test_an_error_names_file_line_and_remedy(text, line, message):
    with pytest.raises(InvalidSettings) as told:
        parse(text, file="scopes.yaml")

    assert str(told.value).startswith(f"scopes.yaml:{line}: ")
    assert message in str(told.value)


def test_too_many_scopes_are_refused():
    declared = {f"s{number}": {"paths": ["a"]} for number in range(MAX_SCOPES + 1)}

    with pytest.raises(InvalidSettings, match="has 201 scopes; at most 200"):
        parse(yaml.safe_dump({"scopes": declared}), file="f")


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InvalidSettings, match=r"cannot read the scopes file .*gone\.yaml"):
        read(tmp_path / "gone.yaml")


def test_the_schema_accepts_what_the_parser_does():
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator.check_schema(schema())
    validator = jsonschema.Draft202012Validator(schema())

    assert validator.is_valid(yaml.safe_load(GOOD))
    for wrong in ("scope: {}", "scopes: {a/b: {paths: [a]}}", "scopes: {a: {description: x}}"):
        assert not validator.is_valid(yaml.safe_load(wrong))
        with pytest.raises(InvalidSettings):
            parse(wrong, file="f")
