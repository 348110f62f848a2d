"""Imports: what is written, and the paths it could mean."""

import posixpath

import pytest

from codelode.model import Import
from workers.parse import candidates, parse
from workers.parse.imports.paths import MAX_CANDIDATES

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


RESOLVED = [
    ("python", "src/pkg/sub/x.py", "pkg.util", (), "src/pkg/util.py"),
    ("python", "src/pkg/sub/x.py", "pkg", ("util",), "src/pkg/util.py"),
    ("python", "src/pkg/sub/x.py", ".y", (), "src/pkg/sub/y.py"),
    ("python", "src/pkg/sub/x.py", "..", ("y",), "src/pkg/y.py"),
    ("python", "src/pkg/sub/x.py", "..y.z", (), "src/pkg/y/z.py"),
    ("python", "tests/test_x.py", "pkg.util", (), "src/pkg/util.py"),
    ("python", "tests/test_x.py", "pkg.util", (), "pkg/util/__init__.py"),
    ("python", "tools/a.py", "b", (), "tools/b.py"),
    ("javascript", "lib/a.js", "./b.js", (), "lib/b.js"),
    ("javascript", "lib/a.js", "../b", (), "b/index.js"),
    ("typescript", "src/a.ts", "./b.js", (), "src/b.ts"),
    ("typescript", "web/src/x/a.ts", "@/b", (), "web/src/b.tsx"),
    ("tsx", "src/a.tsx", "./Card", (), "src/Card.tsx"),
    ("java", "app/src/main/java/com/x/A.java", "com.y.B", (), "app/src/main/java/com/y/B.java"),
    ("java", "app/src/test/java/com/x/T.java", "com.y.B", (), "app/src/main/java/com/y/B.java"),
    ("java", "src/main/java/com/x/A.java", "com.y.B.member", (), "src/main/java/com/y/B.java"),
    ("kotlin", "src/com/x/A.kt", "com.y.B", (), "src/com/y/B.kt"),
    ("rust", "crates/c/src/a/b.rs", "crate::x::Y", (), "crates/c/src/x.rs"),
    ("rust", "src/lib.rs", "self::util", (), "src/util.rs"),
    ("rust", "src/a.rs", "self::util", (), "src/a/util.rs"),
    ("rust", "src/a/mod.rs", "super::b::C", (), "src/b.rs"),
    ("c", "src/net/a.c", '"b.h"', (), "src/net/b.h"),
    ("cpp", "lib/src/a.cpp", "<lib/b.h>", (), "lib/include/lib/b.h"),
    ("ruby", "lib/a.rb", "./x/y", (), "lib/x/y.rb"),
    ("ruby", "spec/a_spec.rb", "a/b", (), "lib/a/b.rb"),
    ("php", "index.php", "App\\Models\\User", (), "app/Models/User.php"),
    ("lua", "plugin/a.lua", "x.y", (), "lua/x/y.lua"),
    ("zig", "src/a.zig", "x/b.zig", (), "src/x/b.zig"),
    ("haskell", "src/A.hs", "Data.B", (), "src/Data/B.hs"),
]


@pytest.mark.parametrize(("language", "path", "module", "names", "expected"), RESOLVED)
def test_the_meant_path_is_a_candidate(language, path, module, names, expected):
    assert expected in candidates(Import(module, 1, names), path=path, language=language)


FIRST = [
    ("python", "src/pkg/sub/x.py", "pkg.util", "src/pkg/util.py"),
    ("c", "src/net/a.c", '"b.h"', "src/net/b.h"),
    ("java", "src/main/java/com/x/A.java", "com.y.B", "src/main/java/com/y/B.java"),
    ("rust", "src/main.rs", "crate::a", "src/a.rs"),
]


@pytest.mark.parametrize(("language", "path", "module", "expected"), FIRST)
def test_the_likeliest_candidate_comes_first(language, path, module, expected):
    assert candidates(Import(module, 1), path=path, language=language)[0] == expected


EXTERNAL = [
    ("javascript", "a.js", "react"),
    ("rust", "src/a.rs", "std::fmt"),
    ("go", "a.go", "fmt"),
    ("java", "A.java", "java.util.*"),
    ("csharp", "A.cs", "System.Text"),
    ("swift", "a.swift", "Foundation"),
    ("cobol", "a.cob", "x"),
]


@pytest.mark.parametrize(("language", "path", "module"), EXTERNAL)
def test_what_is_outside_for_sure_has_no_candidates(language, path, module):
    assert candidates(Import(module, 1), path=path, language=language) == ()


def test_go_packages_resolve_with_the_module_path_only():
    imp = Import("example.com/m/net/util", 1)
    assert candidates(imp, path="a.go", language="go") == ()
    found = candidates(imp, path="a.go", language="go", go_module="example.com/m")
    assert found == ("net/util/util.go", "net/util/doc.go")


HOSTILE = [
    "../../../etc/passwd",
    "/etc/passwd",
    "." * 500,
    "a." * 5_000,
    "::" * 500,
    "",
    "\\",
    "~/",
]


@pytest.mark.parametrize("module", HOSTILE, ids=lambda module: module[:12])
@pytest.mark.parametrize("language", ["python", "javascript", "java", "rust", "c", "php", "ruby"])
def test_candidates_are_few_and_inside_the_repository(language, module):
    found = candidates(Import(module, 1, ("n",)), path="src/a/b.x", language=language)
    assert len(found) <= MAX_CANDIDATES
    assert all(path == posixpath.normpath(path) for path in found)
    assert not any(path.startswith(("/", "..")) for path in found)
