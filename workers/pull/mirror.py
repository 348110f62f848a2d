"""Keep a bare mirror of each registered repository, and update it from the source repository.

A mirror has all branches and tags, and the working copy of a checkout that `codelode watch`
follows. Its HEAD is the default branch of the source, or a commit if the source is detached and has
none. The first clone is made under another name and then renamed, so a folder with the name of a
mirror is always complete. Syncs of a mirror are serialised by a lock. The git process holds the
lock too, so that the next sync waits for a fetch whose worker was killed.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, NoReturn

from git import RemoteProgress

from codelode import local_repositories, mirrors
from codelode.addresses import check_ref, check_url, is_local
from codelode.errors import Denied, InvalidQuery, NotFound
from codelode.git_access import Header, SshIdentity
from codelode.model import (
    DEFAULT_REF,
    WORKING_COPIES,
    RefName,
    Repository,
    RepositoryName,
    Revision,
)
from workers.confined import Slots
from workers.pull import git
from workers.pull.source import HEADS, NAMESPACES, TAGS, Refs, Source, refs_of
from workers.pull.tree import checked

Progress = Callable[[str], None]

_COMMIT = re.compile(r"[0-9a-f]{40}")
#: The beginning of a commit id, at least as long as git requires.
_ABBREVIATED = re.compile(r"[0-9a-f]{4,39}")
#: Maximum number of commits listed in the error about an ambiguous beginning.
_COMMITS_NAMED = 3
#: The ref under which a fetch stores the commit of a detached HEAD.
_DETACHED = "refs/codelode/head"
#: Maximum number of branches listed in the error about an unknown ref.
_BRANCHES_NAMED = 10
#: Limits the clones and fetches at once in this process. A source that does not answer takes no
#: slot, because its refs are listed first.
_transfers = Slots(8)


def _no_credentials(*_: object) -> None:
    """Return None. A lambda could not be pickled for another process."""


@dataclass(frozen=True, slots=True)
class Mirrors:
    """The mirrors in one folder."""

    folder: Path
    timeout_s: float = 3600.0  # of a clone or fetch, and of waiting for one in progress
    local_paths: str = ""  # the setting: which local repositories may be read
    max_refs: int = 200_000
    git_memory_bytes: int = git.MEMORY_BYTES  # of a git process that transfers objects
    #: Returns what git needs to read a repository, if anything. The second argument is the header
    #: that its host has just refused, if any.
    credentials: Callable[[Repository, Header | None], Header | SshIdentity | None] = (
        _no_credentials
    )

    def git_dir(self, name: RepositoryName) -> Path:
        """Return the folder of the repository's mirror, whether it exists or not."""
        return self.folder / mirrors.folder_name(name)

    def existing(self, name: RepositoryName) -> Path:
        """Return the folder of the repository's mirror. Raises NotFound before its first sync."""
        mirror = self.git_dir(name)
        if not mirror.is_dir():
            raise NotFound(f"{name} has not been pulled yet; index it first")
        return mirror

    def sync(
        self,
        repository: Repository,
        *,
        on_progress: Progress | None = None,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> RefName:
        """Update the mirror's branches, tags, and HEAD from the repository's source.

        Returns the branch that is checked out there; empty: none, or it is not a checkout.
        `on_progress` receives lines such as `Receiving objects 45%`. Raises InvalidQuery when the
        URL is not (or no longer) allowed; Denied or NotFound if the source answers so; Rejected if
        it exceeds a limit; Unavailable if a retry may help; Abandoned soon after `is_wanted`
        returns false. The messages do not name the repository, because the failed run does.
        """
        source = self._source(repository)
        try:
            return self._synced(repository, source, on_progress=on_progress, is_wanted=is_wanted)
        except Denied:
            if not isinstance(source.access, Header):
                raise
            renewed = self._source(repository, refused=source.access)
            if renewed.access == source.access:
                raise
        return self._synced(repository, renewed, on_progress=on_progress, is_wanted=is_wanted)

    def _synced(
        self,
        repository: Repository,
        source: Source,
        *,
        on_progress: Progress | None,
        is_wanted: Callable[[], bool],
    ) -> RefName:
        mirror = self.git_dir(repository.name)
        with mirrors.locked(mirror, timeout_s=self.timeout_s) as lock:
            call = partial(
                git.run,
                variables=source.variables,
                readable=source.readable,
                timeout_s=self.timeout_s,
                hold=(lock,),
                on_line=_progress_lines(on_progress),
                is_wanted=is_wanted,
                memory_bytes=self.git_memory_bytes,
            )
            wanted = refs_of(source, call, max_refs=self.max_refs)
            with _transfers.taken(is_wanted):
                make = _update if mirror.is_dir() else _clone
                make(mirror, source, wanted, call)
            self._require_unchanged(repository, mirror)
            return RefName(wanted.checked_out.removeprefix(HEADS))

    def _require_unchanged(self, repository: Repository, mirror: Path) -> None:
        """Delete the mirror if its source is no longer allowed, and raise the reason.

        A link in its path may have changed, and led git to content that must not be read.
        """
        try:
            check_url(repository.url, local_paths=self.local_paths)
        except InvalidQuery:
            shutil.rmtree(mirror)
            raise

    def resolve(self, name: RepositoryName, ref: RefName = DEFAULT_REF) -> tuple[RefName, Revision]:
        """Return the short name of a branch or tag (or a full commit id), and its commit.

        DEFAULT_REF becomes the source's default branch, and stays itself when the source is
        detached and has none. A branch wins over a tag of the same name, and both over the
        beginning of a commit id. Raises NotFound naming branches, and InvalidQuery for the
        beginning of several ids.
        """
        check_ref(ref)
        mirror = self.existing(name)
        wanted = self.default_ref(name) if ref == DEFAULT_REF else ref
        for short, full in _readings(wanted):
            commit = _commit(mirror, full)
            if commit is not None:
                return short, commit
        if _ABBREVIATED.fullmatch(wanted) and (found := _commits(mirror, wanted)):
            return _only_commit(wanted, found)
        return _unknown_ref(mirror, wanted)

    def committed_at(self, name: RepositoryName, revision: Revision) -> float:
        """Return when the commit was made, at most now, in seconds since the epoch."""
        asked = ("rev-list", "--max-count=1", "--timestamp", checked(revision), "--")
        written = git.run(*_at(self.existing(name)), *asked)
        return min(float(written.split()[0]), time.time())

    def gone(self, name: RepositoryName, refs: Iterable[RefName]) -> tuple[RefName, ...]:
        """Return the branches and tags that the source no longer has. A commit is never gone."""
        there = _mirror_refs(self.existing(name))
        named = (ref for ref in refs if not _COMMIT.fullmatch(ref))
        return tuple(ref for ref in named if not any(full in there for _, full in _readings(ref)))

    def refs(self, name: RepositoryName) -> tuple[str, ...]:
        """Return the full names of the branches and tags, newest first."""
        listed = git.run(
            *_at(self.existing(name)),
            *("for-each-ref", "--sort=-creatordate", "--format=%(refname)", HEADS, TAGS),
        )
        return tuple(listed.decode("utf-8", "backslashreplace").splitlines())

    def default_ref(self, name: RepositoryName) -> RefName:
        """Return the source's default branch; DEFAULT_REF if the source is detached."""
        head = (self.existing(name) / "HEAD").read_text().strip().removeprefix("ref: ")
        return RefName(head.removeprefix(HEADS)) if head.startswith(HEADS) else DEFAULT_REF

    def remove(self, name: RepositoryName) -> None:
        """Delete the repository's mirror. Unknown names are not an error."""
        mirror = self.git_dir(name)
        if mirror.is_dir():
            with mirrors.locked(mirror, timeout_s=self.timeout_s):
                # Renamed first, so that a half-deleted folder is not mistaken for a mirror.
                doomed = _fresh(mirror, ".gone")
                mirror.rename(doomed)
                shutil.rmtree(doomed)

    def _source(self, repository: Repository, *, refused: Header | None = None) -> Source:
        url = check_url(repository.url, local_paths=self.local_paths)
        if is_local(url):
            return Source(url, git.environment(protocols="file", trusted="*"), self._readable())
        access = self.credentials(repository, refused)
        protocols = "http" if url.startswith("http:") else "https:ssh"
        if isinstance(access, SshIdentity) and access.below:
            protocols = "ssh"  # only: git must not reach the address in another way
        variables = git.environment(protocols=protocols, access=access)
        return Source(url, variables, access=access)

    def _readable(self) -> tuple[Path, ...] | None:
        """Return the folders below which git can read while it reads a local source; None: all."""
        allowed = local_repositories.roots(self.local_paths)
        return (self.folder, *allowed) if allowed and git.can_be_restricted() else None


def _clone(mirror: Path, source: Source, wanted: Refs, call: Callable[..., bytes]) -> None:
    """Clone a new mirror. From a local source, git hard-links objects instead of packing them.

    Objects that the source borrows are copied: what it borrows from may change without a check.
    """
    made = _fresh(mirror, ".part")
    call(
        "clone", "--bare", "--template=", "--dissociate", "--progress", *source.options,
        "--config", f"remote.origin.fetch={_copied(WORKING_COPIES)}",
        "--", source.url, str(made),
        stall_s=git.STALL_S,
    )  # fmt: skip
    if wanted.default:  # otherwise git has cloned the detached HEAD
        _point_head(made, wanted)
    made.rename(mirror)


def _fresh(mirror: Path, suffix: str) -> Path:
    """Return an unused path next to the mirror; delete leftovers of an earlier attempt there."""
    path = mirror.with_suffix(suffix)
    if path.exists():
        shutil.rmtree(path)
    return path


def _update(mirror: Path, source: Source, wanted: Refs, call: Callable[..., bytes]) -> None:
    _clear_stale_locks(mirror)
    if (mirror / "objects/info/alternates").exists():  # an older version let mirrors borrow objects
        _replace(mirror, source, wanted, call)
    elif wanted.objects != _mirror_refs(mirror) or not _holds(mirror, wanted.head_commit):
        if source.is_partial:
            _replace(mirror, source, wanted, call)
        else:
            _fetch(mirror, source, wanted, call)
    _point_head(mirror, wanted)


def _clear_stale_locks(mirror: Path) -> None:
    """Remove lock files of a killed git process; the mirror is locked, so no other one runs."""
    for left in (
        *mirror.glob("*.lock"),
        *mirror.glob("refs/**/*.lock"),
        *mirror.glob("objects/pack/tmp_*"),
    ):
        left.unlink(missing_ok=True)


def _mirror_refs(mirror: Path) -> dict[str, str]:
    listed = git.run(*_at(mirror), "for-each-ref", "--format=%(objectname) %(refname)", *NAMESPACES)
    lines = listed.decode("utf-8", "surrogateescape").splitlines()
    return {name: value for value, _, name in (line.partition(" ") for line in lines)}


def _holds(mirror: Path, commit: str) -> bool:
    return not commit or _commit(mirror, commit) is not None


def _fetch(mirror: Path, source: Source, wanted: Refs, call: Callable[..., bytes]) -> None:
    refspecs = list(map(_copied, NAMESPACES))
    if wanted.head_commit:
        refspecs.append(f"+HEAD:{_DETACHED}")
    call(
        *_at(mirror), "fetch", "--prune", "--no-tags", "--no-write-fetch-head", "--no-auto-gc",
        "--no-recurse-submodules", "--update-shallow", "--progress", *source.options,
        "--", source.url, *refspecs,
        stall_s=git.STALL_S,
    )  # fmt: skip


def _copied(namespace: str) -> str:
    """Return the refspec that copies the refs of a namespace from a source to its mirror."""
    return f"+{namespace}*:{namespace}*"


def _replace(mirror: Path, source: Source, wanted: Refs, call: Callable[..., bytes]) -> None:
    """Clone the source again. Between the two renames the mirror does not exist for readers."""
    new = _fresh(mirror, ".whole")
    _clone(new, source, wanted, call)
    old = _fresh(mirror, ".gone")
    mirror.rename(old)
    new.rename(mirror)
    shutil.rmtree(old)


def _point_head(mirror: Path, wanted: Refs) -> None:
    if wanted.default:
        if (mirror / "HEAD").read_bytes() != os.fsencode(f"ref: {wanted.default}\n"):
            git.run(*_at(mirror), "symbolic-ref", "HEAD", wanted.default)
    elif wanted.head_commit:
        git.run(*_at(mirror), "update-ref", "--no-deref", "HEAD", wanted.head_commit)


def _readings(ref: RefName) -> tuple[tuple[RefName, str], ...]:
    """Return the possible meanings of a ref, best first, as short name and full name."""
    if ref == DEFAULT_REF or _COMMIT.fullmatch(ref):
        return ((ref, ref),)
    for prefix in NAMESPACES:
        if ref.startswith(prefix):
            return ((RefName(ref.removeprefix(prefix)), ref),)
    return tuple((ref, prefix + ref) for prefix in NAMESPACES)


def _commit(mirror: Path, name: str) -> Revision | None:
    answer = git.run(
        *_at(mirror),
        "cat-file",
        "--batch-check=%(objectname)",
        stdin=f"{name}^{{commit}}\n".encode(),
    )
    commit = answer.decode("utf-8", "replace").strip()
    return Revision(commit) if _COMMIT.fullmatch(commit) else None


def _commits(mirror: Path, beginning: str) -> list[Revision]:
    """Return the commits of the mirror whose ids begin with `beginning`."""
    objects = git.run(*_at(mirror), "rev-parse", f"--disambiguate={beginning}")
    listed = git.run(
        *_at(mirror), "cat-file", "--batch-check=%(objecttype) %(objectname)", stdin=objects
    )
    pairs = (line.split(" ") for line in listed.decode().splitlines())
    return sorted(Revision(name) for kind, name in pairs if kind == "commit")


def _only_commit(beginning: str, found: list[Revision]) -> tuple[RefName, Revision]:
    if len(found) > 1:
        named = ", ".join(commit[: len(beginning) + 4] for commit in found[:_COMMITS_NAMED])
        raise InvalidQuery(
            "ref",
            f"{beginning!r} is the beginning of {len(found)} commits ({named}); give more digits",
        )
    return RefName(found[0]), found[0]


def _unknown_ref(mirror: Path, ref: RefName) -> NoReturn:
    listed = git.run(
        *_at(mirror), "for-each-ref", "--sort=-committerdate", "--format=%(refname)", HEADS, TAGS
    )
    refs = listed.decode("utf-8", "backslashreplace").split()
    if not refs:
        raise NotFound("the repository has no commits yet; push one and index it again")
    if _COMMIT.fullmatch(ref):
        raise NotFound(f"there is no commit {ref} on any branch or tag of the repository")
    branches = [ref.removeprefix(HEADS) for ref in refs if ref.startswith(HEADS)]
    more = ", …" if len(branches) > _BRANCHES_NAMED else ""
    named = ", ".join(branches[:_BRANCHES_NAMED]) or "none"
    raise NotFound(
        f"there is no branch or tag {ref!r}; name one of its branches ({named}{more}), a tag, "
        "or a commit id"
    )


def _at(mirror: Path) -> tuple[str, ...]:
    return ("--git-dir", str(mirror))


class _Reporter(RemoteProgress):
    """Formats git's progress as `Receiving objects 45%`."""

    _STAGES: ClassVar = {
        RemoteProgress.COUNTING: "Counting objects",
        RemoteProgress.COMPRESSING: "Compressing objects",
        RemoteProgress.RECEIVING: "Receiving objects",
        RemoteProgress.RESOLVING: "Resolving deltas",
    }

    def __init__(self, report: Progress) -> None:
        super().__init__()
        self._report = report

    def update(
        self,
        op_code: int,
        cur_count: str | float,
        max_count: str | float | None = None,
        message: str = "",
    ) -> None:
        stage = self._STAGES.get(op_code & self.OP_MASK)
        if stage and max_count:
            self._report(f"{stage} {100 * float(cur_count) / float(max_count):.0f}%")


def _progress_lines(report: Progress | None) -> Progress | None:
    return _Reporter(report).new_message_handler() if report else None
