"""A plan has the files of a commit to index, to remove, and to skip."""

import pytest

from codelode.errors import NotFound
from codelode.model import BlobId, FileRecord, FileState, Revision
from workers.pull import ignore
from workers.pull.changes import plan

FILE, PROGRAM, LINK, SUBMODULE = "100644", "100755", "120000", "160000"
COMMIT = "1234567890" * 4


def never():
    raise AssertionError("the ledger was asked")


@pytest.fixture
def manifest(source):
    def compare(wanted, *, indexed=None, known=never, **options):
        known = known if callable(known) else lambda records=known: records
        return plan(
            source.path, wanted, indexed=indexed, known=known, max_file_bytes=1000, **options
        )

    return compare


def indexed_paths(manifest):
    return [item.path for item in manifest.items if not item.is_removal]


def removed_paths(manifest):
    return [item.path for item in manifest.items if item.is_removal]


def skipped(manifest):
    return {record.path: record.reason for record in manifest.skipped}


def records(manifest):
    """Return the ledger's records after a run of the manifest that indexed every file."""
    done = [FileRecord(i.path, i.blob, FileState.INDEXED) for i in manifest.items if i.blob]
    return (*done, *manifest.skipped)


def after(before, manifest):
    """Return the records after another run, from those before it."""
    found = {record.path: record for record in before}
    for path in removed_paths(manifest):
        found.pop(path)
    found.update({record.path: record for record in records(manifest)})
    return found


EVERYTHING = {
    "a.py": "a",
    "crlf.txt": b"one\r\ntwo\r\n",
    "empty": "",
    "dir/b.py": "b",
    "dir/run.sh": "c",
    b"caf\xe9.py": "latin-1 name",
    "ünï\ncode.py": "utf-8 name",
    "link": "a.py",
    "sub": COMMIT,
    "big.txt": "x" * 1001,
    "logo.png": b"\x89PNG",
}
MODES = {"dir/run.sh": PROGRAM, "link": LINK, "sub": SUBMODULE}
SKIPPED = {"link": "symlink", "sub": "submodule", "big.txt": "too_large", "logo.png": "media"}


def test_the_first_run_indexes_each_file_or_records_why_not(source, manifest):
    revision = source.commit(EVERYTHING, modes=MODES)
    found = manifest(revision, known=())
    assert found.revision == revision
    assert sorted(indexed_paths(found)) == sorted(
        ["a.py", "crlf.txt", "empty", "dir/b.py", "dir/run.sh", r"caf\xe9.py", "ünï\ncode.py"]
    )
    assert skipped(found) == SKIPPED
    assert removed_paths(found) == []


def test_items_carry_the_blob_and_its_size(source, manifest):
    revision = source.commit({"a.py": "four"})
    (item,) = manifest(revision, known=()).items
    assert item.blob == source.git("rev-parse", "main:a.py")
    assert item.size_bytes == 4


def test_nothing_is_done_for_an_indexed_revision(source, manifest):
    revision = source.commit({"a.py": "a"})
    found = manifest(revision, indexed=revision)
    assert (found.items, found.skipped) == ((), ())


CHANGES = {
    "modified": ({"a.py": "new"}, {}, ["a.py"], []),
    "added": ({"new/x.py": "x"}, {}, ["new/x.py"], []),
    "deleted": ({"a.py": None}, {}, [], ["a.py"]),
    "renamed": ({"dir/b.py": None, "dir/c.py": "b"}, {}, ["dir/c.py"], ["dir/b.py"]),
    "permission": ({"a.py": "a"}, {"a.py": PROGRAM}, [], []),
    "file to link": ({"a.py": "empty"}, {"a.py": LINK}, [], ["a.py"]),
    "link to file": ({"link": "text"}, {}, ["link"], []),
    "file to submodule": ({"a.py": COMMIT}, {"a.py": SUBMODULE}, [], ["a.py"]),
    "submodule moved": ({"sub": COMMIT[::-1]}, {"sub": SUBMODULE}, [], []),
    "grown too large": ({"a.py": "x" * 1001}, {}, [], ["a.py"]),
    "shrunk": ({"big.txt": "x"}, {}, ["big.txt"], []),
    "odd path": ({b"caf\xe9.py": "new"}, {}, [r"caf\xe9.py"], []),
    "line ends": ({"crlf.txt": b"one\ntwo\n"}, {}, ["crlf.txt"], []),
    "skipped file deleted": ({"logo.png": None}, {}, [], ["logo.png"]),
    "skipped file changed": ({"logo.png": b"\x89PNG2"}, {}, [], []),
    "folder to file": ({"dir": "now a file"}, {}, ["dir"], ["dir/b.py", "dir/run.sh"]),
}


@pytest.mark.parametrize("case", CHANGES.values(), ids=CHANGES)
def test_the_next_run_gets_only_the_differences(source, manifest, case):
    changes, modes, to_index, to_remove = case
    first = source.commit(EVERYTHING, modes=MODES)
    second = source.commit(changes, modes=modes)
    found = manifest(second, indexed=first)
    assert sorted(indexed_paths(found)) == sorted(to_index)
    assert sorted(removed_paths(found)) == sorted(to_remove)


