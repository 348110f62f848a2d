"""Describe the source of a mirror: how git may read it, its refs, and its default branch.

The HEAD of a checkout shows only the branch that its user works on. The default branch of a
checkout is therefore that of its remote, else main or master, else its HEAD.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from codelode.addresses import is_local
from codelode.errors import Rejected
from codelode.git_access import Header, SshIdentity
from codelode.model import WORKING_COPIES

HEADS = "refs/heads/"
TAGS = "refs/tags/"
#: Where the refs that can be indexed are, in the order in which a short name is looked up.
NAMESPACES = (HEADS, TAGS, WORKING_COPIES)
_REMOTES = "refs/remotes/"
#: The usual default branches, for sources whose HEAD does not name it.
_USUAL = (f"{HEADS}main", f"{HEADS}master")
#: Timeout of listing the refs of the source, seconds.
_LISTING_TIMEOUT_S = 120.0
#: Upper estimate of the bytes of a listed ref, which is an id and a name.
_REF_BYTES = 300
#: Maximum number of HEADs of remotes that are listed besides branches and tags.
_REMOTE_HEADS = 1_000
#: Sets `safe.directory` for upload-pack, for which git clears the configuration variables.
_UPLOAD_PACK = "--upload-pack=git -c 'safe.directory=*' upload-pack"


@dataclass(frozen=True, slots=True)
class Source:
    """The URL of the source repository, and how git may read it: see `git.run`."""

    url: str
    variables: Mapping[str, str] = field(repr=False)
    readable: Sequence[Path] | None = None
    access: Header | SshIdentity | None = None  # kept here, because its files vanish with it

    @property
    def options(self) -> tuple[str, ...]:
        return (_UPLOAD_PACK,) if is_local(self.url) else ()

    @property
    def is_partial(self) -> bool:
        """Return whether it is a partial clone, from which git refuses to fetch."""
        folders = (Path(self.url, sub, "objects/pack") for sub in ("", ".git"))
        return is_local(self.url) and any(any(folder.glob("*.promisor")) for folder in folders)

    @property
    def is_checkout(self) -> bool:
        """Return whether it has a work tree, so that its HEAD is not its default branch."""
        path = Path(self.url)
        return is_local(self.url) and (path.name == ".git" or (path / ".git").exists())


@dataclass(frozen=True, slots=True)
class Refs:
    """The refs of a repository with their object ids, and its default branch."""

    objects: Mapping[str, str]
    default: str = ""  # full name of a branch; empty: HEAD is detached, or there is no branch
    head_commit: str = ""  # of a detached HEAD without a default branch
    checked_out: str = ""  # full name of the branch that a checkout is on


def refs_of(source: Source, call: Callable[..., bytes], *, max_refs: int) -> Refs:
    """List the refs of the source. `call` runs git and raises what `git.run` raises.

    Raises Rejected if there are more than `max_refs` branches and tags.
    """
    listed = call(
        "ls-remote", "--symref", *source.options,
        "--", source.url, "HEAD", *(f"{kind}*" for kind in NAMESPACES), f"{_REMOTES}*/HEAD",
        timeout_s=min(_LISTING_TIMEOUT_S, call.keywords["timeout_s"]),  # type: ignore[attr-defined]
        output_bytes=(max_refs + _REMOTE_HEADS) * _REF_BYTES,
    )  # fmt: skip
    objects, symbolic = {}, {}
    for line in listed.decode("utf-8", "surrogateescape").splitlines():
        value, _, name = line.partition("\t")
        if value.startswith("ref: "):
            symbolic[name] = value.removeprefix("ref: ")
        elif not name.endswith("^{}") and not name.startswith(_REMOTES):
            objects[name] = value
    if len(objects) > max_refs + 1:  # HEAD is among them
        raise Rejected(
            f"the source has {len(objects) - 1} branches and tags, and CODELODE_MAX_REFS allows "
            f"{max_refs}"
        )
    head, commit = symbolic.get("HEAD", ""), objects.pop("HEAD", "")
    is_known = source.is_checkout or head or not commit  # false: detached on purpose
    preferred = (*(_remote_defaults(symbolic) if source.is_checkout else (head,)), *_USUAL, head)
    default = next((one for one in preferred if one in objects), head) if is_known else ""
    checked_out = head if source.is_checkout else ""
    return Refs(objects, default, "" if default else commit, checked_out)


def _remote_defaults(symbolic: Mapping[str, str]) -> list[str]:
    """Return the branches that the HEAD of each remote points to, those of `origin` first.

    `symbolic`: names of symbolic refs and their targets.
    """
    remotes = [name.removesuffix("HEAD") for name in symbolic if name.startswith(_REMOTES)]
    remotes.sort(key=lambda remote: (remote != f"{_REMOTES}origin/", remote))
    return [HEADS + symbolic[f"{remote}HEAD"].removeprefix(remote) for remote in remotes]
