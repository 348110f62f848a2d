"""Add a block to the git hooks of a checkout that makes codelode index each new commit.

The block comes first in a hook, so that an `exec` or `exit` of an existing hook does not keep it
from running. The call runs in the background with output to a file, so that no git command waits
for it or fails because of it. Hooks may be shared by several repositories (`core.hooksPath`), so
each repository has its own block, which does nothing in the others.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from codelode.checkouts.checkout import Checkout
from codelode.errors import Denied, InvalidQuery

#: The hooks, each with the condition under which it has something to index. During a rebase HEAD is
#: detached, so `post-commit` and `post-checkout` do nothing then.
HOOKS: Mapping[str, str] = {
    "post-commit": "",
    "post-merge": "",
    "post-checkout": '[ "$3" = 1 ] || exit\n',  # another branch, not single files
    "post-rewrite": '[ "$1" = rebase ] || exit\n',  # `post-commit` runs after `--amend`
}

#: The folder beside the hooks for earlier hooks that are not shell scripts; our hooks call them.
SAVED = "codelode-saved"

_SHELL = re.compile(rb"#! ?(?:/usr)?(?:/local)?/bin/(?:env )?(?:ba|da|k|z)?sh\b[^\n]*\n")
_NEW = b"#!/bin/sh\n"
_CALL_SAVED = f'exec "$(dirname "$0")/{SAVED}/$(basename "$0")" "$@"\n'.encode()
_ANY_BLOCK = re.compile(rb"^# >>> codelode ", re.MULTILINE)


class HookState(StrEnum):
    """Whether a hook has the block of the repository."""

    INSTALLED = "installed"
    OUTDATED = "outdated"  # the block differs from what `install` would write now
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Hooks:
    """The hooks of a checkout, and the command that they are to run."""

    checkout: Checkout
    command: Sequence[str]
    variables: Mapping[str, str]  # environment variables for the command

    @property
    def log(self) -> Path:
        """Return the file with the output of the last call."""
        return self.checkout.common_dir / "codelode-hooks.log"

    def install(self) -> None:
        """Add or renew the block in each hook.

        Changes no hook if one of them cannot be changed. Raises InvalidQuery("path") for a hook to
        which the block cannot be added, Denied if a file cannot be written.
        """
        self._change(self._with_block)

    def uninstall(self) -> None:
        """Remove the block from each hook; hooks are then as they were before `install`."""
        self._change(self._without_block)

    def states(self) -> dict[str, HookState]:
        """Return the state of each hook."""
        return {name: self._state(name) for name in HOOKS}

    def _state(self, name: str) -> HookState:
        found = self._found(_content(self.checkout.hooks_dir / name))
        if found is None:
            return HookState.MISSING
        return HookState.INSTALLED if found == self._block(name) else HookState.OUTDATED

    def _change(self, changed: Callable[[str], bytes | None]) -> None:
        folder = self.checkout.hooks_dir
        try:
            contents = {name: changed(name) for name in HOOKS}
            for name, content in contents.items():
                _replace(folder / name, content)
        except OSError as exc:
            raise Denied(f"cannot change the hooks in {folder}: {exc.strerror or exc}") from exc

    def _with_block(self, name: str) -> bytes | None:
        """Return the content of a hook with the block."""
        path = self.checkout.hooks_dir / name
        content, block = _content(path), self._block(name)
        if (found := self._found(content)) is not None:
            return content.replace(found, block)
        if not (content or path.is_symlink()):
            return _NEW + block
        _require_changeable(path)
        shebang = _SHELL.match(content)
        if shebang is None:
            _require_unsaved(path.parent / SAVED / name)
            return _NEW + block + _CALL_SAVED
        return content[: shebang.end()] + block + content[shebang.end() :]

    def _without_block(self, name: str) -> bytes | None:
        """Return the content of a hook without the block; None if there was no hook before."""
        content = _content(self.checkout.hooks_dir / name)
        found = self._found(content)
        if found is None:
            return content or None
        rest = content.replace(found, b"")
        return None if rest in (_NEW, _NEW + _CALL_SAVED) else rest

    def _found(self, content: bytes) -> bytes | None:
        """Return the block of this repository in the content of a hook."""
        begin, end = self._marks()
        start, stop = content.find(begin), content.find(end)
        return content[start : stop + len(end)] if 0 <= start < stop else None

    def _block(self, name: str) -> bytes:
        begin, end = self._marks()
        common_dir, log = (shlex.quote(str(one)) for one in (self.checkout.common_dir, self.log))
        assigned = [f"{one}={shlex.quote(value)}" for one, value in self.variables.items()]
        command = " ".join([*assigned, shlex.join(self.command)])
        body = (
            # Read before the call goes to the background: the branch may change afterwards.
            "codelode_branch=$(git symbolic-ref --quiet --short HEAD 2>/dev/null) || :\n"
            f'([ "$codelode_branch" ] || exit\n{HOOKS[name]}'
            '[ "$(git rev-parse --path-format=absolute --git-common-dir)" = '
            f"{common_dir} ] || exit\n"
            "trap '' HUP\n"
            f'{command} --ref "$codelode_branch" >{log} 2>&1\n'
            ") </dev/null >/dev/null 2>&1 &\n"
        )
        return begin + body.encode("utf-8", "surrogateescape") + end

    def _marks(self) -> tuple[bytes, bytes]:
        where = str(self.checkout.common_dir)
        if not where.isprintable():
            raise InvalidQuery("path", f"{where!r} has characters that a hook cannot contain")
        return (
            f"# >>> codelode {where} >>> `codelode hooks uninstall` removes this\n".encode(),
            f"# <<< codelode {where} <<<\n".encode(),
        )


def _content(path: Path) -> bytes:
    """Return the content of a hook; empty if there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _require_changeable(path: Path) -> None:
    if path.is_symlink():
        reason = f"is a link to {path.readlink()}, which other repositories may use"
    elif not path.stat().st_mode & 0o111:
        reason = "is not executable, so that git ignores it; make it executable, or delete it"
    else:
        return
    raise InvalidQuery("path", f"nothing was changed: the hook {path} {reason}")


def _require_unsaved(saved: Path) -> None:
    """Raise InvalidQuery if a hook is saved there already, so that it is not overwritten."""
    if saved.exists():
        raise InvalidQuery(
            "path",
            f"nothing was changed: {saved} holds an earlier hook, and another program has replaced "
            "the one that calls it; put one of the two in place, and delete the saved one",
        )


def _replace(path: Path, content: bytes | None) -> None:
    """Write a hook atomically, or restore the hook that was there before ours (None).

    Saves an existing hook that is not a shell script before ours replaces it.
    """
    saved, before = path.parent / SAVED / path.name, _content(path)
    if content is None:
        path.unlink(missing_ok=True)
        if saved.exists():
            saved.rename(path)
            _remove_if_empty(saved.parent)
    elif content != before:
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = path.stat().st_mode if before else 0o755
        if content.endswith(_CALL_SAVED) and before and not _ANY_BLOCK.search(before):
            saved.parent.mkdir(exist_ok=True)
            path.rename(saved)
        draft = path.with_name(f"{path.name}.codelode")
        draft.write_bytes(content)
        draft.chmod(mode)
        draft.replace(path)


def _remove_if_empty(folder: Path) -> None:
    if not any(folder.iterdir()):
        folder.rmdir()
