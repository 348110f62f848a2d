import itertools
import os
import subprocess
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codelode.addresses import check_name, check_ref, check_url, default_name, is_local
from codelode.errors import InvalidQuery


@pytest.fixture
def repository(tmp_path):
    path = tmp_path / "allowed" / "project"
    subprocess.run(["git", "init", "-q", path], check=True)
    return path


@pytest.mark.parametrize(
    ("written", "normal"),
    [
        ("https://host.example/a/b.git", "https://host.example/a/b.git"),
        ("HTTPS://Host.Example/A/b.git/", "https://host.example/A/b.git"),
        ("https://host.example:8443/a/b", "https://host.example:8443/a/b"),
        ("https://me@host.example/a/b", "https://host.example/a/b"),
        ("https://host.example/a%20b/c", "https://host.example/a%20b/c"),
        ("http://127.0.0.1:3000/a/b", "http://127.0.0.1:3000/a/b"),
        ("http://[::1]:3000/a", "http://[::1]:3000/a"),
        ("http://localhost/a", "http://localhost/a"),
        ("ssh://git@host.example:2222/a/b.git", "ssh://git@host.example:2222/a/b.git"),
        ("git@Host.Example:a/b.git", "git@host.example:a/b.git"),
    ],
)
def test_a_harmless_url_is_normalised(written, normal):
    assert check_url(written, local_paths="") == normal
    assert check_url(normal, local_paths="") == normal


@pytest.mark.parametrize(
    ("url", "remedy"),
    [
        ("", "empty"),
        ("https://host.example/a\nb", "control characters"),
        ("https://host.example/a%0ab", "control characters"),
        ("https://host.example/a\x7f", "control characters"),
        ("https://host.example/" + "a" * 3000, "at most"),
        ("-u/tmp/x", "dash"),
        ("--upload-pack=touch /tmp/x", "dash"),
        ("ext::sh -c 'touch /tmp/x'", "run programs"),
        ("fd::17/x", "run programs"),
        ("ext::https://host.example/a", "run programs"),
        ("file:///etc", "plain path"),
        ("git://host.example/a", "not allowed"),
        ("ftp://host.example/a", "not allowed"),
        ("http://host.example/a", "use https"),
        ("http://169.254.169.254/a", "use https"),
        ("https://me:secret@host.example/a", "credential helper"),
        ("https://me:@host.example/a", "credential helper"),
        ("ssh://git:secret@host.example/a", "credential helper"),
        ("me:secret@host.example:a/b", "form"),
        ("ssh://-oProxyCommand=x@host.example/a", "user name"),
        ("ssh://-oProxyCommand=x/a", "host name"),
        ("git@-oProxyCommand=x:a", "form"),
        ("git@host.example:-x", "path"),
        ("https:///a", "host name"),
        ("https://host.example", "no repository"),
        ("https://host.example/", "no repository"),
        ("https://host.example:99999/a", "valid URL"),
        ("https://[::1/a", "valid URL"),
        ("https://host.example/a?b=c", "query"),
        ("https://host.example/a#b", "query"),
        ("https://host.example/a b", "query"),
        ("relative/path", "absolute path"),
        ("./here", "absolute path"),
        ("~/here", "absolute path"),
        ("host.example:a/b", "absolute path"),
    ],
)
def test_any_other_url_is_refused_with_the_remedy(url, remedy):
    with pytest.raises(InvalidQuery, match=remedy) as raised:
        check_url(url, local_paths="/")
    assert raised.value.field == "url"
    assert "secret" not in raised.value.message


