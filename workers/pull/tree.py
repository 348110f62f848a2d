"""List the tree of a commit, or the diff of two trees.

Git's plumbing commands are faster than GitPython's objects: a listing of 5,000 files takes 25 ms
instead of 80, a diff 20 ms instead of 450.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from codelode.errors import NotFound, Rejected
from codelode.model import BlobId, Revision, SourceFile, path_from_bytes
from workers.pull import git

SYMLINK = 0o120000
SUBMODULE = 0o160000

_REVISION = re.compile(r"[0-9a-f]{40}")
#: Maximum number of paths of a commit if no setting is given.
MAX_PATHS = 500_000
#: Upper estimate of the bytes of a listed path, which has its mode, type, id, size, and name.
_ENTRY_BYTES = 400

#: Size of an object that the mirror does not have, as in a partial clone.
MISSING = -1


@dataclass(frozen=True, slots=True)
class Change:
    """A path that differs; `old` or `new` is None if the path does not exist there."""

    path: str
    old: SourceFile | None
    new: SourceFile | None


def listing(
    mirror: Path, revision: Revision, *, only: Sequence[str] = (), max_paths: int = MAX_PATHS
) -> Iterator[SourceFile]:
    """Yield every entry of the commit's tree, in git's order. A submodule's size is 0.

    `only`: the entries at these paths, and nothing below them. Raises Rejected if there are more
    than `max_paths`.
    """
    depth, which = ((), ("--", *only)) if only else (("-r",), ())
    out = _run(
        mirror,
        *("ls-tree", *depth, "-z", "-l", "--full-tree", checked(revision), *which),
        output_bytes=max_paths * _ENTRY_BYTES,
    )
    require_few(out.count(b"\0"), max_paths)
    for entry in _entries(out):
        facts, _, path = entry.partition(b"\t")
        mode, _kind, blob, size = facts.split()
        yield SourceFile(
            path=path_from_bytes(path),
            blob=BlobId(blob.decode()),
            size_bytes=_size(size),
            mode=int(mode, 8),
        )


def require_few(paths: int, max_paths: int) -> None:
    """Raise Rejected if a commit has more paths than allowed."""
    if paths > max_paths:
        raise Rejected(f"the commit has {paths} files, and CODELODE_MAX_PATHS allows {max_paths}")


def difference(
    mirror: Path, old: Revision, new: Revision, *, max_paths: int = MAX_PATHS
) -> tuple[Change, ...]:
    """Return the paths whose content or type differs between two commits; a rename is two changes.

    A changed permission is not a difference.
    """
    out = _run(
        mirror,
        *("diff-tree", "-r", "-z", "--raw", "--no-renames", checked(old), checked(new)),
        output_bytes=2 * max_paths * _ENTRY_BYTES,
    )
    # Two fields per change; two commits with `max_paths` each may have no path in common.
    require_few(out.count(b"\0") // 4, max_paths)
    entries = _entries(out)
    # Each change is two fields: `:oldmode newmode oldid newid status` and the path.
    raw = [(facts.decode().lstrip(":").split(), next(entries)) for facts in entries]
    sizes = _sizes(mirror, {blob for facts, _ in raw for blob in facts[2:4]})
    changes = (_change(path_from_bytes(path), facts, sizes) for facts, path in raw)
    return tuple(change for change in changes if not _is_same_content(change))


def _change(path: str, facts: list[str], sizes: Mapping[str, int]) -> Change:
    old_mode, new_mode, old_blob, new_blob, _status = facts
    return Change(
        path, _side(path, old_mode, old_blob, sizes), _side(path, new_mode, new_blob, sizes)
    )


def _side(path: str, mode: str, blob: str, sizes: Mapping[str, int]) -> SourceFile | None:
    bits = int(mode, 8)
    if not bits:
        return None
    size = 0 if bits == SUBMODULE else sizes.get(blob, MISSING)
    return SourceFile(path=path, blob=BlobId(blob), size_bytes=size, mode=bits)


def _is_same_content(change: Change) -> bool:
    old, new = change.old, change.new
    if old is None or new is None:
        return False
    return old.blob == new.blob and old.mode & 0o170000 == new.mode & 0o170000


def _sizes(mirror: Path, blobs: Collection[str]) -> dict[str, int]:
    """Return the size of each object that the mirror has."""
    if not blobs:
        return {}
    asked = "".join(f"{blob}\n" for blob in blobs).encode()
    out = _run(mirror, "cat-file", "--batch-check=%(objectname) %(objectsize)", stdin=asked)
    answers = (line.split() for line in out.decode().splitlines())
    return {blob: int(size) for blob, size in answers if size.isdigit()}


def _size(listed: bytes) -> int:
    if listed.isdigit():
        return int(listed)
    return 0 if listed == b"-" else MISSING


def _entries(out: bytes) -> Iterator[bytes]:
    """Yield the fields of NUL-terminated output, without making a list of them."""
    start = 0
    while (end := out.find(b"\0", start)) >= 0:
        yield out[start:end]
        start = end + 1


def checked(revision: Revision) -> str:
    """Return the revision, which cannot be an option. Raises NotFound if it is not a commit id."""
    if not _REVISION.fullmatch(revision):
        raise NotFound(f"{revision!r} is not the id of a commit")
    return revision


def _run(
    mirror: Path,
    *arguments: str,
    stdin: bytes = b"",
    output_bytes: int = git.OUTPUT_BYTES,
) -> bytes:
    return git.run("--git-dir", str(mirror), *arguments, stdin=stdin, output_bytes=output_bytes)
