"""The baseline of a person without an index: grep for words of the question and read the files.

Search is compared with this baseline. Files are ranked by how many different words of the query
they hold, then by how many lines hold one; each is read whole. Of a git repository the files of a
commit are read, out of its objects: that is what is indexed, without what else lies in a work tree,
and a bare mirror will do.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from codelode.errors import InvalidSettings
from codelode.mirrors import folder_name
from codelode.model import RepositoryName
from codelode.operations.evaluation.judged import CHARS_PER_TOKEN, TOP_K, Shown
from codelode.operations.evaluation.metrics import SourceLocation

#: Words that grep is not asked for.
SHORTEST = 3
#: Larger files and those with a NUL byte are not text that one reads.
MAX_BYTES = 1_000_000
#: Blobs asked of git at once.
BLOBS = 256


@dataclass(frozen=True, slots=True)
class Text:
    """A file as grep sees it."""

    lines: tuple[str, ...]  # in lower case
    tokens: int


def locate(folder: Path, repository: str) -> Path:
    """Find a repository in a folder of checkouts, bare repositories, or a cluster's mirrors.

    Raises InvalidSettings if it is not there.
    """
    names = (repository, f"{repository}.git", folder_name(RepositoryName(repository)))
    choices = [folder / name for name in names]
    found = next((path for path in choices if path.is_dir()), None)
    if found is None:
        raise InvalidSettings(f"there is no repository {choices[0]} nor {choices[1]}")
    return found


def read(folder: Path, revision: str = "") -> dict[str, Text]:
    """The text files by path: of a git repository at the revision, else of the folder.

    No revision: HEAD. InvalidSettings: the repository does not have it. Links are left out.
    """
    git_dir = _git_dir(folder)
    files = _blobs(git_dir, revision or "HEAD") if git_dir else _on_disk(folder)
    return {path: _text(raw) for path, raw in files if b"\0" not in raw}


def search(query: str, files: Mapping[str, Text], *, top_k: int = TOP_K) -> list[Shown]:
    """The best files, whole."""
    words = {word for word in re.findall(r"\w+", query.lower()) if len(word) >= SHORTEST}
    scored = [(_score(text, words), path) for path, text in files.items()]
    best = sorted((-distinct, -lines, path) for (distinct, lines), path in scored if distinct)
    return [Shown(SourceLocation(path), files[path].tokens) for _, _, path in best[:top_k]]


def _score(text: Text, words: set[str]) -> tuple[int, int]:
    """Count the words that occur, and the lines in which any of them occurs."""
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
    """The folder's own git directory, if it has commits; never that of a folder above it."""
    for git_dir in (folder / ".git", folder):
        if git_dir.exists() and _git(git_dir, "rev-parse", "--verify", "-q", "HEAD") is not None:
            return git_dir
    return None


def _blobs(git_dir: Path, revision: str) -> Iterator[tuple[str, bytes]]:
    """The regular files of a commit, by path."""
    listed = _git(git_dir, "ls-tree", "-r", "-z", "-l", "--end-of-options", f"{revision}^{{tree}}")
    if listed is None:
        raise InvalidSettings(f"{git_dir} has no commit {revision}; fetch it")
    entries = iter(list(_entries(listed)))
    while batch := list(islice(entries, BLOBS)):
        paths, blobs = zip(*batch, strict=True)
        yield from zip(paths, _contents(git_dir, blobs), strict=True)


def _entries(listed: bytes) -> Iterator[tuple[str, bytes]]:
    """Path and blob id of each regular file that is not too large."""
    for line in filter(None, listed.split(b"\0")):
        about, _, path = line.partition(b"\t")
        mode, _, blob, size = about.split()
        if mode.startswith(b"100") and int(size) <= MAX_BYTES:
            yield path.decode("utf-8", "backslashreplace"), blob


def _contents(git_dir: Path, blobs: Iterable[bytes]) -> Iterator[bytes]:
    """`ID blob SIZE`, a line end, so many bytes and another line end, for each."""
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
    """Return the output of git, or None if it fails."""
    command = ["git", f"--git-dir={git_dir}", "--no-pager", *arguments]
    done = subprocess.run(command, input=given, capture_output=True, check=False)
    return None if done.returncode else done.stdout
