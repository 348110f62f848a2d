"""Save a backup."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from codelode import __version__
from codelode.backends import registry
from codelode.errors import InvalidSettings
from codelode.files import make_private, open_private
from codelode.mirrors import folder_name, locked
from codelode.operations.backup import manifest as manifests
from codelode.operations.backup.manifest import Manifest, written
from codelode.settings import Settings


def save(
    settings: Settings,
    folder: Path,
    *,
    with_mirrors: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> Manifest:
    """Write a backup to the folder, which must be empty or not exist."""
    _require_empty(folder)
    ledger, index = registry.ledger(settings), registry.index_backup(settings)
    keys = registry.redis_keys(settings)
    try:
        with written(folder):
            make_private(folder / manifests.INDEX)
            tell("waiting for the workers' writes to end")
            with (
                registry.index_swap(settings).alone() as hold,
                open_private(folder / manifests.KEYS) as out,
            ):
                tell("saving ledger, graph and symbol table while the workers' writes wait")
                facts = index.begin()
                chunks = index.chunks()
                count = keys.dump(out)
                repositories = [one.name for one in ledger.repositories()]
                hold.check()
            tell("saving the index")
            index.save(folder / manifests.INDEX)
            for name in repositories if with_mirrors else ():
                tell(f"saving the mirror of {name}")
                make_private(folder / manifests.MIRRORS)
                mirror = settings.mirrors_dir / folder_name(name)
                _copy(mirror, folder / manifests.MIRRORS, timeout_s=settings.git_timeout_s)
            tell("computing digests")
            made = Manifest(
                made_at=time.time(),
                version=__version__,
                store=settings.store,
                organisation=settings.organisation,
                repositories=len(repositories),
                chunks=chunks,
                keys=count,
                facts=facts,
                files=manifests.digests(folder),
            )
            manifests.write(folder, made)
            return made
    finally:
        index.close()


def _require_empty(folder: Path) -> None:
    with written(folder):
        if folder.exists() and any(folder.iterdir()):
            raise InvalidSettings(f"{folder} is not empty: name a new folder for the backup")


def _copy(mirror: Path, into: Path, *, timeout_s: float) -> None:
    """Copy a mirror while no process fetches into it."""
    with locked(mirror, timeout_s=timeout_s):
        if mirror.is_dir():
            shutil.copytree(mirror, into / mirror.name, symlinks=True)
