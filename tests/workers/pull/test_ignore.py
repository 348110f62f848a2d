import re
import time

import pytest

from codelode.model import BlobId, FilePatterns, SourceFile
from workers.pull.ignore import MAX_DEPTH, REASONS, Rules

BLOB = BlobId("0" * 40)


def reason(path, tree=None, *, size=10, mode=0o100644):
    """Return why `path` is left out of a commit with the files of `tree`."""
    files = {name: content.encode() for name, content in (tree or {}).items()}
    return Rules(files.get, max_file_bytes=1000).reason(SourceFile(path, BLOB, size, mode))


@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("src/app.py", ""),
        ("Makefile", ""),
        (".gitignore", ""),
        ("assets/logo.PNG", "media"),
        ("a.woff2", "font"),
        ("lib/x.jar", "archive"),
        ("x.so", "binary"),
        ("bin", ""),
        (".bin", ""),
        ("src/lib", ""),
        ("a/node_modules/b/c.js", "vendored"),
        ("node_modules.py", ""),
        ("src/__pycache__/x.txt", "build_output"),
        ("src/vendor/order.py", ""),
        ("dist/app.js", ""),
        ("build/config.js", ""),
    ],
)
def test_the_defaults_leave_out_files_that_are_not_source_code(path, word):
    assert reason(path) == word


@pytest.mark.parametrize(
    ("path", "beside", "word"),
    [
        ("vendor/x/y.go", "go.mod", "vendored"),
        ("tools/vendor/x/y.go", "tools/go.mod", "vendored"),
        ("tools/vendor/x/y.go", "go.mod", ""),
        ("vendor/autoload.php", "composer.json", "vendored"),
        ("dist/app.js", "package.json", "build_output"),
        ("target/classes/a.txt", "pom.xml", "build_output"),
        ("src/dist/mod.rs", "Cargo.toml", ""),
    ],
)
def test_a_folder_is_filled_by_a_tool_only_beside_the_file_of_that_tool(path, beside, word):
    assert reason(path, {beside: ""}) == word


@pytest.mark.parametrize(
    ("facts", "word"),
    [
        ({"mode": 0o120000}, "symlink"),
        ({"mode": 0o160000, "size": 0}, "submodule"),
        ({"size": 1001}, "too_large"),
        ({"size": 1000}, ""),
        ({"size": 0}, ""),
        ({"size": -1}, "missing"),
    ],
)
def test_an_entry_is_judged_by_its_kind_and_size_before_it_is_read(facts, word):
    assert reason("a.py", **facts) == word


def test_a_path_of_absurd_depth_is_left_out():
    assert reason("a/" * MAX_DEPTH + "x.py") == ""
    assert reason("a/" * 2000 + "x.py") == "too_deep"


def test_gitignore_does_not_concern_files_that_git_tracks():
    tree = {".gitignore": "configure\nout/\n", "deps/.gitignore": "VERSION\n"}
    assert reason("configure", tree) == ""
    assert reason("out/x.py", tree) == ""
    assert reason("deps/VERSION", tree) == ""


def test_a_deeper_codelodeignore_wins():
    tree = {".codelodeignore": "*.py\n", "keep/.codelodeignore": "!*.py\n"}
    assert reason("a.py", tree) == "codelodeignore"
    assert reason("keep/a.py", tree) == ""


def test_codelodeignore_leaves_out():
    assert reason("docs/a.md", {".codelodeignore": "docs/\n"}) == "codelodeignore"
    assert reason("x/docs/a.md", {"x/.codelodeignore": "/docs\n"}) == "codelodeignore"


@pytest.mark.parametrize(
    ("path", "other"),
    [
        ("node_modules/ours/a.js", {}),
        ("vendor/ours/a.go", {"go.mod": ""}),
    ],
)
def test_codelodeignore_forces_a_file_in(path, other):
    assert reason(path, other) != ""
    assert reason(path, {**other, ".codelodeignore": f"!{path}\n"}) == ""
    assert reason(path, {**other, ".codelodeignore": f"!{path.rpartition('/')[0]}/\n"}) == ""


def test_codelodeignore_forces_in_below_a_folder_that_it_leaves_out():
    tree = {".codelodeignore": "gen/\n!gen/api/\n*.min.js\n"}
    assert reason("gen/a.py", tree) == "codelodeignore"
    assert reason("gen/api/a.py", tree) == ""
    assert reason("gen/api/a.min.js", tree) == "codelodeignore"


