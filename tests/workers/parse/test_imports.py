"""Imports are read as they are written in a file."""

import pytest

from tests.processor_time import processor_time_below
from workers.parse import parse

WRITTEN = [
    ("a.py", "import os.path as p, sys", [("os.path", ()), ("sys", ())]),
    ("a.py", "from .x import (a as b,  # why\n  c,)", [(".x", ("a", "c"))]),
    ("a.py", "from .. import y", [("..", ("y",))]),
    ("a.py", "from __future__ import annotations", [("__future__", ("annotations",))]),
    ("a.py", "from a import *", [("a", ("*",))]),
    ("a.js", "import X, {a as b, c} from './x.js'", [("./x.js", ("default", "a", "c"))]),
    ("a.js", "import * as ns from \"m\"", [("m", ("*",))]),
    ("a.js", "import './side.css'", [("./side.css", ())]),
    ("a.js", "const fs = require('fs')", [("fs", ())]),
    ("a.js", "export { k } from './k'; export * from './l'", [("./k", ("k",)), ("./l", ("*",))]),
    ("a.js", "const m = await import('./dyn.js')", [("./dyn.js", ())]),
    ("a.js", "import {\n  // a comment's quote\n  a,\n} from './x'", [("./x", ("a",))]),
    ("a.ts", "import type { A } from './a'", [("./a", ("A",))]),
    ("a.ts", "import x = require('x')", [("x", ())]),
    ("a.go", 'package a\nimport (\n f "os"\n _ "x/y"\n)', [("os", ()), ("x/y", ())]),
    ("A.java", "import java.util.*; import static x.Y.z;", [("java.util.*", ()), ("x.Y.z", ())]),
    ("a.rs", "use a::{b, c::{d as e, self}};", [("a::b", ()), ("a::c::d", ()), ("a::c", ())]),
    ("a.rs", "pub(crate) use crate::x::*;\nmod util;", [("crate::x::*", ()), ("self::util", ())]),
    ("a.rs", "extern crate foo;", [("foo", ())]),
    ("a.c", '#include <sys/types.h>\n#include "a/b.h"', [("<sys/types.h>", ()), ('"a/b.h"', ())]),
    ("a.cpp", "#include <vector>", [("<vector>", ())]),
    ("a.cs", "using A = B.C; using static X.Y;", [("B.C", ()), ("X.Y", ())]),
    ("a.rb", "require 'json'\nrequire_relative 'x/y'", [("json", ()), ("./x/y", ())]),
    ("a.php", "<?php use X\\Y as Z; use G\\{H, I as J};", [("X\\Y", ()), ("G", ("H", "I"))]),
    ("a.php", "<?php require_once 'x.php';", [("x.php", ())]),
    ("a.kt", "import a.b.C as D", [("a.b.C", ())]),
    ("a.scala", "import x.y.{A, B => C}", [("x.y", ("A", "B"))]),
    ("a.swift", "import struct A.B", [("A.B", ())]),
    ("a.hs", "import qualified Data.Map as M", [("Data.Map", ())]),
    ("a.ex", "defmodule A do\n alias B.{C, D}\nend", [("B", ("C", "D"))]),
    ("a.lua", "local x = require('a.b')", [("a.b", ())]),
    ("a.zig", 'const x = @import("x.zig");', [("x.zig", ())]),
    ("a.sh", ". ./lib.sh\nsource x.sh", [("./lib.sh", ()), ("x.sh", ())]),
]  # fmt: skip


@pytest.mark.parametrize(("path", "text", "expected"), WRITTEN, ids=[row[1] for row in WRITTEN])
def test_imports_are_read_as_written(path, text, expected):
    found = parse(text.encode() + b"\n", path=path).imports
    assert [(imp.module, imp.names) for imp in found] == expected


def test_an_import_has_its_line():
    assert [imp.line for imp in parse(b"import a\n\nimport b\n", path="a.py").imports] == [1, 3]


KUSTOMIZATION = """\
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namespace: prod
resources:
- ../../base
- ingress.yaml # c
- https://github.com/acme/infra//deploy?ref=v1
components: [../../components/tls, "../x"]
patches:
  - path: replicas.yaml
  # - path: commented.yaml
    target: {kind: Deployment}
  - target:
      kind: Deployment
    patch: |-
      - op: replace
        path: /spec/replicas
        value: 3
patchesStrategicMerge:
  - memory.yaml
  - |-
    apiVersion: v1
    metadata:
      args:
        - inner.yaml
images:
  - name: nginx
    newName: registry.acme.org/team/nginx
    newTag: "1"
  - newTag: "2"
    name: redis
configMapGenerator:
  - name: settings
    files:
      - application.properties
      - key.json=config/real.json
    envs:
      - .env
secretGenerator:
- name: tls
  files:
  - certs/tls.key
"""

