"""Restore a backup."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Protocol

from codelode.backends import engine, registry
from codelode.counts import counted
from codelode.errors import CodelodeError, InvalidSettings, SchemaMismatch, Unavailable
from codelode.files import make_private
from codelode.operations.backup import manifest as manifests
from codelode.operations.backup.manifest import Manifest
from codelode.settings import Settings


class Keys(Protocol):
    """The part of `codelode.backends.redis.dump` that restoring needs."""

    def wipe(self) -> None: ...
    def load(self, source: BinaryIO) -> int: ...


def restore(
    settings: Settings,
    folder: Path,
    *,
    is_forced: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> Manifest:
    """Restore the cluster from the backup. Everything is checked before anything changes.

    Raises InvalidSettings if workers run and, unless `is_forced`, if something is indexed.
    """
    made = manifests.read(folder)
    index, keys = registry.index_backup(settings), registry.redis_keys(settings)
    try:
        if workers := keys.workers():
            raise InvalidSettings(
                f"workers are running ({', '.join(workers)}): stop them, because they would write "
                "into what is being restored (one that was killed counts as running for ten "
                "seconds)"
            )
        _require_fit(settings, made)
        index.check(made.facts)
        tell("checking the files of the backup")
        manifests.check(folder, made)
        if not is_forced:
            _require_nothing(settings, index)
        _replace(settings, folder, made, index=index, keys=keys, tell=tell)
        return made
    finally:
        index.close()


def _replace(
    settings: Settings,
    folder: Path,
    made: Manifest,
    *,
    index: engine.IndexBackup,
    keys: Keys,
    tell: Callable[[str], None],
) -> None:
    try:
        tell("restoring the index")
        index.restore(folder / manifests.INDEX, made.facts)
        tell("restoring ledger, graph and symbol table")
        ledger = registry.ledger(settings)
        generation = max(ledger.generation() + 1, int(time.time()))
        keys.wipe()
        with (folder / manifests.KEYS).open("rb") as source:
            keys.load(source)
        # A new generation invalidates every answer that is cached anywhere.
        ledger.recover(generation=generation)
        if (mirrors := folder / manifests.MIRRORS).is_dir():
            tell("restoring mirrors")
            _restore_mirrors(mirrors, settings.mirrors_dir)
    except (CodelodeError, OSError) as exc:
        raise Unavailable(
            f"the restoration failed ({exc}): run the command again with --force"
        ) from exc


def _require_fit(settings: Settings, made: Manifest) -> None:
    """Raise unless the settings name the store, organisation, and embedder of the backup."""
    for name, found in (("store", made.store), ("organisation", made.organisation)):
        if getattr(settings, name) != found:
            raise InvalidSettings(
                f"the backup is of a cluster with CODELODE_{name.upper()}={found}, but here it is "
                f"{getattr(settings, name)}: set it to {found}"
            )
    model = registry.embedder(registry.chosen(settings, made.facts["choice"]))
    if (model.identity, model.dim) != (made.facts["embedder"], made.facts["dim"]):
        raise SchemaMismatch(
            f"the backup's index was made by the embedder {made.facts['embedder']}, but the "
            f"settings name {model.identity}: set CODELODE_EMBEDDER and CODELODE_EMBEDDING_MODEL "
            "to the embedder of the backup, restore it, and then run `codelode reindex`"
        )


def _require_nothing(settings: Settings, index: engine.IndexBackup) -> None:
    repositories, chunks = len(registry.ledger(settings).repositories()), index.chunks()
    if repositories or chunks:
        raise InvalidSettings(
            f"found {counted(repositories, 'repository')} and {counted(chunks, 'chunk')} here "
            "already: give --force to replace them with the backup"
        )


def _restore_mirrors(saved: Path, into: Path) -> None:
    """Copy the mirrors that are missing; a mirror that exists is as new or newer."""
    make_private(into)
    for mirror in sorted(saved.iterdir()):
        if not (into / mirror.name).exists():
            coming = (into / mirror.name).with_suffix(".part")
            shutil.rmtree(coming, ignore_errors=True)
            shutil.copytree(mirror, coming, symlinks=True)
            coming.rename(into / mirror.name)
