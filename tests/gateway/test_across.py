"""Imports from another repository lead to the file and the symbol that they refer to."""

from __future__ import annotations

import pytest

from codelode.access import EVERYTHING, Principal, Role, Visibility
from codelode.settings import Settings
from gateway import service
from gateway.service.requests import GraphRequest
from tests.worlds import World

MAKER, USER = "acme/maker", "acme/user"

RUST = {
    "net/Cargo.toml": '[package]\nname = "net"\n',
    "net/src/lib.rs": "pub mod tcp;\npub mod sync;\npub use crate::tcp::Stream;\n",
    "net/src/tcp/mod.rs": "mod listener;\nmod other;\npub use listener::Listener;\n"
    "pub struct Stream {}\n",
    "net/src/tcp/listener.rs": "pub struct Listener {}\nimpl Listener {\n    pub fn bind() {}\n}\n",
    "net/src/tcp/other.rs": "pub struct Quiet {}\n",
    "net/src/sync.rs": "pub struct Mutex {}\npub fn channel() {}\n",
    "net/tests/listener.rs": "struct Listener {}\n",
}
PYTHON = {
    "pyproject.toml": '[project]\nname = "acme-net"\n',
    "src/acme/__init__.py": "from acme.tcp.listener import Listener\n",
    "src/acme/tcp/__init__.py": "",
    "src/acme/tcp/listener.py": "class Listener:\n    def bind(self):\n        return 1\n",
    "src/acme/sync.py": "class Mutex:\n    pass\n\n\ndef channel():\n    return 1\n",
}
NPM = {
    "package.json": '{"name": "@acme/ui"}',
    "src/index.ts": "export { Button } from './button'\n",
    "src/button.ts": "export class Button {}\nexport function press() {}\n",
    "src/theme.ts": "export const dark = () => 1\n",
}
GO = {
    "go.mod": "module example.org/acme/net\n",
    "tcp/listener.go": "package tcp\n\nfunc Listen() int {\n\treturn 1\n}\n",
    "tcp/dial.go": "package tcp\n\nfunc Dial() int {\n\treturn 1\n}\n",
    "udp/listener.go": "package udp\n\nfunc Listen() int {\n\treturn 1\n}\n",
}
JAVA = {
    "src/main/java/org/acme/net/Listener.java": "package org.acme.net;\n\n"
    "public class Listener {\n  public static class Builder {}\n}\n",
    "src/main/java/org/acme/net/Mutex.java": "package org.acme.net;\n\npublic class Mutex {}\n",
}

#: Maker, path and text of the user, and what it imports: path, symbol, confidence.
CASES = {
    "rust: a symbol of a module": (RUST, "src/a.rs", "use net::sync::Mutex;\n", [
        ("net/src/sync.rs", "Mutex", "exact")]),
    "rust: a symbol that a module exports": (RUST, "src/a.rs", "use net::tcp::Listener;\n", [
        ("net/src/tcp/listener.rs", "Listener", "imported")]),
    "rust: several at once": (RUST, "src/a.rs", "use net::{Stream, sync::{Mutex, channel}};\n", [
        ("net/src/sync.rs", "Mutex", "exact"), ("net/src/sync.rs", "channel", "exact"),
        ("net/src/tcp/mod.rs", "Stream", "imported")]),
    "rust: a module": (RUST, "src/a.rs", "use net::sync;\n", [("net/src/sync.rs", "", "exact")]),
    "rust: all of a module": (RUST, "src/a.rs", "use net::sync::*;\n", [
        ("net/src/sync.rs", "", "exact")]),
    "rust: what only a macro makes": (RUST, "src/a.rs", "use net::sync::made;\n", [
        ("net/src/sync.rs", "", "imported")]),
    "python: names of a module": (PYTHON, "a.py", "from acme.sync import Mutex, channel\n", [
        ("src/acme/sync.py", "Mutex", "exact"), ("src/acme/sync.py", "channel", "exact")]),
    "python: a module": (PYTHON, "a.py", "import acme.sync as s\n", [
        ("src/acme/sync.py", "", "exact")]),
    "python: a module by name": (PYTHON, "a.py", "from acme import sync\n", [
        ("src/acme/sync.py", "", "exact")]),
    "python: a name that the package exports": (PYTHON, "a.py", "from acme import Listener\n", [
        ("src/acme/tcp/listener.py", "Listener", "imported")]),
    "python: what is not there": (PYTHON, "a.py", "from acme.gone.far import x\n", [
        ("src/acme", "py:acme", "name")]),
    "npm: a name that the package exports": (NPM, "a.ts", "import {Button} from '@acme/ui'\n", [
        ("src/button.ts", "Button", "imported")]),
    "npm: a name of a module": (NPM, "a.ts", "import {press as p} from '@acme/ui/button'\n", [
        ("src/button.ts", "press", "exact")]),
    "npm: a module": (NPM, "a.ts", "import * as t from '@acme/ui/theme'\n", [
        ("src/theme.ts", "", "exact")]),
    "go: members in use": (GO, "a.go", 'package a\n\nimport "example.org/acme/net/tcp"\n\n'
        "func run() int {\n\treturn tcp.Listen()\n}\n", [
        ("tcp", "go:example.org/acme/net", "exact"), ("tcp/listener.go", "Listen", "exact")]),
    "java: a class": (JAVA, "A.java", "import org.acme.net.Listener;\n\nclass A {}\n", [
        ("src/main/java/org/acme/net/Listener.java", "", "exact")]),
}  # fmt: skip


