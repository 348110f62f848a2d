"""Sizes of folders, and sizes that people read."""

from __future__ import annotations

import pytest

from codelode.disk_use import UNKNOWN, readable, taken_by


def test_a_folder_counts_its_files_and_follows_no_link(tmp_path):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    (inside / "deep").mkdir(parents=True)
    outside.mkdir()
    (outside / "large").write_bytes(b"x" * 5_000_000)
    before = taken_by(inside)
    (inside / "deep" / "file").write_bytes(b"x" * 1_000_000)
    (inside / "link").symlink_to(outside)

    assert 1_000_000 <= taken_by(inside) - before < 2_000_000
    assert taken_by(tmp_path / "missing") == 0


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1.0 kB"),
        (999_960, "1.0 MB"),
        (1_250_000_000, "1.2 GB"),
        (5 * 10**15, "5000.0 TB"),
        (UNKNOWN, "unknown"),
    ],
)
def test_sizes_are_written_in_decimal_units(size, text):
    assert readable(size) == text
