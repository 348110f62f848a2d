"""Search without an index, as a baseline: grep for the words of a query, and read whole files.

Files are ranked by how many different words of the query they contain, then by how many lines
contain one. In a git repository, the files of a commit are read from its objects, as for the index,
so a bare mirror suffices, and uncommitted files of a work tree do not count.
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

#: Minimum length of the words of a query that are searched, characters.
MIN_WORD_CHARS = 3
#: Maximum size of a file that is read, bytes.
MAX_BYTES = 1_000_000
#: Maximum number of blobs that one call of git reads, which bounds the memory that they take.
BLOBS_PER_CALL = 256


@dataclass(frozen=True, slots=True)
class Text:
    """The text of a file."""

    lines: tuple[str, ...]  # in lower case
    tokens: int  # estimated from its length


def locate(folder: Path, repository: str) -> Path:
    """Return the folder of a repository in a folder of checkouts, bare repositories, or mirrors.

    Raises InvalidSettings if there is none.
    """
    names = (repository, f"{repository}.git", folder_name(RepositoryName(repository)))
    choices = [folder / name for name in names]
    found = next((path for path in choices if path.is_dir()), None)
    if found is None:
        raise InvalidSettings(f"there is no repository {choices[0]} or {choices[1]}")
    return found


def read(folder: Path, revision: str = "") -> dict[str, Text]:
    """Return the text files of a git repository at a revision, or of another folder, by path.

    An empty revision means HEAD. Leaves out links, files larger than MAX_BYTES, and binary files,
    which have a NUL byte. Raises InvalidSettings if the repository does not have the revision or
    its objects cannot be read.
    """
    git_dir = _git_dir(folder)
    files = _blobs(git_dir, revision or "HEAD") if git_dir else _on_disk(folder)
    return {path: _text(raw) for path, raw in files if b"\0" not in raw}


def search(query: str, files: Mapping[str, Text], *, top_k: int = TOP_K) -> list[Shown]:
    """Return the best files, each with the number of tokens of its whole text, best first."""
    words = {word for word in re.findall(r"\w+", query.lower()) if len(word) >= MIN_WORD_CHARS}
    scored = [(_score(text, words), path) for path, text in files.items()]
    best = sorted((-distinct, -lines, path) for (distinct, lines), path in scored if distinct)
    return [Shown(SourceLocation(path), files[path].tokens) for _, _, path in best[:top_k]]


def _score(text: Text, words: set[str]) -> tuple[int, int]:
    """Return how many of the words occur, and how many lines have one of them."""
    found: set[str] = set()
    lines = 0
    for line in text.lines:
        in_line = {word for word in words if word in line}
        found |= in_line
        lines += bool(in_line)
    return len(found), lines


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
    """Return the git directory of a work tree or bare repository that has commits, else None.

    git itself would also find the repository of a parent folder.
    """
    for git_dir in (folder / ".git", folder):
        if git_dir.exists() and _git(git_dir, "rev-parse", "--verify", "-q", "HEAD") is not None:
            return git_dir
    return None


def _blobs(git_dir: Path, revision: str) -> Iterator[tuple[str, bytes]]:
    """Yield path and content of each regular file of a commit that is not too large."""
    listed = _git(git_dir, "ls-tree", "-r", "-z", "-l", "--end-of-options", f"{revision}^{{tree}}")
    if listed is None:
        raise InvalidSettings(f"{git_dir} has no commit {revision}; fetch it")
    entries = _entries(listed)
    while batch := list(islice(entries, BLOBS_PER_CALL)):
        paths, blobs = zip(*batch, strict=True)
        yield from zip(paths, _contents(git_dir, blobs), strict=True)


def _entries(listed: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield path and blob id of each regular file that is not too large."""
    for line in filter(None, listed.split(b"\0")):
        entry, _, path = line.partition(b"\t")
        mode, _, blob, size = entry.split()
        if mode.startswith(b"100") and int(size) <= MAX_BYTES:
            yield path.decode("utf-8", "backslashreplace"), blob


def _contents(git_dir: Path, blobs: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the contents of the blobs, in order.

    For each blob, git prints `ID blob SIZE`, a line end, SIZE bytes, and a line end.
    """
    ids = b"".join(b"%s\n" % blob for blob in blobs)
    output = _git(git_dir, "cat-file", "--batch", stdin=ids)
    if output is None:
        raise InvalidSettings(f"git cannot read the objects of {git_dir}; see `git fsck`")
    at = 0
    while at < len(output):
        start = output.index(b"\n", at) + 1
        end = start + int(output[at:start].split()[-1])
        yield output[start:end]
        at = end + 1


def _git(git_dir: Path, *arguments: str, stdin: bytes = b"") -> bytes | None:
    """Return the output of git; None if it fails."""
    command = ["git", f"--git-dir={git_dir}", "--no-pager", *arguments]
    done = subprocess.run(
        command, env=without_settings(), input=stdin, capture_output=True, check=False
    )
    return None if done.returncode else done.stdout