@pytest.mark.parametrize("path", ["a.png", "a.zip"])
def test_codelodeignore_cannot_include_binary_or_too_large_files(path):
    tree = {".codelodeignore": "!*\n"}
    assert reason(path, tree) in ("media", "archive")
    assert reason("a.py", tree, size=5000) == "too_large"


def chosen(path, tree=None, *, include=(), exclude=(), size=10):
    """Return why `path` is left out of a repository with patterns of its operator."""
    files = {name: content.encode() for name, content in (tree or {}).items()}
    rules = Rules(files.get, 1000, FilePatterns(tuple(include), tuple(exclude)))
    return rules.reason(SourceFile(path, BLOB, size))


@pytest.mark.parametrize(
    ("pattern", "path", "is_matched"),
    [
        ("src/", "src/a/b.py", True),
        ("src/", "lib/src/b.py", True),
        ("/src/", "lib/src/b.py", False),
        ("src/", "src", False),
        ("*.py", "a/b/c.py", True),
        ("*.py", "c.pyi", False),
        ("src/**/*.py", "src/a/b/c.py", True),
        ("a/b", "a/b/c.py", True),
        (r"\!a", "!a", True),
    ],
)
def test_patterns_of_the_operator_are_read_as_at_the_root(pattern, path, is_matched):
    assert chosen(path, include=[pattern]) == ("" if is_matched else "not_included")
    assert chosen(path, exclude=[pattern]) == ("excluded" if is_matched else "")


def test_a_file_is_indexed_if_it_matches_an_included_and_no_excluded_pattern():
    patterns = {"include": ["src/", "*.md"], "exclude": ["gen/", "/src/old.py"]}
    assert chosen("src/a.py", **patterns) == ""
    assert chosen("docs/a.md", **patterns) == ""
    assert chosen("docs/a.py", **patterns) == "not_included"
    assert chosen("src/gen/a.py", **patterns) == "excluded"
    assert chosen("gen/a.md", **patterns) == "excluded"
    assert chosen("src/old.py", **patterns) == "excluded"


def test_patterns_of_the_user_override_what_the_repository_forces_in():
    tree = {".codelodeignore": "!*\n", "gen/.codelodeignore": "!*\n"}
    assert chosen("gen/a.py", tree, exclude=["gen/"]) == "excluded"
    assert chosen("gen/a.py", tree, include=["src/"]) == "not_included"
    assert chosen("gen/a.py", include=["src/"], exclude=["!gen/"]) == "not_included"


@pytest.mark.parametrize("path", ["node_modules/a.py", "old/a.py"])
def test_an_include_pattern_forces_no_file_in_but_a_negated_exclude_pattern_does(path):
    tree = {".codelodeignore": "old/\n"}
    why = chosen(path, tree)
    assert why in ("vendored", "codelodeignore")
    assert chosen(path, tree, include=["*.py", "old/"]) == why
    assert chosen(path, tree, exclude=["*.js", f"!{path}"]) == ""
    assert chosen(path, tree, include=["*.py"], exclude=["*.js", f"!{path}"]) == ""


def test_the_last_matching_exclude_pattern_of_the_nearest_path_decides():
    assert chosen("a/b.py", exclude=["*.py", "!b.py"]) == ""
    assert chosen("a/b.py", exclude=["!b.py", "*.py"]) == "excluded"
    assert chosen("a/keep/b.py", exclude=["a/", "!a/keep/"]) == ""


def test_the_operator_cannot_include_binary_or_too_large_files():
    assert chosen("a.png", include=["*.png"], exclude=["!*"]) == "media"
    assert chosen("a.py", include=["*"], exclude=["!*"], size=5000) == "too_large"


@pytest.mark.slow
def test_as_many_hostile_patterns_as_are_allowed_cost_no_more_than_their_length():
    hostile = ("**/" * 150 + "*a*a*a*b", "*a" * 240 + "b", "[a-z]*" * 80 + "!")
    lines = [line[:500] for line in hostile for _ in range(33)]
    path = "/".join(["a" * 200] * 20)
    start = time.process_time()
    assert chosen(path, include=lines, exclude=lines) == "not_included"
    assert time.process_time() - start < 5


def test_reasons_are_stable_words():
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", word) for word in REASONS)
    assert {"codelodeignore", "vendored", "build_output", "too_deep"} <= REASONS
    assert {"excluded", "not_included"} <= REASONS
