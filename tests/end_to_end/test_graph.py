"""Edges of files, symbols, and repositories, from a commit to `codelode graph`; they stay correct
when files are added, changed, and deleted."""

from __future__ import annotations

import pytest

from codelode.errors import InvalidQuery, NotFound

APP = {
    "src/app/__init__.py": "",
    "src/app/main.py": "from app.store import load\nimport requests\n\n\n"
    "def run():\n    return load(1)\n",
    "src/app/store.py": "from app.base import Base\n\n\nclass Store(Base):\n    pass\n\n\n"
    "def load(key):\n    return key\n",
    "src/app/base.py": "class Base:\n    pass\n",
    "tests/test_store.py": "from app.store import load\n\n\ndef test_load():\n    assert load(1)\n",
    "pyproject.toml": '[project]\nname = "acme-app"\n',
}


def indexed(client, git, name, files):
    git.commit(files)
    run = client.index(str(git.folder), name=name)
    assert run.state == "complete", run.error
    return run


def links(client, subject, relation, **asked):
    found = client.graph(subject, relations=[relation], **asked)
    return [(link.source, link.target, link.confidence) for link in found.links]


def targets(client, subject, relation, **asked):
    return {
        target.path or target.symbol for _, target, _ in links(client, subject, relation, **asked)
    }


def sources(client, subject, relation, **asked):
    return {source.path for source, _, _ in links(client, subject, relation, **asked)}


@pytest.mark.timeout(240)
def test_the_graph_of_a_repository_stays_correct_when_files_change(cluster, git):
    name = "graph/app"
    client, here = cluster.client(), {"repository": name}
    indexed(client, git, name, APP)

    assert targets(client, "src/app/main.py", "imports", **here) == {
        *("src/app/store.py", "src/app/base.py", "requests")
    }
    assert targets(client, "src/app/main.py", "imports", depth=1, **here) == {
        *("src/app/store.py", "requests")
    }
    assert sources(client, "src/app/base.py", "importers", **here) == {
        *("src/app/store.py", "src/app/main.py", "tests/test_store.py")
    }
    assert sources(client, "src/app/store.py", "tests", **here) == {"tests/test_store.py"}
    [(source, target, sure)] = links(client, "run", "calls", **here)
    assert (source.symbol, target.symbol, target.path, sure) == (
        *("run", "load", "src/app/store.py"),
        "exact",
    )
    assert {(s.path, s.symbol, s.line) for s, _, _ in links(client, "load", "callers", **here)} == {
        ("src/app/main.py", "run", 6),
        ("tests/test_store.py", "test_load", 5),
    }
    assert targets(client, "Store", "inherits", **here) == {"src/app/base.py"}
    assert {s.symbol for s, _, _ in links(client, "Base", "subclasses", **here)} == {"Store"}

    # A missing file is added: the unchanged importer finds it.
    indexed(client, git, name, {"src/app/late.py": "import app.later\n"})
    assert targets(client, "src/app/late.py", "imports", **here) == {"app.later"}
    run = indexed(client, git, name, {"src/app/later.py": "X = 1\n"})
    assert targets(client, "src/app/late.py", "imports", **here) == {"src/app/later.py"}
    assert run.total == 2

    # It is deleted again: the importer keeps the name.
    indexed(client, git, name, {"src/app/later.py": None})
    assert targets(client, "src/app/late.py", "imports", **here) == {"app.later"}

    # A definition moves: calls follow, although their files do not change.
    indexed(
        client,
        git,
        name,
        {
            "src/app/store.py": "from app.keys import load\n",
            "src/app/keys.py": "def load(key):\n    return key\n",
        },
    )
    assert targets(client, "run", "calls", **here) == {"src/app/keys.py"}

    with pytest.raises(NotFound):
        client.graph("nowhere.py", repository=name)
    with pytest.raises(InvalidQuery, match="relations"):
        client.graph("run", relations=["cals"], repository=name)
    with pytest.raises(InvalidQuery, match="depth"):
        client.graph("run", depth=9, repository=name)
    client.remove(name)