def seen(*names):
    return Principal("someone", Role.READER, Visibility.of(names))


EVERYBODY = Principal("operator", Role.ADMIN, EVERYTHING)


@pytest.fixture
def world(tmp_path):
    return World(Settings(data=tmp_path))


async def ask(world, subject, relation="cross_repository", *, principal=EVERYBODY, **asked):
    request = GraphRequest(subject, relations=(relation,), **asked)
    found = await service.graph(world.dependencies, principal, request)
    return found.links


def ends(links, end):
    nodes = [(getattr(link, end), link.confidence.value) for link in links]
    return sorted((node.path, node.symbol, sure) for node, sure in nodes)


@pytest.mark.parametrize("case", CASES)
async def test_an_import_means_a_file_and_a_symbol(world, case):
    maker, path, text, expected = CASES[case]
    world.index(MAKER, maker)
    world.index(USER, {path: text})

    links = await ask(world, path, repository=USER)
    assert ends(links, "target") == sorted(expected)
    assert {link.target.repository for link in links} == {MAKER}


@pytest.mark.parametrize("case", CASES)
async def test_the_order_of_indexing_does_not_matter(world, case):
    maker, path, text, expected = CASES[case]
    world.index(USER, {path: text})
    world.index(MAKER, maker)

    assert ends(await ask(world, path, repository=USER), "target") == sorted(expected)


async def test_a_resolved_import_is_not_external(world):
    world.index(MAKER, RUST)
    world.index(USER, {"src/a.rs": "use net::tcp::Listener;\nuse serde::Serialize;\n"})

    links = await ask(world, "src/a.rs", "imports", repository=USER)
    assert {(link.target.repository, link.target.path, link.target.symbol) for link in links} == {
        (MAKER, "net/src/tcp/listener.rs", "Listener"),
        ("", "", "serde::Serialize"),
    }


async def test_a_module_imported_together_with_its_names_is_listed_once(world):
    world.index(MAKER, RUST)
    world.index(USER, {"src/a.rs": "use net::sync::{self, Mutex};\n"})

    links = await ask(world, "src/a.rs", "imports", repository=USER)
    assert ends(links, "target") == [
        ("net/src/sync.rs", "", "exact"),
        ("net/src/sync.rs", "Mutex", "exact"),
    ]


USERS = {
    "src/bind.rs": "use net::tcp::Listener;\npub fn go() { Listener::bind(); }\n",
    "src/lock.rs": "use net::sync::Mutex;\n",
    "src/whole.rs": "use net::sync;\npub fn go() { sync::channel(); }\n",
    "src/none.rs": "pub fn none() {}\n",
}


