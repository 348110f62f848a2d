"""Uses of names are found: calls, instantiations, inheritance."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from codelode.model import ReferenceKind
from workers.parse import parse
from workers.parse.uses import _COMMON, MAX_LINES, MAX_REFERENCES

ROOT = Path(__file__).parents[3]
CALLS = (ReferenceKind.CALL, ReferenceKind.MEMBER, ReferenceKind.OWN)

USED = [
    ("a.py", "@deco\nclass A(Base, m.Mixin):\n  def f(self):\n    run(1)\n    self.load()\n",
     "call deco, call run, implementation Base, implementation Mixin, own load"),
    ("a.js", "class A extends Base {}\nrun();\na.load();\nnew Client();\n",
     "call run, class Client, implementation Base, member load"),
    ("a.ts", "class A extends Base implements Face<T> {}\ninterface J extends Kind {}\n",
     "implementation Base, implementation Face, implementation Kind"),
    ("a.tsx", "const x = <Card><Item/></Card>;\n", "call Card, call Item"),
    ("a.go", "package a\ntype T struct { Base }\nfunc f() { run(); s.Load(); _ = Client{} }\n",
     "call run, class Client, implementation Base, member Load"),
    ("A.java", "class A extends Base implements Face {\n"
     " void f() { run(); s.load(); new Client(); } }\n",
     "call run, class Client, implementation Base, implementation Face, member load"),
    ("a.kt", "class A : Base() { fun f() { run(); s.load() } }\n",
     "call run, implementation Base, member load"),
    ("a.scala", "class A extends Base { def f = { run(1); s.load(2); new Client(3) } }\n",
     "call run, class Client, implementation Base, member load"),
    ("a.rs", "impl Shape for A {}\nfn f() { run(); m::go(); s.load(); vec![]; Client {}; }\n",
     "call go, call run, call vec, class Client, implementation Shape, member load"),
    ("a.c", "void f(void) { run(); s->load(); }\n", "call run, member load"),
    ("a.cpp", "class A : public Base {}; void f() { ns::run(); new Client(); }\n",
     "call run, class Client, implementation Base"),
    ("a.cs", "class A : Base, Face<T> { void F() { Run(); s.Load(); new Client(); } }\n",
     "call Run, class Client, implementation Base, implementation Face, member Load"),
    ("a.rb", "class A < Base\n  def f\n    run(1)\n    s.load\n    Client.new\n  end\nend\n",
     "call run, class Client, implementation Base, member load"),
    ("a.php", "<?php class A extends Base implements Face { function f() {"
     " run(); $this->load(); new Client(); S::go(); } }",
     "call run, class Client, implementation Base, implementation Face, member go, own load"),
    ("a.lua", "run()\ns.load()\ns:go()\n", "call run, member go, member load"),
    ("a.swift", "class A: Base { func f() { run(); s.load() } }\n",
     "call run, implementation Base, member load"),
    ("a.zig", "fn f() void { run(); s.load(); }\n", "call run, member load"),
    ("a.sh", "run_it now\n", "call run_it"),
    ("a.ex", "defmodule A do\n  def f, do: Store.load(run(1))\nend\n", "call run, member load"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "text", "expected"), USED, ids=[row[0] for row in USED])
def test_uses_are_found_by_kind_and_name(path, text, expected):
    found = parse(text.encode(), path=path).references
    wanted = set(expected.split(", "))
    assert wanted <= {f"{one.kind.value} {one.name}" for one in found}
    names = {use.split(" ")[1] for use in wanted}
    noise = {"def", "defmodule", "f", "A"}  # Elixir's definitions are calls too
    assert {one.name for one in found} - noise <= names


LINES = [
    ("a.py", "run()\n# run()\ndef f():\n    'run()'\n    run(f'{run(1)}')\n", "run", (1, 5)),
    ("a.c", "/* run() */\nvoid f(void) {\n  run();\n  log(\"run()\");\n}\n", "run", (3,)),
    ("a.rs", "/// run()\nfn f() {\n  assert!(run());\n  a.run();\n}\nfn run() {}\n", "run", (3,)),
    ("a.rs", "wrap! {\n  fn run() {\n    run();\n  }\n}\n", "run", (3,)),
    ("a.rb", "class A\n  def f\n    run\n    x = run(1)\n  end\nend\n", "run", (3, 4)),
    ("a.ex", "defmodule A do\n  def f(x), do: x |> run |> stop()\nend\n", "run", (2,)),
    ("a.vue", "<template/>\n<script>\nrun()\n</script>\n<script setup>\nrun()\n</script>\n",
     "run", (3, 6)),
    ("a.ipynb", '{"cells": [{"cell_type": "code", "source": [\n"x = 1\\n",\n"run()"]}],\n'
     '"metadata": {}}\n', "run", (3,)),
]  # fmt: skip


@pytest.mark.parametrize(("path", "text", "name", "lines"), LINES, ids=[r[1] for r in LINES])
def test_a_use_has_its_lines_and_none_of_comments_and_strings(path, text, name, lines):
    found = parse(text.encode(), path=path).references
    assert [one.lines for one in found if (one.kind, one.name) == ("call", name)] == [lines]


def test_a_name_counts_once_for_each_kind():
    found = parse(b"run()\nrun()\na.run()\n", path="a.py").references
    assert [(one.kind.value, one.name) for one in found] == [("call", "run"), ("member", "run")]


RENAMED = [
    ("a.py", "from a.b import load as read, save\nread()\nself.read()\nsave()\n",
     "call save, own read, call load as read"),
    ("a.py", "import numpy as np\nimport pkg.util as u\nclass A(u.Base): pass\n"
     "np.linalg.norm(1)\nu.run()\nself.u.stop()\n",
     "member stop, implementation Base as u.Base, member norm as np.linalg.norm,"
     " member run as u.run"),
    ("a.py", "from a import Base as Parent\nclass A(Parent): pass\n",
     "implementation Base as Parent"),
    ("a.py", "try:\n  from a import load as read\nexcept ImportError:\n  def read(): pass\n"
     "read()\n", "call read, call load as read"),
    ("a.js", "import {load as read} from './a';\nread(); x => read(x); o.read(); [...read()];\n",
     "member read, call load as read"),
    ("a.ts", "import * as ns from './a';\nimport {Base as Parent} from './b';\n"
     "class A extends Parent implements ns.Face {}\nns.load(); new ns.Thing();\n",
     "class Thing as ns.Thing, implementation Base as Parent, member load as ns.load"),
    ("a.js", "const {load: read, save} = require('./a');\nconst tool = require('./b').inner;\n"
     "const all = require('./c');\nread(); save(); tool(); all.run();\n",
     "call save, call inner as tool, call load as read, member run as all.run"),
    ("a.js", "const made = require('./a')(1);\nmade.run();\n", "member run"),
    ("a.js", "import Tool from './a';\nTool();\nTool.make();\n",
     "call Tool, call default as Tool, member make as Tool.make"),
    ("a.js", "export {load as read} from './a';\nread();\n", "call read"),
    ("a.js", "export default function load() {}\n", "default load"),
    ("a.js", "class Store {}\nmodule.exports = Store;\n", "default Store"),
    ("a.ts", "export default abstract class Store {}\n", "default Store"),
    ("a.js", "export default async (x) => x;\n", ""),
    ("a.go", 'package a\nimport (\n ut "x/util"\n _ "x/side"\n "fmt"\n)\n'
     "type T struct { ut.Base }\nfunc f() { ut.Run(); fmt.Print(); _ = ut.Client{} }\n",
     "member Print, class Client as ut.Client, implementation Base as ut.Base,"
     " member Run as ut.Run"),
    ("a.rs", "use crate::a::load as read;\nuse x::{shape as form, d::{self as e, Face as F}};\n"
     "impl F for A {}\nfn f() { read(); e::go(); form(); x::read(); }\n",
     "call read, call go as e::go, call load as read, call shape as form,"
     " implementation Face as F"),
    ("a.php", "<?php use A\\Base as Parental; use function X\\load as read;\n"
     "use G\\{Face as F};\nclass K extends Parental implements F { function f() {"
     " read(); new Parental(); Parental::make(); $this->read(); } }",
     "own read, call load as read, class Base as Parental, implementation Base as Parental,"
     " implementation Face as F, member make as Parental::make"),
    ("a.kt", "import a.load as read\nimport a.Base as Parent\n"
     "class A : Parent() { fun f() { read(); s.read(); Parent.make() } }\n",
     "member read, call load as read, implementation Base as Parent, member make as Parent.make"),
    ("a.scala", "import a.{load => read, Base => Parent, Hidden => _}\n"
     "class A extends Parent { def f = { read(1); Parent.make(2); new Parent(3) } }\n",
     "call load as read, class Base as Parent, implementation Base as Parent,"
     " member make as Parent.make"),
    ("a.cs", "using Store = A.B.Shop;\nusing A;\n"
     "class K : Store { void F() { Store.Run(); new Store(); } }\n",
     "class Shop as Store, implementation Shop as Store, member Run as Store.Run"),
    ("a.ex", "defmodule A do\n  alias B.C, as: D\n  def f, do: D.load(1)\nend\n",
     "member load as D.load"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "text", "expected"), RENAMED, ids=[r[1] for r in RENAMED])
def test_a_use_under_another_name_is_a_use_of_the_imported_name(path, text, expected):
    found = parse(text.encode(), path=path).references
    told = [
        f"{one.kind.value} {one.name}" + (f" as {one.written}" if one.written else "")
        for one in found
        if one.name not in {"alias", "def", "defmodule"}
    ]
    assert told == [use for use in expected.split(", ") if use]


def test_a_table_of_calls_is_cut():
    text = "".join(f"f{number}()\n" for number in range(MAX_REFERENCES + 50))
    assert len(parse(text.encode(), path="a.py").references) == MAX_REFERENCES


def name_at(node):
    """Return the name that a call or a decorator uses, with its line, or None."""
    node = node.func if isinstance(node, ast.Call) else node
    match node:
        case ast.Name():
            return node.id, node.lineno
        case ast.Attribute():
            return node.attr, node.end_lineno
    return None


@pytest.mark.slow
def test_the_calls_of_real_files_are_those_that_python_reads():
    """Its own parser knows what is a call, a comment, or a string; a decorator is called, too."""
    for path in sorted(ROOT.glob("codelode/**/*.py")):
        text = path.read_bytes()
        used = [use for use in parse(text, path=path.name).references if use.kind in CALLS]
        found = {(use.written.rpartition(".")[2] or use.name, n) for use in used for n in use.lines}
        assert all(len(use.lines) < MAX_LINES for use in used)
        tree = list(ast.walk(ast.parse(text)))
        calls = [node for node in tree if isinstance(node, ast.Call)]
        calls += [one for node in tree for one in getattr(node, "decorator_list", ())]
        named = {name for name in map(name_at, calls) if name is not None}
        expected = {(name, n) for name, n in named if name.encode() not in _COMMON and name[1:]}
        assert found == expected, path


def test_heads_of_definitions_in_elixir_are_not_calls():
    text = (
        "defmodule A do\n"
        "  @spec get(t, k) :: v when k: atom\n"
        "  @callback put(t) :: t\n"
        "  def get(t, k) when is_atom(k), do: fetch(t, k)\n"
        "  def put(t), do: get(t, :a)\n"
        "  @impl true\n"
        "  defp fetch(t, k), do: t[k]\n"
        "end\n"
    )

    found = parse(text.encode(), path="a.ex").references

    assert {(one.name, one.lines) for one in found} == {
        ("fetch", (4,)),
        ("get", (5,)),
        ("is_atom", (4,)),
    }