RENAMING = {
    "src/app/__init__.py": "",
    "src/app/store.py": "class Base:\n    pass\n\n\ndef load(key):\n    return key\n",
    "src/app/other.py": "def load(key):\n    return key\n",
    "src/app/main.py": "from app.store import load as read\nimport app.store as kept\n"
    "import app.other\nimport json as codec\n\n\n"
    "class Parent(kept.Base):\n    pass\n\n\n"
    "def load(key):\n    return read(key)\n\n\n"
    "def again(text):\n    return kept.load(codec.load(text))\n",
    "ui/shape.js": "export default function paint() {}\n",
    "ui/view.js": "import draw from './shape'\n\nexport function show() {\n  draw()\n}\n",
}


@pytest.mark.timeout(240)
def test_calls_and_bases_are_found_under_the_names_that_imports_give(cluster, git):
    name = "graph/renaming"
    client, here = cluster.client(), {"repository": name}
    indexed(client, git, name, RENAMING)

    found = links(client, "src/app/store.py", "callers", **here)
    assert {(s.path, s.symbol, s.line, sure) for s, t, sure in found if t.symbol == "load"} == {
        *(("src/app/main.py", "load", 12, "imported"), ("src/app/main.py", "again", 16, "imported"))
    }
    assert links(client, "src/app/other.py", "callers", **here) == []
    assert targets(client, "again", "calls", **here) == {"src/app/store.py"}
    assert targets(client, "Parent", "inherits", **here) == {"src/app/store.py"}
    assert {s.symbol for s, _, _ in links(client, "Base", "subclasses", **here)} == {"Parent"}
    assert sources(client, "paint", "callers", **here) == {"ui/view.js"}
    client.remove(name)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("order", [("user", "maker"), ("maker", "user")], ids="-".join)
def test_repositories_find_each_other_in_either_order(cluster, tmp_path, git, order):
    client = cluster.client()
    files = {
        "maker": {"package.json": '{"name": "@acme/ui"}', "index.js": "export function ui() {}\n"},
        "user": {"app.js": "import {ui} from '@acme/ui/button'\nui()\n"},
    }
    names = {role: f"graph/{role}-{order[0]}" for role in files}
    for role in order:
        indexed(client, type(git)(tmp_path / f"git-{role}"), names[role], files[role])

    taken = links(client, "app.js", "cross_repository", repository=names["user"])
    assert [(t.repository, t.symbol) for _, t, _ in taken] == [(names["maker"], "npm:@acme/ui")]
    given = links(client, "index.js", "cross_repository", repository=names["maker"], reverse=True)
    assert [(s.repository, s.path) for s, _, _ in given] == [(names["user"], "app.js")]

    client.remove(names["maker"])
    assert links(client, "app.js", "cross_repository", repository=names["user"]) == []
    client.remove(names["user"])


@pytest.mark.timeout(240)
def test_each_ref_has_its_own_graph_symbols_and_references(cluster, git):
    name = "graph/refs"
    client = cluster.client()
    main, topic = {"repository": name}, {"repository": name, "ref": "topic"}
    indexed(client, git, name, APP)
    git.run("checkout", "-q", "-b", "topic")
    git.commit(
        {"tests/test_store.py": None, "src/app/store.py": "def load(key, more):\n    return key\n"}
    )
    git.run("checkout", "-q", "main")
    assert client.index(str(git.folder), name=name, ref="topic").state == "complete"

    assert sources(client, "src/app/store.py", "importers", depth=1, **main) == {
        *("src/app/main.py", "tests/test_store.py")
    }
    assert sources(client, "src/app/store.py", "importers", depth=1, **topic) == {"src/app/main.py"}
    assert sources(client, "load", "callers", **main) == {"src/app/main.py", "tests/test_store.py"}
    assert sources(client, "load", "callers", **topic) == {"src/app/main.py"}
    assert targets(client, "src/app/store.py", "imports", **topic) == set()
    assert {one.signature for one in client.explain("load", **main).definitions} == {
        "def load(key)"
    }
    assert {one.signature for one in client.explain("load", **topic).definitions} == {
        "def load(key, more)"
    }
    with pytest.raises(NotFound):
        client.graph("Store", **topic)
    assert client.explain("Store", **main).definitions
    client.remove(name)