#: Files that publish a package whose name the maker publishes, too, and an import of it.
OWN = {
    "python": (PYTHON, {"acme/__init__.py": ""}, "a.py", "import acme.sync\n"),
    "rust": (RUST, {"Cargo.toml": '[package]\nname = "net"\n'}, "src/a.rs", "use net::made::X;\n"),
    "npm": (NPM, {"package.json": '{"name": "@acme/ui"}'}, "a.ts", "import '@acme/ui/theme'\n"),
    "go": (
        *(GO, {"go.mod": "module example.org/acme/net\n"}, "a.go"),
        'package a\n\nimport "example.org/acme/net/tcp"\n',
    ),
}


@pytest.mark.parametrize("case", OWN)
async def test_a_repository_means_its_own_package_of_two_with_one_name(world, case):
    maker, files, path, text = OWN[case]
    world.index(MAKER, maker)
    world.index(USER, {**files, path: text})

    for relation in ("cross_repository", "imports"):
        links = await ask(world, path, relation, repository=USER)
        assert MAKER not in {link.target.repository for link in links}
    for made in filter(maker.get, maker):
        links = await ask(world, made, reverse=True, repository=MAKER)
        assert USER not in {link.source.repository for link in links}


async def test_repositories_may_share_a_package_of_the_jvm(world):
    world.index(MAKER, JAVA)
    own = {"src/main/java/org/acme/net/Own.java": "package org.acme.net;\n\nclass Own {}\n"}
    world.index(USER, {**own, "A.java": "import org.acme.net.Listener;\n\nclass A {}\n"})

    links = await ask(world, "A.java", repository=USER)
    assert ends(links, "target") == [("src/main/java/org/acme/net/Listener.java", "", "exact")]


async def test_a_file_is_used_only_by_those_that_import_something_of_it(world):
    world.index(MAKER, RUST)
    world.index(USER, USERS)

    async def users(subject):
        found = await ask(world, subject, repository=MAKER, reverse=True)
        assert {link.source.repository for link in found} <= {USER}
        return {link.source.path for link in found}

    assert await users("net/src/sync.rs") == {"src/lock.rs", "src/whole.rs"}
    assert await users("net/src/tcp/listener.rs") == {"src/bind.rs"}
    assert await users("net/src/tcp/mod.rs") == {"src/bind.rs"}  # it exports the listener
    assert await users("net/src/tcp/other.rs") == set()
    assert await users("Mutex") == {"src/lock.rs"}
    assert await users("channel") == {"src/whole.rs"}
    assert await users("Quiet") == set()


async def test_an_import_that_cannot_be_resolved_is_linked_by_name_only(world):
    world.index(MAKER, PYTHON)
    world.index(
        USER, {"a.py": "from acme.gone.far import x\n", "b.py": "from acme.sync import Mutex\n"}
    )

    found = await ask(world, "src/acme/sync.py", repository=MAKER, reverse=True)
    assert ends(found, "source") == [("a.py", "", "name"), ("b.py", "", "exact")]


async def test_a_declared_dependency_links_to_the_package_and_not_to_its_files(world):
    world.index(MAKER, RUST)
    manifest = '[package]\nname = "app"\n\n[dependencies]\nnet = "1"\n'
    world.index(USER, {"examples/test/Cargo.toml": manifest})

    links = await ask(world, "examples/test/Cargo.toml", repository=USER)
    assert ends(links, "target") == [("net", "crate:net", "imported")]
    found = await ask(world, "net/Cargo.toml", repository=MAKER, reverse=True)
    assert ends(found, "source") == [("examples/test/Cargo.toml", "", "imported")]
    assert await ask(world, "net/src/sync.rs", repository=MAKER, reverse=True) == ()


async def test_a_hidden_repository_is_as_external_as_one_that_is_not_indexed(world):
    world.index(USER, {"src/a.rs": "use net::tcp::Listener;\n"})
    before = await ask(world, "src/a.rs", "imports", repository=USER)
    world.index(MAKER, RUST)

    hidden = seen(USER)
    assert await ask(world, "src/a.rs", "imports", repository=USER, principal=hidden) == before
    assert await ask(world, "src/a.rs", repository=USER, principal=hidden) == ()
    only = seen(MAKER)
    sync = "net/src/tcp/listener.rs"
    assert await ask(world, sync, repository=MAKER, reverse=True, principal=only) == ()


