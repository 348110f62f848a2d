"""Mark tests that need a real server, group tests that share a process, and order the groups.

With `--dist loadscope` a group runs in one process, so that the servers its tests share start once.
A group is a file (with one chunk store, if it runs with several), or all files that share a
cluster. The slowest groups run first, so that no process waits long for the last one.
`--dist loadgroup` does not work: xdist 3.8 does not see the groups under pytest 9.2.

A test that needs a server gets the marker `server`. If it requests the server by
`getfixturevalue`, its parameter must have the marker.
"""

from __future__ import annotations

import re
from functools import cache

import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling

END_TO_END = "tests/end_to_end/"

STAGE_BOUNDARIES = f"{END_TO_END}test_stage_boundaries.py"

#: The group of the files whose tests share one cluster. The tests of the stage boundaries are apart
#: although they use it too: with them, it would be the last group to end.
SHARED_CLUSTER = "shared cluster"
SHARED = {
    f"{END_TO_END}test_{name}.py"
    for name in (
        "checkouts",
        "disks",
        "graph",
        "main_job",
        "mcp",
        "operating",
        "parsing",
        "quality",
        "stored",
    )
}

#: The folder of files that share a cluster and a browser.
PAGES = f"{END_TO_END}pages/"

#: Groups and path prefixes, the slowest first; all others are quick.
SLOWEST = (
    STAGE_BOUNDARIES,
    f"{END_TO_END}test_reindex",
    f"{END_TO_END}test_bad_days",
    SHARED_CLUSTER,
    PAGES,
    f"{END_TO_END}test_hostile",
    "tests/deploy/test_dockerfile",
    "tests/gateway/test_leaks",
    "tests/gateway/test_malformed",
    "tests/test_linear_patterns",
    END_TO_END,
    "tests/codelode/cli/test_cluster",
    "tests/gateway/test_api_keys",
    "tests/gateway/test_rest_schema",
    "tests/gateway/test_schemathesis",
    "tests/gateway/test_mcp",
    "tests/deploy/",
    "tests/codelode/backends/",
    "tests/contracts/",
)


def uses_shared_cluster(item):
    """Return whether a test is in a file that uses the shared cluster."""
    return item.nodeid.partition("::")[0] in {*SHARED, STAGE_BOUNDARIES}


def pytest_collection_modifyitems(items):
    for item in items:
        if item.nodeid.startswith(END_TO_END) or "real_servers" in item.fixturenames:
            item.add_marker(pytest.mark.server)
    items.sort(key=_rank)


@pytest.fixture(scope="session")
def real_servers(request):
    """Fail a test that uses a server without the marker; each fixture of a server needs this."""
    if "not server" in request.config.option.markexpr:
        pytest.fail("this test needs a real server and has no marker `server`")


class Groups(LoadScopeScheduling):
    """Hands each process one group at a time."""

    def _split_scope(self, nodeid):
        group = _group(nodeid)
        if not nodeid.startswith(END_TO_END):
            return group
        store = re.search(r"\b(local|weaviate)\b", nodeid.partition("[")[2])
        return f"{group} {store[0] if store else ''}"


def pytest_xdist_make_scheduler(config, log):
    return Groups(config, log) if config.getvalue("dist") == "loadscope" else None


def _group(nodeid):
    file = nodeid.partition("::")[0]
    if file.startswith(PAGES):
        return PAGES
    return SHARED_CLUSTER if file in SHARED else file


def _rank(item):
    return _rank_of_group(_group(item.nodeid))


@cache
def _rank_of_group(group):
    places = (at for at, start in enumerate(SLOWEST) if group.startswith(start))
    return next(places, len(SLOWEST))
