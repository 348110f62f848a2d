"""Recently changed files are found from the commits of a real repository."""

from __future__ import annotations

import pytest

from codelode.errors import NotFound
from workers.pull import recent, recently_changed

A, B, C = ("src/a.py", "src/b.py", "src/c.py")


def test_recently_changed_paths_are_listed_latest_first_without_repetition(source):
    source.commit({A: "1", B: "1", C: "1"})
    source.commit({A: "2"})
    source.commit({C: "2"})
    last = source.commit({C: "3", b"od\xffd\nname.py": "1"})
    assert recently_changed(source.path, last) == ("od\\xffd\nname.py", C, A, B)


def test_a_commit_that_changes_too_many_files_is_ignored(source, monkeypatch):
    monkeypatch.setattr(recent, "MOST_FILES", 2)
    source.commit({A: "1"})
    last = source.commit({A: "2", B: "2", C: "2"})
    assert recently_changed(source.path, last) == (A,)


def test_only_a_limited_number_of_commits_is_read(source, monkeypatch):
    monkeypatch.setattr(recent, "COMMITS", 1)
    source.commit({A: "1"})
    last = source.commit({B: "1"})
    assert recently_changed(source.path, last) == (B,)


def test_an_option_is_refused_as_a_revision(source):
    with pytest.raises(NotFound):
        recently_changed(source.path, "--output=x")
