"""An agent uses `codelode mcp` with a real cluster, from a commit to a bounded answer."""

from __future__ import annotations

import pytest

from codelode.backends.models.static import StaticEmbedder
from codelode.mcp.answers import MAX_BYTES, MAX_TOKENS
from tests.agents import Agent, Refused

#: An escape sequence, a change of direction, and a line break in the name of a file and in code.
HOSTILE = "src/\x1b[31m\u202e\nevil.py"


@pytest.fixture(scope="module")
def agent(cluster):
    """Start an agent for all tests, because a start takes 2 s of processor time.

    It finds the cluster by its data folder, as every command does.
    """
    with Agent({"CODELODE_DATA": str(cluster.data)}) as started:
        yield started


@pytest.mark.timeout(240)
def test_an_agent_indexes_searches_reads_and_explains_a_repository(agent, git):
    git.commit(
        {
            "src/pool.py": "class Pool:\n    def close_sessions(self):\n        return 1\n",
            "src/app.py": "from pool import Pool\n\n\ndef stop():\n    Pool().close_sessions()\n",
            HOSTILE: "def evil():\n    return '\x1b[2J\u2066'\n",
        }
    )
    here = {"repository": "mcp/app"}
    seen = []

    async def on_progress(done, total, _):
        seen.append((done, total))

    ended = agent.result(
        "index", url=str(git.folder), name="mcp/app", wait_s=200, on_progress=on_progress
    )

    assert not ended.is_error, ended
    assert ended.content[0].text.startswith("mcp/app  complete  3 files, 0 skipped, 0 failed")
    assert seen[-1] == (3, 3)

    found = agent.call("search", query="how are sessions closed", repositories=["mcp/app"])
    assert "src/pool.py:1-3" in found
    assert "2      def close_sessions(self):" in found
    hostile = agent.call("search", query="evil", repositories=["mcp/app"])
    assert "'src/\\x1b[31m\\u202e\\nevil.py':1-2 evil (function)" in hostile
    assert "return '\\x1b[2J\\u2066'" in hostile

    about = agent.call("explain", subject="src/pool.py", **here)
    assert "imported by:\n  src/app.py" in about
    edges = agent.call("graph", subject="src/pool.py", reverse=True, **here)
    assert "src/app.py:5 stop → src/pool.py:2 Pool.close_sessions" in edges
    assert "def close_sessions" in agent.call("context", query="sessions", tokens=500)
    assert "mcp/app main at" in agent.call("status", **here)

    with pytest.raises(Refused, match="did you mean 'mcp/app'"):
        agent.call("search", query="sessions", repositories=["mcp/ap"])


@pytest.mark.timeout(240)
@pytest.mark.parametrize("store", ["local"], indirect=True)  # the length does not depend on it
@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("search", {"query": "return the value of the option", "top_k": 200}),
        ("search", {"query": "import", "top_k": 200, "context_lines": 200}),
        ("context", {"query": "how is a message sent", "tokens": 100_000, "top_k": 200}),
        ("graph", {"subject": "kombu/__init__.py", "reverse": True, "depth": 5, "limit": 1_000}),
        ("explain", {"subject": "kombu/utils/encoding.py"}),
        ("read", {"path": "kombu/transport/virtual/base.py"}),
        ("status", {"failures": "all"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_no_answer_about_real_code_is_longer_than_an_agent_accepts(agent, undisturbed, tool, given):
    where = {"repository": "library"} if tool in ("graph", "explain", "read") else {}

    text = agent.call(tool, **given, **where)

    assert len(text.encode()) <= MAX_BYTES
    assert StaticEmbedder().count_tokens(text) <= MAX_TOKENS
