"""Uses of names come from the syntax of indexed files, so comments and strings contain none.

Calls, inheritance, and mere mentions are distinguished.
"""

from __future__ import annotations

import pytest

from codelode.access import EVERYTHING, Principal, Role
from gateway import service
from gateway.service.requests import GraphRequest
from tests.worlds import World

HERE = "acme/app"
ASKING = Principal("ann", Role.READER, EVERYTHING)

C = {
    "src/aof.c": (
        '#include "server.h"\n\n'
        "/* rewriteFile() is called by the cron: see rewriteFile(1). */\n"
        "int rewriteFile(int why) {\n"
        '    log("rewriteFile() failed");\n'
        "    return why; // not rewriteFile(2)\n"
        "}\n\n"
        "static int helper(int x) { return x; }\n\n"
        "int again(void) { return rewriteFile(helper(1)); }\n"
    ),
    "src/cron.c": (
        '#include "server.h"\nvoid cron(void) {\n    rewriteFile(3);\n    helper(2);\n}\n'
    ),
    "src/server.h": "int rewriteFile(int why);\n",
}
PYTHON = {
    "app/models.py": (
        "class Base:\n"
        "    def copy(self):\n"
        '        """Like dict.copy(); `load()` and Base.copy() are no calls here."""\n'
        "        return self.build()\n\n"
        "    def build(self):\n"
        "        return load(1)\n\n"
        "    def twin(self):\n"
        "        return self.copy()\n\n\n"
        "def load(key):\n"
        "    return key\n"
    ),
    "app/walk.py": (
        "from app.models import Base, load\n\n\n"
        "class Child(Base):\n    pass\n\n\n"
        "def walk(visited):\n"
        "    # load(visited) would be too slow\n"
        "    seen = visited.copy()\n"
        '    return f"load() {load(seen)} load()"\n\n\n'
        "def stop(model):\n"
        '    """Do not build()."""\n'
        "    model.build()\n"
        '    return "load(1)"\n'
    ),
}
RUST = {
    "src/lib.rs": (
        "//! `open()` opens.\npub fn open(n: u8) -> u8 { n }\n\n"
        "/// ```\n/// assert_eq!(open(1), 1);\n/// ```\n"
        'pub fn check() {\n    assert_eq!(open(2), 2);\n    println!("open(3)");\n}\n'
    )
}
CASES = [
    (C, "rewriteFile", "callers",
     ["src/aof.c again 11 exact", "src/cron.c cron 3 imported"]),
    (C, "helper", "callers", ["src/aof.c again 11 exact"]),
    (C, "cron", "calls", ["src/aof.c rewriteFile 4 imported"]),
    (PYTHON, "load", "callers",
     ["app/models.py Base.build 7 exact", "app/walk.py walk 11 exact"]),
    (PYTHON, "Base.copy", "callers",
     ["app/models.py Base.twin 10 exact", "app/walk.py walk 10 name"]),
    (PYTHON, "build", "callers",
     ["app/models.py Base.copy 4 exact", "app/walk.py stop 16 imported"]),
    (PYTHON, "stop", "calls", ["app/models.py Base.build 6 imported"]),
    (PYTHON, "walk", "calls", ["app/models.py load 13 exact", "app/models.py Base.copy 2 name"]),
    (PYTHON, "Base", "subclasses", ["app/walk.py Child 4 exact"]),
    (PYTHON, "Child", "inherits", ["app/models.py Base 1 exact"]),
    (RUST, "open", "callers", ["src/lib.rs check 8 exact"]),
]  # fmt: skip


@pytest.fixture
def ask(settings):
    world = World(settings)

    async def asked(files, subject, relation):
        world.index(HERE, files)
        request = GraphRequest(subject=subject, relations=(relation,), depth=1)
        answer = await service.graph(world.dependencies, ASKING, request)
        return [shown(link, relation) for link in answer.links]

    return asked


def shown(link, relation):
    at = link.target if relation in ("calls", "inherits") else link.source
    return f"{at.path} {at.symbol} {at.line} {link.confidence}"


@pytest.mark.parametrize(
    ("files", "subject", "relation", "expected"),
    CASES,
    ids=[f"{case[1]} {case[2]}" for case in CASES],
)
async def test_uses_are_those_of_the_syntax(ask, files, subject, relation, expected):
    assert await ask(files, subject, relation) == expected
