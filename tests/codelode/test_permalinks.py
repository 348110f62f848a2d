import pytest

from codelode.permalinks import permalink

REVISION = "1a2b3c4d" * 5


@pytest.mark.parametrize(
    ("url", "link"),
    [
        ("https://github.com/acme/http", "https://github.com/acme/http/blob/REV/PATH#L3-L5"),
        ("https://github.com/acme/http.git", "https://github.com/acme/http/blob/REV/PATH#L3-L5"),
        ("git@github.com:acme/http.git", "https://github.com/acme/http/blob/REV/PATH#L3-L5"),
        ("https://github.acme.com/a/b", "https://github.acme.com/a/b/blob/REV/PATH#L3-L5"),
        ("https://gitlab.com/a/b/c.git", "https://gitlab.com/a/b/c/-/blob/REV/PATH#L3-5"),
        (
            "ssh://git@gitlab.acme.com:2222/a/b/c.git",
            "https://gitlab.acme.com/a/b/c/-/blob/REV/PATH#L3-5",
        ),
        (
            "https://gitlab.acme.com:8443/a/b",
            "https://gitlab.acme.com:8443/a/b/-/blob/REV/PATH#L3-5",
        ),
        ("https://codeberg.org/a/b.git", "https://codeberg.org/a/b/src/commit/REV/PATH#L3-L5"),
        ("https://gitea.acme.com/a/b", "https://gitea.acme.com/a/b/src/commit/REV/PATH#L3-L5"),
        ("https://forgejo.acme.com/a/b", "https://forgejo.acme.com/a/b/src/commit/REV/PATH#L3-L5"),
        ("https://bitbucket.org/a/b.git", "https://bitbucket.org/a/b/src/REV/PATH#lines-3:5"),
        (
            "https://bitbucket.acme.com/scm/PRJ/b.git",
            "https://bitbucket.acme.com/projects/PRJ/repos/b/browse/PATH?at=REV#3-5",
        ),
        (
            "ssh://git@bitbucket.acme.com:7999/PRJ/b.git",
            "https://bitbucket.acme.com/projects/PRJ/repos/b/browse/PATH?at=REV#3-5",
        ),
        (
            "https://dev.azure.com/acme/web/_git/http",
            "https://dev.azure.com/acme/web/_git/http?path=/PATH&version=GCREV"
            "&line=3&lineEnd=6&lineStartColumn=1&lineEndColumn=1&_a=contents",
        ),
        (
            "git@ssh.dev.azure.com:v3/acme/web/http",
            "https://dev.azure.com/acme/web/_git/http?path=/PATH&version=GCREV"
            "&line=3&lineEnd=6&lineStartColumn=1&lineEndColumn=1&_a=contents",
        ),
        (
            "https://acme.visualstudio.com/web/_git/http",
            "https://acme.visualstudio.com/web/_git/http?path=/PATH&version=GCREV"
            "&line=3&lineEnd=6&lineStartColumn=1&lineEndColumn=1&_a=contents",
        ),
        ("https://host.example/a/b", ""),
        ("https://notgithub.example/a/b", ""),
        ("/srv/git/github.com/a", ""),
        ("", ""),
    ],
)
def test_a_link_leads_to_the_lines_of_the_commit_on_the_host(url, link):
    expected = link.replace("REV", REVISION).replace("PATH", "src/a%20b%23%3F.py")

    assert permalink(url, REVISION, "src/a b#?.py", 3, 5) == expected


def test_a_repository_that_is_not_indexed_yet_has_no_link():
    assert permalink("https://github.com/acme/http", "", "a.py", 1, 2) == ""