#: Forms of an address that hold a secret, and are refused.
LEAKS = (
    "https:/me:{}@host.example/a",
    "https:me:{}@host.example/a",
    "//me:{}@host.example/a",
    "/me:{}@host.example/a",
    "htps://me:{}@host.example/a",
    "https://me:{}@host.example:port/a",
    "https://me:{}",
    "https://me:{}/host.example/a",
    "https://me:{}@/a",
    "https://host.example/a?access_token={}",
    "host.example/a?access_token={}",
    "http://me:{}@host.example/a",
    "git://me:{}@host.example/a",
    "me:{}@host.example:a/b",
    "-me:{}@host.example:a/b",
    "me:{}::x@host.example",
    "ssh://{}@host.example/a/b",
    "{}@host.example:a/b",
    "https//me:{}@host.example/a",
    "file://me:{}@host.example/a",
)
SECRETS = (
    *("SECRET", "ghp_0123456789abcdef", "glpat-abcdefghij", "s3cret!", "0123456789abcdef" * 2),
    *("a94a8fe5ccb19ba61c4c0873d391e987982fbbd3", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
)


@pytest.mark.parametrize("form", LEAKS)
def test_a_secret_in_an_address_is_refused_and_not_repeated(form):
    for secret, local_paths in itertools.product(SECRETS, ("", "owned", "/srv")):
        with pytest.raises(InvalidQuery) as raised:
            check_url(form.format(secret), local_paths=local_paths)
        assert secret not in str(raised.value), local_paths
        assert raised.value.__cause__ is None or secret not in str(raised.value.__cause__)


@pytest.mark.parametrize("user", ["git", "hg", "org-123", "alice.b", "APKAEIBAERJR2EXAMPLE"])
def test_the_user_name_in_an_ssh_url_is_kept(user):
    for url in (f"{user}@host.example:a/b", f"ssh://{user}@host.example/a/b"):
        assert check_url(url, local_paths="") == url


@given(st.text(max_size=60))
def test_any_text_is_either_normalised_or_refused(url):
    try:
        normal = check_url(url, local_paths="")
    except InvalidQuery:
        return
    assert not is_local(normal)
    assert check_url(normal, local_paths="") == normal


def test_no_local_path_is_allowed_by_default(repository):
    with pytest.raises(InvalidQuery, match="CODELODE_LOCAL_PATHS"):
        check_url(str(repository), local_paths="")


def test_a_repository_below_a_listed_folder_is_allowed(repository, tmp_path):
    listed = f"/nowhere:{tmp_path / 'allowed'}"
    assert check_url(f"{repository}/", local_paths=listed) == str(repository)


def test_a_folder_whose_name_only_starts_like_an_allowed_one_is_refused(repository, tmp_path):
    with pytest.raises(InvalidQuery, match=r"outside.*--allow-path FOLDER") as raised:
        check_url(str(repository), local_paths=str(tmp_path / "allow"))
    # The error does not reveal which folders are allowed.
    assert raised.value.message.count("/") == str(repository).count("/")


def test_errors_do_not_reveal_whether_paths_outside_the_allowed_folders_exist(tmp_path):
    (tmp_path / "allowed").mkdir()
    (tmp_path / "there").mkdir()
    messages = set()
    for name in ("there", "not-there"):
        with pytest.raises(InvalidQuery) as raised:
            check_url(str(tmp_path / name), local_paths=str(tmp_path / "allowed"))
        messages.add(raised.value.message.replace(name, ""))
    assert len(messages) == 1


def test_a_link_out_of_the_listed_folders_is_followed_before_it_is_compared(repository, tmp_path):
    listed = tmp_path / "listed"
    listed.mkdir()
    (listed / "link").symlink_to(repository)
    with pytest.raises(InvalidQuery, match="outside"):
        check_url(str(listed / "link"), local_paths=str(listed))


def _worktree_file(listed: Path, repository: Path) -> Path:
    (listed / "x").mkdir()
    (listed / "x" / ".git").write_text(f"gitdir: {repository / '.git'}\n")
    return listed / "x"


def _git_link(listed: Path, repository: Path) -> Path:
    (listed / "x").mkdir()
    (listed / "x" / ".git").symlink_to(repository / ".git")
    return listed / "x"


def _common_folder(listed: Path, repository: Path) -> Path:
    subprocess.run(["git", "init", "-q", "--bare", listed / "x"], check=True)
    (listed / "x" / "commondir").write_text(str(repository / ".git"))
    return listed / "x"


def _objects_link(listed: Path, repository: Path) -> Path:
    (listed / "x").mkdir()
    (listed / "x" / "HEAD").write_text("ref: refs/heads/main\n")
    (listed / "x" / "refs").mkdir()
    (listed / "x" / "objects").symlink_to(repository / ".git" / "objects")
    return listed / "x"


def _borrowed_objects(listed: Path, repository: Path) -> Path:
    subprocess.run(["git", "init", "-q", "--bare", listed / "x"], check=True)
    alternates = listed / "x" / "objects" / "info" / "alternates"
    alternates.write_text(f"{repository / '.git' / 'objects'}\n")
    return listed / "x"


@pytest.mark.parametrize(
    "disguise", [_worktree_file, _git_link, _common_folder, _objects_link, _borrowed_objects]
)
def test_every_folder_that_git_would_read_must_be_allowed(repository, tmp_path, disguise):
    listed = tmp_path / "listed"
    listed.mkdir()
    path = disguise(listed, repository)
    with pytest.raises(InvalidQuery, match="outside"):
        check_url(str(path), local_paths=str(listed))
    assert check_url(str(path), local_paths=str(tmp_path)) == str(path)


@pytest.mark.parametrize(
    ("make", "remedy"),
    [
        (lambda path: None, r"no folder .*; check the path"),
        (lambda path: path.mkdir(), "not a git repository"),
        (lambda path: path.write_text("a file"), "not a git repository"),
    ],
    ids=["missing", "plain folder", "file"],
)
def test_a_path_without_a_repository_is_refused(tmp_path, make, remedy):
    make(tmp_path / "x")
    with pytest.raises(InvalidQuery, match=remedy):
        check_url(str(tmp_path / "x"), local_paths=str(tmp_path))


def test_a_folder_inside_a_repository_is_not_the_repository(repository):
    (repository / "src").mkdir()
    with pytest.raises(InvalidQuery, match=r"holds \.git"):
        check_url(str(repository / "src"), local_paths="owned")


def test_a_repository_of_this_user_is_owned(repository):
    assert check_url(str(repository), local_paths="owned") == str(repository)


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a folder away needs root")
def test_a_repository_of_another_user_is_not_owned(repository):
    os.chown(repository / ".git", 12_345, 12_345)
    with pytest.raises(InvalidQuery, match=r"not owned by the user.*--allow-path FOLDER"):
        check_url(str(repository), local_paths="owned")


def test_a_bare_repository_is_accepted(tmp_path):
    subprocess.run(["git", "init", "-q", "--bare", tmp_path / "x.git"], check=True)
    assert check_url(str(tmp_path / "x.git"), local_paths="owned") == str(tmp_path / "x.git")


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://host.example/owner/repo.git", "owner/repo"),
        ("https://host.example/group/sub/repo", "sub/repo"),
        ("https://host.example/repo.git", "repo"),
        ("https://host.example/org/project/_git/repo", "project/repo"),
        ("https://host.example/~me/a%20b", "me/a-b"),
        ("ssh://git@host.example:22/owner/repo.git", "owner/repo"),
        ("git@host.example:owner/repo.git", "owner/repo"),
        ("git@host.example:repo", "repo"),
        ("/home/me/repo", "repo"),
        ("/home/me/repo.git", "repo"),
        ("/home/me/repo/.git", "repo"),
        ("/home/me/.dotfiles", "dotfiles"),
        ("/home/me/a..b c", "a-b-c"),
    ],
)
def test_a_name_is_made_from_the_url(url, name):
    assert default_name(url) == name


