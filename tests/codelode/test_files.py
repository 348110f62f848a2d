"""Private folders: those that hold the content of repositories."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from codelode import mirrors
from codelode.backends.local.store import LocalChunkStore
from codelode.files import make_private, open_private, replace_text


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_folder_and_its_parents_are_private(tmp_path: Path) -> None:
    make_private(tmp_path / "a/b")

    assert [mode(tmp_path / "a"), mode(tmp_path / "a/b")] == [0o700, 0o700]


def test_an_existing_folder_is_made_private(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o755)

    make_private(folder)

    assert mode(folder) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_a_folder_of_another_user_is_not_changed(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o755)
    os.chown(folder, 65534, 65534)

    make_private(folder)

    assert mode(folder) == 0o755


def test_a_file_that_is_replaced_is_private_from_the_start(tmp_path: Path) -> None:
    file, draft = tmp_path / "token", tmp_path / "token.draft"
    file.write_text("old")
    draft.write_text("of a process that died")  # with the mode that others can read

    replace_text(file, "new")

    assert (file.read_text(), mode(file)) == ("new", 0o600)
    assert not draft.exists()
    with open_private(draft) as opened:
        assert stat.S_IMODE(os.fstat(opened.fileno()).st_mode) == 0o600


def test_the_folders_of_an_index_are_private(tmp_path: Path) -> None:
    """The index may be moved out of the data folder, which is private itself."""
    index = tmp_path / "index"
    index.mkdir(mode=0o755)

    LocalChunkStore(index, dim=4, identity="test").close()

    folders = [index, *(path for path in index.rglob("*") if path.is_dir())]
    assert {path.name: mode(path) for path in folders} == dict.fromkeys(
        (path.name for path in folders), 0o700
    )
    assert len(folders) > 1, "the index keeps its keywords in a folder"


def test_the_folder_of_the_mirrors_is_private(tmp_path: Path) -> None:
    with mirrors.locked(tmp_path / "mirrors/app.git", timeout_s=1):
        pass

    assert mode(tmp_path / "mirrors") == 0o700
