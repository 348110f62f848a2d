"""Which tests need a real server, which share a process, and in which order they run.

With `--dist loadgroup` a group runs in one process, so that what its tests share is started once. A
group is a file, by chunk store where it has several, or all tests of the cluster that end-to-end
files share. The groups that take longest come first, so that no process waits long for the last.

A test that needs a server gets the marker `server` for it, unless it asks by `getfixturevalue`;
then its parameter carries the marker.
"""

from __future__ import annotations

import pytest

END_TO_END = "tests/end_to_end/"

#: Beginnings of paths, the slowest first; the rest is quick.
SLOWEST = (
    "tests/end_to_end/test_stage_boundaries",
    "tests/end_to_end/test_bad_days",
    "tests/end_to_end/test_reindex",
    END_TO_END,
    "tests/codelode/cli/test_cluster",
    "tests/codelode/backends/",
    "tests/contracts/",
)


def pytest_collection_modifyitems(items):
    for item in items:
        if item.nodeid.startswith(END_TO_END) or "real_servers" in item.fixturenames:
            item.add_marker(pytest.mark.server)
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(_group(item)))
    items.sort(key=_rank)


@pytest.fixture(scope="session")
def real_servers(request):
    """What every fixture asks for that starts a server, or finds one that was started."""
    if "not server" in request.config.option.markexpr:
        pytest.fail("this test needs a real server and has no marker `server`")


def _group(item):
    store = getattr(item, "callspec", None) and item.callspec.params.get("store", "")
    shares = "cluster" in item.fixturenames and item.nodeid.startswith(END_TO_END)
    file = item.nodeid.partition("::")[0]
    return f"{'shared cluster' if shares else file} {store or ''}".strip()


def _rank(item):
    places = (at for at, start in enumerate(SLOWEST) if item.nodeid.startswith(start))
    return next(places, len(SLOWEST))
