import re

import pytest

from codelode.model import BlobId, SourceFile
from workers.pull.ignore import MAX_DEPTH, REASONS, Rules

BLOB = BlobId("0" * 40)


def reason(path, tree=None, *, size=10, mode=0o100644):
    """Why `path` is left out of a commit that has the other files of `tree` too."""
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
def test_the_defaults_leave_out_what_is_no_source(path, word):
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


def test_a_tracked_file_that_gitignore_names_is_left_out():
    assert reason("out/x.py", {".gitignore": "out/\n"}) == "gitignore"


def test_a_deeper_gitignore_wins():
    tree = {".gitignore": "*.py\n", "keep/.gitignore": "!*.py\n"}
    assert reason("a.py", tree) == "gitignore"
    assert reason("keep/a.py", tree) == ""


def test_nothing_below_an_ignored_folder_comes_back_by_gitignore():
    tree = {".gitignore": "out/\n!out/a.py\n", "out/.gitignore": "!*\n"}
    assert reason("out/a.py", tree) == "gitignore"


def test_codelodeignore_leaves_out():
    assert reason("docs/a.md", {".codelodeignore": "docs/\n"}) == "codelodeignore"
    assert reason("x/docs/a.md", {"x/.codelodeignore": "/docs\n"}) == "codelodeignore"


@pytest.mark.parametrize(
    ("path", "other"),
    [
        ("node_modules/ours/a.js", {}),
        ("vendor/ours/a.go", {"go.mod": ""}),
        ("out/a.py", {".gitignore": "out/\n"}),
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
def test_codelodeignore_cannot_force_in_what_is_no_text_or_too_large(path):
    tree = {".codelodeignore": "!*\n"}
    assert reason(path, tree) in ("media", "archive")
    assert reason("a.py", tree, size=5000) == "too_large"


def test_reasons_are_stable_words():
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", word) for word in REASONS)
    assert {"gitignore", "codelodeignore", "vendored", "build_output", "too_deep"} <= REASONS
