"""The intervals of the periodic tasks."""

from __future__ import annotations

import pytest

from codelode.settings import load
from workers.delivery.configuration import WITHOUT_SOURCES_S, configured


@pytest.mark.parametrize(
    ("sources", "interval_s"), [("/sources.yaml", 2.0), ("", WITHOUT_SOURCES_S)]
)
def test_without_a_sources_file_code_hosts_are_looked_for_less_often(sources, interval_s, tmp_path):
    settings = load(data=tmp_path, sources=sources, reap_interval_s=2.0)

    schedule = configured(settings).conf.beat_schedule

    assert {schedule[name]["schedule"] for name in ("permissions", "sources")} == {interval_s}
    assert schedule["reap"]["schedule"] == 2.0
