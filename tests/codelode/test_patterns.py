import shutil
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codelode import patterns
from tests.examples import examples
from tests.processor_time import processor_time_below


def _ignored(lines, path, *, is_folder=False):
    return patterns.parse("\n".join(lines).encode()).verdict(path.split("/"), is_folder=is_folder)


@pytest.mark.parametrize(
    ("line", "path", "verdict"),
    [
        ("*.log", "a/b.log", True),
        ("*.log", "a/b.logs", None),
        ("/a.log", "a.log", True),
        ("/a.log", "b/a.log", None),
        ("a/b", "a/b", True),
        ("a/b", "x/a/b", None),
        ("**/b", "b", True),
        ("**/b", "x/y/b", True),
        ("a/**", "a/b/c", True),
        ("a/**", "a", None),
        ("a/**/c", "a/c", True),
        ("a/**/c", "a/x/y/c", True),
        ("a**c", "abbc", True),
        ("a?c", "abc", True),
        ("a?c", "ac", None),
        ("[a-c]x", "bx", True),
        ("[!a-c]x", "bx", None),
        ("[^a-c]x", "dx", True),
        ("[]x]", "]", True),
        ("[[:digit:]_]", "7", True),
        ("[z-a]", "b", None),
        ("[unclosed", "u", None),
        (r"\#x", "#x", True),
        (r"\!x", "!x", True),
        (r"a\*", "a*", True),
        (r"a\*", "ab", None),
        ("#x", "#x", None),
        ("!x", "x", False),
        ("x ", "x", True),
        ("x\\ ", "x ", True),
        ("x\r", "x", True),
        ("x\\", "x", None),
        ("/", "x", None),
        ("ünï*", "ünïcode", True),
    ],
)
def test_a_pattern_means_what_gitignore_says(line, path, verdict):
    assert _ignored([line], path) is verdict


def test_a_pattern_that_ends_with_a_slash_is_for_folders():
    assert _ignored(["build/"], "build") is None
    assert _ignored(["build/"], "build", is_folder=True) is True


def test_the_last_pattern_that_matches_decides():
    assert _ignored(["*.py", "!a.py", "?.py"], "a.py") is True
    assert _ignored(["*.py", "!a.py"], "a.py") is False


def test_a_byte_order_mark_is_not_part_of_the_first_pattern():
    found = patterns.parse(b"\xef\xbb\xbfx\n")
    assert found.verdict(["x"], is_folder=False) is True


@pytest.mark.parametrize(
    "line",
    ["", " ", "# a", "!", "/", "[", "a[b", "a//b", "./a", "../a", "a/./b", "a\\"],
)
def test_a_pattern_that_can_match_no_path_is_recognised(line):
    assert not patterns.can_match(line)
    assert patterns.parse(line.encode()).patterns == ()


@pytest.mark.parametrize("line", ["a", "a/", "!a", r"\#a", "**", ".a", "a..b", "[.]"])
def test_a_line_that_some_path_matches_can_match(line):
    assert patterns.can_match(line)


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("*a*a*a*a*a*a*ab", "/".join(["a" * 250] * 16)),
        ("**/a/**/a/**/a/**/a/**/b", "/".join(["a"] * 2000)),
        ("**/*a*a*a*b/**/*a*a*b", "/".join(["a" * 100] * 40)),
        ("[a]*[a]*[a]*[a]*[a]*[a]b", "a" * 4000),
    ],
)
def test_a_hostile_pattern_costs_no_more_than_its_length(line, path):
    with processor_time_below(1):
        assert _ignored([line], path) is None


@given(st.binary(max_size=80))
def test_any_bytes_can_be_parsed(content):
    patterns.parse(content).verdict(["a", "b"], is_folder=False)


@pytest.fixture(scope="module")
def worktree(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tree")
    subprocess.run(["git", "init", "-q", folder], check=True)
    return folder


_NAMES = st.sampled_from(["a", "b", "ab", "a.c", "b.c", "-", "[a]", "a b", "#a", "!b"])
_PATHS = st.lists(_NAMES, min_size=1, max_size=4).map("/".join)
_WORDS = st.sampled_from(
    [
        "a",
        "b",
        "ab",
        "*",
        "**",
        "*.c",
        "?",
        "a*",
        "*b",
        "[ab]",
        "[!a]",
        "a.c",
        "\\*",
        "[]a]",
    ]
)
_LINES = st.builds(
    lambda bang, lead, words, tail: bang + lead + "/".join(words) + tail,
    st.sampled_from(["", "", "!", "#"]),
    st.sampled_from(["", "", "/"]),
    st.lists(_WORDS, min_size=1, max_size=3),
    st.sampled_from(["", "", "/", " ", "\\ "]),
)
_FILES = st.lists(_LINES, max_size=5).map("\n".join)


@settings(
    max_examples=examples(100, short=40), suppress_health_check=list(HealthCheck), deadline=None
)
@given(root=_FILES, nested=_FILES, paths=st.lists(_PATHS, min_size=1, max_size=12, unique=True))
def test_git_ignores_the_same_files(worktree, root, nested, paths):
    folder = _emptied(worktree)
    made = [path for path in paths if _write(folder, path)]
    rules = {".gitignore": root, "a/.gitignore": nested}
    rules = {path: text for path, text in rules.items() if _write(folder, path, text)}
    asked = "".join(f"{path}\0" for path in made)
    answer = subprocess.run(
        ["git", "-C", folder, "check-ignore", "--no-index", "-z", "--stdin"],
        input=asked.encode(), capture_output=True, check=False,
    )  # fmt: skip
    assert answer.returncode in (0, 1), answer.stderr
    expected = set(answer.stdout.decode().split("\0")) - {""}
    assert {path for path in made if _is_ignored(rules, path)} == expected


def _is_ignored(rules, path):
    """Apply the patterns as git does: the outermost ignored folder decides for all below it."""
    names = path.split("/")
    ends = range(1, len(names) + 1)
    return any(_verdict(rules, names[:end], is_folder=end < len(names)) for end in ends)


def _verdict(rules, names, *, is_folder):
    """Return the verdict of the deepest ignore file that matches exactly this path."""
    for depth in reversed(range(len(names))):
        text = rules.get("/".join([*names[:depth], ".gitignore"]), "")
        verdict = patterns.parse(text.encode()).verdict(names[depth:], is_folder=is_folder)
        if verdict is not None:
            return verdict
    return False


def _emptied(worktree):
    for entry in worktree.iterdir():
        if entry.name != ".git":
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    return worktree


def _write(folder, path, text="x"):
    """Write the file, if no other one is in its way."""
    target = folder / path
    if any(parent.is_file() for parent in target.parents) or target.is_dir():
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    return True