RULES = {
    **CHANGES,
    "gitignore appears": ({".gitignore": "dir/\n"}, {}, [], []),
    "codelodeignore appears": ({"dir/.codelodeignore": "*.py\n"}, {}, [], []),
    "package.json appears": (
        {"dir/b.py": None, "dist/x.js": "x", "package.json": "{}"},
        {},
        [],
        [],
    ),
}


@pytest.mark.parametrize("case", RULES.values(), ids=RULES)
def test_an_incremental_run_leaves_the_same_records_as_a_first_run(source, manifest, case):
    changes, modes, _, _ = case
    first = source.commit(EVERYTHING, modes=MODES)
    second = source.commit(changes, modes=modes)
    before = records(manifest(first, known=()))
    fresh = {record.path: record for record in records(manifest(second, known=()))}
    assert after(before, manifest(second, indexed=first, known=before)) == fresh
    assert after(before, manifest(second, known=before, full=True)) == fresh
    assert after(before, manifest(second, known=before, reindex=True)) == fresh


def test_tracked_files_are_indexed_in_spite_of_gitignore(source, manifest):
    files = {".gitignore": "configure\nVERSION\n", "configure": "exit\n", "deps/VERSION": "5.3\n"}
    found = manifest(source.commit(files), known=())
    assert indexed_paths(found) == sorted(files)
    assert skipped(found) == {}


def test_changed_ignore_rules_apply_to_unchanged_files(source, manifest):
    first = source.commit({".codelodeignore": "old/\n", "old/a.py": "a", "new/b.py": "b"})
    before = records(manifest(first, known=()))
    second = source.commit({".codelodeignore": "new/\n"})
    found = manifest(second, indexed=first, known=before)
    assert indexed_paths(found) == [".codelodeignore", "old/a.py"]
    assert removed_paths(found) == ["new/b.py"]
    assert skipped(found) == {"new/b.py": "codelodeignore"}


def test_a_new_package_json_makes_the_dist_folder_beside_it_build_output(source, manifest):
    first = source.commit({"dist/a.js": "a"})
    before = records(manifest(first, known=()))
    second = source.commit({"package.json": "{}"})
    found = manifest(second, indexed=first, known=before)
    assert removed_paths(found) == ["dist/a.js"]


def test_after_a_forced_push_the_commit_is_compared_with_the_ledger(source, manifest):
    first = source.commit({"a.py": "a", "b.py": "b", "c.py": "c"})
    before = records(manifest(first, known=()))
    second = source.commit({"a.py": "a", "b.py": "changed"}, branch="other")
    gone = Revision("f" * 40)
    found = manifest(second, indexed=gone, known=before)
    assert indexed_paths(found) == ["b.py"]
    assert removed_paths(found) == ["c.py"]


def test_a_full_comparison_continues_an_unfinished_run(source, manifest):
    files = ("done.py", "pending.py", "failed.py", "lost.py", "due.py")
    revision = source.commit({path: path for path in files})
    blob = {item.path: item.blob for item in manifest(revision, known=()).items}
    known = (
        FileRecord("done.py", blob["done.py"], FileState.INDEXED),
        FileRecord("pending.py", blob["pending.py"], FileState.PENDING),
        FileRecord("due.py", blob["due.py"], FileState.INDEXED, is_due=True),
        FileRecord("failed.py", blob["failed.py"], FileState.FAILED, "crashed"),
        FileRecord("vanished.py", BlobId("a" * 40), FileState.PENDING),
    )
    found = manifest(revision, indexed=revision, known=known, full=True)
    assert indexed_paths(found) == ["due.py", "lost.py", "pending.py"]
    assert removed_paths(found) == ["vanished.py"]


def test_a_file_that_was_skipped_for_its_content_is_not_read_again(source, manifest):
    revision = source.commit({"a.dat": "a", "b.dat": "b"})
    blob = {item.path: item.blob for item in manifest(revision, known=()).items}
    assert "unreadable" not in ignore.REASONS
    known = (
        FileRecord("a.dat", blob["a.dat"], FileState.SKIPPED, "unreadable"),
        FileRecord("b.dat", blob["b.dat"], FileState.SKIPPED, "codelodeignore"),
    )
    found = manifest(revision, known=known, full=True)
    assert indexed_paths(found) == ["b.dat"]


def test_a_reindex_includes_unchanged_files(source, manifest):
    revision = source.commit({"a.py": "a", "logo.png": "x"})
    before = records(manifest(revision, known=()))
    found = manifest(revision, indexed=revision, known=before, reindex=True)
    assert indexed_paths(found) == ["a.py"]
    assert skipped(found) == {"logo.png": "media"}


def test_a_revision_that_the_mirror_lacks_is_not_found(source, manifest):
    source.commit({"a.py": "a"})
    with pytest.raises(NotFound):
        manifest(Revision("f" * 40), known=())
    with pytest.raises(NotFound, match="--output"):
        manifest(Revision("--output=/tmp/x"), known=())


def test_a_path_too_deep_for_recursion_is_skipped(source, manifest):
    deep = "/".join(["d"] * 1500) + "/x.py"
    found = manifest(source.commit({deep: "x"}), known=())
    assert skipped(found) == {deep: "too_deep"}