DECLARED = [
    (
        "Dockerfile",
        "FROM acme/base:1 AS b\nFROM b\nCOPY --from=acme/tools /a /b\n",
        ["acme/base:1", "acme/tools"],
    ),
    ("main.tf", 'module "v" {\n  source = "./modules/vpc"\n}\n', ["./modules/vpc"]),
    (
        "ci.yml",
        "jobs:\n  a:\n    steps:\n      - uses: acme/tool@v1\n      - uses: ./act\n",
        ["acme/tool@v1", "./act"],
    ),
    (
        "compose.yml",
        "services:\n  a:\n    build: ./app\n  b:\n    image: redis:7\n",
        ["./app", "redis:7"],
    ),
    (
        ".gitlab-ci.yml",
        "include:\n  - local: ci/x.yml\n  - project: acme/ci\n    file: /y.yml\n",
        ["/ci/x.yml", "acme/ci"],
    ),
    (".gitlab-ci.yml", "include:\n  - '/ci/x.yml'\n", ["/ci/x.yml"]),
    (
        "Chart.yaml",
        "apiVersion: v2\nname: web\ndependencies:\n  - name: db\n    repository: file://../db\n",
        ["file://../db"],
    ),
    (
        "web.json",
        '{"apiVersion": "v1", "kind": "Pod", "x": {"image": "acme/web:1"}}',
        ["acme/web:1"],
    ),
    (
        "overlays/prod/kustomization.yaml",
        KUSTOMIZATION,
        [
            "../../base",
            "ingress.yaml",
            "https://github.com/acme/infra//deploy?ref=v1",
            "../../components/tls",
            "../x",
            "replicas.yaml",
            "memory.yaml",
            "registry.acme.org/team/nginx",
            "redis",
            "application.properties",
            "config/real.json",
            ".env",
            "certs/tls.key",
        ],
    ),
    (
        "a.md",
        "[a](b.md) `[c](d)` [e](https://x) [f](g.md#h)\n\n[r]: ../r.md\n",
        ["b.md", "g.md#h", "../r.md"],
    ),
    (
        "package.json",
        '{"name": "a", "dependencies": {"b": "1", "@c/d": "2"}}',
        ["npm:b", "npm:@c/d"],
    ),
    (
        "pyproject.toml",
        '[project]\nname = "a"\ndependencies = ["B_c>=1", "d[x]"]\n',
        ["pypi:b-c", "pypi:d"],
    ),
    ("go.mod", "module a.b/c\n\nrequire (\n\tx.y/z v1.2.3 // indirect\n)\n", ["go:x.y/z"]),
    ("Cargo.toml", '[package]\nname = "a"\n[dependencies]\nb-c = "1"\n', ["cargo:b-c"]),
    (
        "pom.xml",
        "<project><artifactId>a</artifactId><dependency><groupId>g</groupId>"
        "<artifactId>x</artifactId></dependency></project>",
        ["maven:g:x"],
    ),
    ("composer.json", '{"require": {"acme/http": "^1"}}', ["composer:acme/http"]),
    ("Gemfile", "gem 'rack', '~> 3'\n", ["gem:rack"]),
    ("requirements.txt", "# c\nRequests==2\n-r other.txt\n", ["pypi:requests"]),
]


@pytest.mark.parametrize(("path", "text", "expected"), DECLARED, ids=[row[0] for row in DECLARED])
def test_configuration_and_prose_are_read_without_a_grammar(path, text, expected):
    found = parse(text.encode(), path=path).imports
    assert [imp.module for imp in found] == expected


def test_equal_contents_of_one_language_give_equal_imports_wherever_they_are():
    text = b"services:\n  a:\n    image: redis:7\n"
    assert parse(text, path="a/compose.yml").imports == parse(text, path="b/values.yml").imports


@pytest.mark.slow
@pytest.mark.parametrize("line", ["a: [\n", "resources:\n", "- a\n", "- files:\n  - a\n", " [,a"])
def test_a_generated_kustomization_is_read_in_time(line):
    text = "resources:\n" + line * (380_000 // len(line))
    with processor_time_below(20):
        assert parse(text.encode(), path="kustomization.yaml").pieces


@pytest.mark.slow
def test_imports_of_a_tree_that_repeats_its_prefix_are_bounded():
    """2,000 names after a prefix of 900 characters, 40 times: 80,000 imports of 72 MB."""
    named = ",".join(f"b{number}" for number in range(2_000))
    found = parse(f"use {'a' * 900}::{{{named}}};\n".encode() * 40, path="a.rs").imports

    assert len(found) == 5_000
    assert found[0].module == f"{'a' * 900}::b0"


def test_an_import_that_no_module_can_have_is_left_out():
    text = f"use {'a' * 900}::{{{'b' * 200}, c}};\n"
    assert [one.module for one in parse(text.encode(), path="a.rs").imports] == [f"{'a' * 900}::c"]
