"""A repository's own queries are read at a commit, and a change of one affects every file."""

from codelode.languages import QUERIES_FOLDER
from codelode.model import FileRecord, FileState
from workers.parse import own_queries
from workers.pull import plan

QUERY = f"{QUERIES_FOLDER}python.scm"
FILES = {"a.py": "a", "b/c.rb": "b", QUERY: "(module) @x"}


def changed(source, wanted, *, indexed, known=()):
    manifest = plan(source.path, wanted, indexed=indexed, known=lambda: known, max_file_bytes=1_000)
    return [item.path for item in manifest.items if not item.is_removal]


def test_a_changed_query_affects_every_file(source):
    first = source.commit(FILES)
    second = source.commit({QUERY: "(module) @y"})
    assert sorted(changed(source, second, indexed=first)) == sorted(FILES)


def test_a_removed_query_affects_every_file(source):
    first = source.commit(FILES)
    second = source.commit({QUERY: None})
    assert sorted(changed(source, second, indexed=first)) == ["a.py", "b/c.rb"]


def test_other_changes_affect_only_the_changed_file(source):
    first = source.commit(FILES)
    assert changed(source, source.commit({"a.py": "x"}), indexed=first) == ["a.py"]


def test_after_a_forced_push_the_queries_are_compared_too(source):
    first = plan(
        source.path, source.commit(FILES), indexed=None, known=lambda: (), max_file_bytes=1_000
    )
    records = [FileRecord(i.path, i.blob, FileState.INDEXED) for i in first.items]
    gone = "1234567890" * 4
    same = source.commit({"a.py": "x"})
    assert changed(source, same, indexed=gone, known=records) == ["a.py"]
    other = source.commit({QUERY: "(module) @y"})
    assert sorted(changed(source, other, indexed=gone, known=records)) == sorted(FILES)


def test_the_queries_of_languages_are_read_at_a_commit(source, mirrors, repository, blobs):
    large = f"{QUERIES_FOLDER}go.scm"
    others = {f"{QUERIES_FOLDER}{at}.scm": "x" for at in ("mine", "sub/python", "rust.scm/c")}
    commit = source.commit({**FILES, **others, large: "x" * 50})
    source.commit({QUERY: "(module) @later"})
    mirrors.sync(repository)
    found = dict(blobs.files(repository.name, commit, own_queries.PATHS, max_bytes=20))
    assert found == {QUERY: b"(module) @x", large: b" " * 21}
    assert list(blobs.files(repository.name, commit, ["nothing"], max_bytes=20)) == []