async def test_a_nested_package_shadows_the_outer_one_only_for_callers_who_see_it(world):
    client = "package client\n\nfunc Dial() {}\n"
    world.index(MAKER, {"go.mod": "module example.org/acme\n", "sdk/client/client.go": client})
    text = 'package main\n\nimport "example.org/acme/sdk/client"\n\nfunc main() { client.Dial() }\n'
    world.index(USER, {"a.go": text})
    two = seen(USER, MAKER)
    before = await ask(world, "a.go", repository=USER, principal=two)
    assert before
    reverse = {"repository": MAKER, "reverse": True}
    users = await ask(world, "sdk/client/client.go", principal=two, **reverse)
    assert users

    world.index("acme/sdk", {"go.mod": "module example.org/acme/sdk\n", "client/client.go": client})

    assert await ask(world, "a.go", repository=USER, principal=two) == before
    assert await ask(world, "sdk/client/client.go", principal=two, **reverse) == users
    found = await ask(world, "a.go", repository=USER)
    assert "acme/sdk" in {link.target.repository for link in found}


CHAIN = {
    "acme/base": {"package.json": '{"name": "@acme/base"}', "base.ts": "export const a = 1\n"},
    "acme/ui": {
        "package.json": '{"name": "@acme/ui", "dependencies": {"@acme/base": "1"}}',
        "ui.ts": "import { a } from '@acme/base'\nexport const ui = a\n",
    },
    "acme/app": {
        "app.ts": "import { ui } from '@acme/ui'\nui()\n",
        "page.ts": "import { ui } from '@acme/ui'\nimport { a } from '@acme/base'\n",
        "own.ts": "import { page } from './page'\n",
    },
}


@pytest.fixture
def chain(world):
    for name, files in CHAIN.items():
        world.index(name, files)
    return world


async def between(world, name, principal=EVERYBODY, **asked):
    """Return the links between whole repositories: user, provider, steps, files."""
    request = GraphRequest(repository=name, **asked)
    found = await service.graph(world.dependencies, principal, request)
    assert (found.subject_kind, found.repository) == ("repository", name)
    assert {end.path + end.symbol for one in found.links for end in (one.source, one.target)} <= {
        ""
    }
    return [
        (one.source.repository[5:], one.target.repository[5:], one.depth, one.files)
        for one in found.links
    ]


async def test_a_repository_depends_on_those_whose_packages_it_imports(chain):
    assert await between(chain, "acme/app", depth=1) == [("app", "ui", 1, 2), ("app", "base", 1, 1)]
    assert await between(chain, "acme/app") == [
        *(("app", "ui", 1, 2), ("app", "base", 1, 1), ("ui", "base", 2, 2))
    ]
    assert await between(chain, "acme/base") == []


async def test_a_repository_is_used_by_those_that_import_its_packages(chain):
    assert await between(chain, "acme/base", reverse=True, depth=1) == [
        *(("ui", "base", 1, 2), ("app", "base", 1, 1))
    ]
    assert await between(chain, "acme/base", reverse=True) == [
        *(("ui", "base", 1, 2), ("app", "base", 1, 1), ("app", "ui", 2, 2))
    ]


async def test_links_between_repositories_lead_to_visible_ones_alone(chain):
    some = seen("acme/base", "acme/app")

    assert await between(chain, "acme/app", some) == [("app", "base", 1, 1)]
    assert await between(chain, "acme/base", some, reverse=True) == [("app", "base", 1, 1)]


async def test_a_package_that_several_repositories_publish_links_to_each_by_name(chain):
    chain.index("acme/fork", CHAIN["acme/base"])
    request = GraphRequest(repository="acme/app", depth=1)
    found = await service.graph(chain.dependencies, EVERYBODY, request)

    assert {one.target.repository: one.confidence.value for one in found.links} == {
        "acme/ui": "imported",
        "acme/base": "name",
        "acme/fork": "name",
    }


async def test_the_links_of_a_repository_are_cut_at_the_limit(chain):
    request = GraphRequest(repository="acme/app", limit=1)
    found = await service.graph(chain.dependencies, EVERYBODY, request)

    assert [one.target.repository for one in found.links] == ["acme/ui"]
    assert found.notices == (
        "cross_repository: only the first 1 are shown; raise `limit` for more",
    )
