"""Uses of names: what is called, made and inherited."""

from __future__ import annotations

import pytest

from workers.parse import parse
from workers.parse.references import MAX_REFERENCES

USED = [
    ("a.py", "@deco\nclass A(Base, m.Mixin):\n  def f(self):\n    run(1)\n    self.load()\n",
     "call deco, call run, implementation Base, implementation Mixin, member load"),
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
     "call run, class Client, implementation Base, implementation Face, member go, member load"),
    ("a.lua", "run()\ns.load()\ns:go()\n", "call run, member go, member load"),
    ("a.swift", "class A: Base { func f() { run(); s.load() } }\n",
     "call run, implementation Base, member load"),
    ("a.zig", "fn f() void { run(); s.load(); }\n", "call run, member load"),
    ("a.sh", "run_it now\n", "call run_it"),
    ("a.ex", "defmodule A do\n  def f, do: Store.load(run(1))\nend\n", "call run, member load"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "text", "expected"), USED, ids=[row[0] for row in USED])
def test_uses_are_told_by_kind_and_name(path, text, expected):
    found = parse(text.encode(), path=path).references
    wanted = set(expected.split(", "))
    assert wanted <= {f"{one.kind.value} {one.name}" for one in found}
    names = {use.split(" ")[1] for use in wanted}
    noise = {"def", "defmodule", "f", "A"}  # Elixir's definitions are calls too
    assert {one.name for one in found} - noise <= names


def test_a_name_counts_once_for_each_kind():
    found = parse(b"run()\nrun()\na.run()\n", path="a.py").references
    assert [(one.kind.value, one.name) for one in found] == [("call", "run"), ("member", "run")]


def test_a_table_of_calls_is_cut():
    text = "".join(f"f{number}()\n" for number in range(MAX_REFERENCES + 50))
    assert len(parse(text.encode(), path="a.py").references) == MAX_REFERENCES
