"""A baseline without an index: grep for the words of a query and read the files.

Files are ranked by how many different words of the query they contain, then by how many lines
contain one; each is read in full. In a git repository, the files of a commit are read from its
objects, because those are indexed; so a bare mirror suffices, and other files of a work tree do not
count.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from codelode.environment import without_settings
from codelode.errors import InvalidSettings
from codelode.mirrors import folder_name
from codelode.model import RepositoryName
from codelode.operations.evaluation.judged import CHARS_PER_TOKEN, TOP_K, Shown
from codelode.operations.evaluation.metrics import SourceLocation

#: Shortest words that are searched, characters.
SHORTEST = 3
#: Largest files that are read, bytes. Files with a NUL byte are not read either.
MAX_BYTES = 1_000_000
#: Blobs that one call of git reads.
BLOBS = 256


@dataclass(frozen=True, slots=True)
class Text:
    """A file as grep sees it."""

    lines: tuple[str, ...]  # in lower case
    tokens: int


def locate(folder: Path, repository: str) -> Path:
    """Return the folder of a repository in a folder of checkouts, bare repositories, or mirrors.

    Raises InvalidSettings if there is none.
    """
    names = (repository, f"{repository}.git", folder_name(RepositoryName(repository)))
    choices = [folder / name for name in names]
    found = next((path for path in choices if path.is_dir()), None)
    if found is None:
        raise InvalidSettings(f"there is no repository {choices[0]} nor {choices[1]}")
    return found


def read(folder: Path, revision: str = "") -> dict[str, Text]:
    """Return the text files by path: of a revision of a git repository, or else of the folder.

    An empty revision means HEAD. Links are skipped. Raises InvalidSettings if the repository does
    not have the revision.
    """
    git_dir = _git_dir(folder)
    files = _blobs(git_dir, revision or "HEAD") if git_dir else _on_disk(folder)
    return {path: _text(raw) for path, raw in files if b"\0" not in raw}


def search(query: str, files: Mapping[str, Text], *, top_k: int = TOP_K) -> list[Shown]:
    """Return the best files, each in full."""
    words = {word for word in re.findall(r"\w+", query.lower()) if len(word) >= SHORTEST}
    scored = [(_score(text, words), path) for path, text in files.items()]
    best = sorted((-distinct, -lines, path) for (distinct, lines), path in scored if distinct)
    return [Shown(SourceLocation(path), files[path].tokens) for _, _, path in best[:top_k]]


def _score(text: Text, words: set[str]) -> tuple[int, int]:
    """Return how many of the words occur, and in how many lines."""
    held: set[str] = set()
    lines = 0
    for line in text.lines:
        found = {word for word in words if word in line}
        held |= found
        lines += bool(found)
    return len(held), lines


def _text(raw: bytes) -> Text:
    text = raw.decode("utf-8", "replace")
    return Text(tuple(text.lower().split("\n")), len(text) // CHARS_PER_TOKEN)


def _on_disk(folder: Path) -> Iterator[tuple[str, bytes]]:
    for file in sorted(folder.rglob("*")):
        if ".git" in file.parts or file.is_symlink() or not file.is_file():
            continue
        if file.stat().st_size <= MAX_BYTES:
            yield file.relative_to(folder).as_posix(), file.read_bytes()


def _git_dir(folder: Path) -> Path | None:
    """Return the folder's own git directory if it has commits, not that of a parent folder."""
    for git_dir in (folder / ".git", folder):
        if git_dir.exists() and _git(git_dir, "rev-parse", "--verify", "-q", "HEAD") is not None:
            return git_dir
    return None


def _blobs(git_dir: Path, revision: str) -> Iterator[tuple[str, bytes]]:
    """Yield path and content of the regular files of a commit."""
    listed = _git(git_dir, "ls-tree", "-r", "-z", "-l", "--end-of-options", f"{revision}^{{tree}}")
    if listed is None:
        raise InvalidSettings(f"{git_dir} has no commit {revision}; fetch it")
    entries = iter(list(_entries(listed)))
    while batch := list(islice(entries, BLOBS)):
        paths, blobs = zip(*batch, strict=True)
        yield from zip(paths, _contents(git_dir, blobs), strict=True)


def _entries(listed: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield path and blob id of each regular file that is not too large."""
    for line in filter(None, listed.split(b"\0")):
        about, _, path = line.partition(b"\t")
        mode, _, blob, size = about.split()
        if mode.startswith(b"100") and int(size) <= MAX_BYTES:
            yield path.decode("utf-8", "backslashreplace"), blob


def _contents(git_dir: Path, blobs: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the contents of the blobs.

    git answers with records of `ID blob SIZE`, a line end, that many bytes, and a line end.
    """
    answer = _git(git_dir, "cat-file", "--batch", given=b"".join(b"%s\n" % blob for blob in blobs))
    if answer is None:
        raise InvalidSettings(f"{git_dir}: its objects cannot be read; see `git fsck`")
    at = 0
    while at < len(answer):
        start = answer.index(b"\n", at) + 1
        end = start + int(answer[at:start].split()[-1])
        yield answer[start:end]
        at = end + 1


def _git(git_dir: Path, *arguments: str, given: bytes = b"") -> bytes | None:
    """Return the output of git; None if it fails."""
    command = ["git", f"--git-dir={git_dir}", "--no-pager", *arguments]
    done = subprocess.run(
        command, env=without_settings(), input=given, capture_output=True, check=False
    )
    return None if done.returncode else done.stdout