@pytest.mark.parametrize("url", ["/", "/home/…"])
def test_a_url_without_a_usable_name_asks_for_one(url):
    with pytest.raises(InvalidQuery, match="give one") as raised:
        default_name(url)
    assert raised.value.field == "name"


@given(st.text(min_size=1, max_size=300))
def test_every_name_that_is_made_is_a_valid_one(path):
    try:
        name = default_name(f"/{path}")
    except InvalidQuery:
        return
    assert check_name(name) == name


@pytest.mark.parametrize("name", ["repo", "owner/repo", "a.b_c-d/E9", "_x", ".github", "x" * 200])
def test_a_plain_name_passes(name):
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "x" * 201,
        "a b",
        "a\nb",
        "é",
        "-a",
        "/a",
        "a/",
        "a//b",
        "..",
        "a/../b",
        "a..b",
        "./a",
        "a/.",
    ],
)
def test_a_name_that_could_be_an_option_or_a_path_is_refused(name):
    with pytest.raises(InvalidQuery) as raised:
        check_name(name)
    assert raised.value.field == "name"


@pytest.mark.parametrize(
    "ref",
    ["main", "feature/x-1", "v1.0", "HEAD", "a" * 40, "refs/heads/main", "ünïcode", "a@b", "{x}"],
)
def test_a_ref_as_git_prints_it_passes(ref):
    assert check_ref(ref) == ref


@given(st.text(alphabet="ab/.-@{}~^:?*[\\ \x01lock", min_size=1, max_size=12))
def test_the_rules_for_refs_are_those_of_git(ref):
    answer = subprocess.run(["git", "check-ref-format", "--allow-onelevel", ref], check=False)
    is_valid = answer.returncode == 0 and not ref.startswith("-")
    with nullcontext() if is_valid else pytest.raises(InvalidQuery, match="ref"):
        check_ref(ref)


@pytest.mark.parametrize("ref", ["", "x" * 251, "--output=/tmp/x", "a\x00b"])
def test_a_ref_that_git_might_misread_is_refused(ref):
    with pytest.raises(InvalidQuery):
        check_ref(ref)
