"""Imports resolve to files of a commit's layout, whatever else is indexed."""

from __future__ import annotations

import hashlib
import itertools
import json
import posixpath
import sys
import time
from itertools import count

import pytest
import structlog

from codelode.model import BlobId, Edge, EdgeKind, Import, SourceFile
from tests.processor_time import processor_time_below
from workers import wire
from workers.parse import imports, parse
from workers.parse.ecosystems.manifests import read
from workers.parse.imports import Layout
from workers.parse.imports.links import packages, resolve


def layout_of(files, *, name=""):
    """Return the layout of paths, or of paths with their contents."""
    contents = dict.fromkeys(files, "") if not isinstance(files, dict) else files
    listing = [
        SourceFile(path, BlobId(hashlib.sha1(text.encode()).hexdigest()), len(text))
        for path, text in contents.items()
    ]
    blobs = {file.blob: contents[file.path].encode() for file in listing}
    return imports.read_layout(listing, blobs.__getitem__, name=name)


def meant(language, path, module, names, files):
    layout = layout_of(
        {**(files if isinstance(files, dict) else dict.fromkeys(files, "")), path: ""}
    )
    imp = Import(module, 1, tuple(names.split()))
    return " ".join(resolve(imp, path=path, language=language, layout=layout).targets)


PY = ["src/pkg/__init__.py", "src/pkg/util.py", "src/pkg/sub/__init__.py", "src/pkg/y.py"]
TS = {
    "package.json": '{"name": "root", "imports": {"#db": "./src/db.ts"}}',
    "tsconfig.base.json": '{"compilerOptions": {"paths": {"@app/*": ["./src/app/*"]}}} // base',
    "tsconfig.json": '{"extends": "./tsconfig.base", "compilerOptions": {"strict": true,},}',
    "src/app/user.ts": "",
    "src/db.ts": "",
    "packages/ui/package.json": '{"name": "@acme/ui", "exports": {".": {"import": '
    '"./dist/main.js"}, "./icons/*": "./src/icons/*.tsx"}}',
    "packages/ui/src/main.ts": "",
    "packages/ui/src/icons/cross.tsx": "",
    "packages/web/tsconfig.json": '{"compilerOptions": {"baseUrl": "lib"}}',
    "packages/web/lib/deep/x.js": "",
}
GO = {
    **{"go.mod": "module example.com/m\n\nreplace example.com/r => ./third/r\n"},
    **dict.fromkeys(["root.go", "net/util/a.go", "net/util/b.go", "net/util/a_test.go"], ""),
    **{"third/r/go.mod": "module example.com/r\n", "third/r/r.go": ""},
}
RUST = {
    "Cargo.toml": "[workspace]\nmembers = ['crates/*']\n",
    "crates/a-core/Cargo.toml": '[package]\nname = "a-core"\n',
    "crates/a-core/src/lib.rs": "",
    "crates/a-core/src/net/mod.rs": "",
    "crates/a-core/src/net/tcp.rs": "",
    "crates/b/Cargo.toml": '[package]\nname = "b"\n[dependencies]\n'
    'renamed = {package = "a-core"}\n',
    "crates/b/src/main.rs": "",
    "crates/b/src/x.rs": "",
}
PHP = {
    "composer.json": '{"autoload": {"psr-4": {"Acme\\\\": "src/"}},'
    ' "autoload-dev": {"psr-4": {"Acme\\\\": "tests/"}}}',
    "src/Http/Client.php": "",
    "src/functions.php": "",
    "tests/Http/Fake.php": "",
}
CS = {
    "src/Core/Acme.Core.csproj": "<Project><PropertyGroup/></Project>",
    "src/Core/Main.cs": "",
    "src/Core/Text/A.cs": "",
    "src/Core/Text/B.cs": "",
}
JVM = [
    *("core/src/main/java/com/x/A.java", "core/src/main/java/com/x/B.java"),
    *("core/src/test/java/com/x/BTest.java", "core/src/main/kotlin/com/x/ext/IdTable.kt"),
]
C = ["include/net/a.h", "src/net/b.h", "src/b.h", "test/b.h", "include/uv.h"]
RUBY = {
    "a.gemspec": "Gem::Specification.new { |s| s.name = 'a' }",
    "sub/b.gemspec": "",
    **dict.fromkeys(["lib/a/x.rb", "sub/lib/b.rb", "spec/spec_helper.rb", "lib/a.rb"], ""),
}

RESOLVED = [
    ("python", "src/pkg/sub/x.py", "pkg.util", "", PY, "src/pkg/util.py"),
    ("python", "src/pkg/sub/x.py", "pkg", "util", PY, "src/pkg/util.py"),
    ("python", "src/pkg/sub/x.py", "pkg", "util Thing", PY, "src/pkg/util.py src/pkg/__init__.py"),
    ("python", "src/pkg/sub/x.py", "..", "y", PY, "src/pkg/y.py"),
    ("python", "src/pkg/sub/x.py", ".", "y", PY, "src/pkg/sub/__init__.py"),
    ("python", "tests/test_x.py", "pkg.util", "f", PY, "src/pkg/util.py"),
    ("python", "tools/a.py", "b", "", ["tools/b.py"], "tools/b.py"),
    ("python", "pkg/a.py", "json", "", ["pkg/__init__.py", "pkg/json.py"], ""),
    ("python", "pkg/a.py", "redis", "", ["pkg/__init__.py", "pkg/redis.py"], ""),
    ("python", "a.py", "ns.mod", "", ["ns/mod.py"], "ns/mod.py"),
    ("javascript", "lib/a.js", "./b.js", "", ["lib/b.js"], "lib/b.js"),
    ("javascript", "lib/a.js", "../b", "", ["b/index.js"], "b/index.js"),
    ("typescript", "src/a.ts", "./b.js", "", ["src/b.ts"], "src/b.ts"),
    ("typescript", "web/src/x/a.ts", "@/b", "", ["web/src/b.tsx"], "web/src/b.tsx"),
    ("typescript", "src/a.ts", "@app/user", "", TS, "src/app/user.ts"),
    ("typescript", "src/a.ts", "#db", "", TS, "src/db.ts"),
    ("typescript", "src/a.ts", "@acme/ui", "", TS, "packages/ui/src/main.ts"),
    ("tsx", "src/a.tsx", "@acme/ui/icons/cross", "", TS, "packages/ui/src/icons/cross.tsx"),
    ("typescript", "packages/web/a.ts", "deep/x", "", TS, "packages/web/lib/deep/x.js"),
    ("typescript", "src/a.ts", "react", "", TS, ""),
    ("go", "root_test.go", "example.com/m/net/util", "", GO, "net/util/a.go net/util/b.go"),
    ("go", "main.go", "example.com/m", "", GO, "root.go"),
    ("go", "main.go", "example.com/r", "", GO, "third/r/r.go"),
    ("go", "main.go", "example.com/other", "", GO, ""),
    ("java", "core/src/main/java/com/y/C.java", "com.x.B", "", JVM, JVM[1]),
    ("java", "core/src/main/java/com/y/C.java", "com.x.B.member", "", JVM, JVM[1]),
    ("java", "core/src/main/java/com/y/C.java", "com.x.*", "", JVM, f"{JVM[0]} {JVM[1]}"),
    ("java", "core/src/main/java/com/y/C.java", "java.util.B", "", JVM, ""),
    ("kotlin", "app/src/main/kotlin/D.kt", "com.x.ext.IntIdTable", "", JVM, JVM[3]),
    ("scala", "x/A.scala", "com.x", "A B", JVM, f"{JVM[0]} {JVM[1]}"),
    ("rust", "crates/a-core/src/lib.rs", "self::net", "", RUST, "crates/a-core/src/net/mod.rs"),
    (
        "rust",
        "crates/a-core/src/x.rs",
        "crate::net::tcp::S",
        "",
        RUST,
        "crates/a-core/src/net/tcp.rs",
    ),
    (
        "rust",
        "crates/a-core/src/net/tcp.rs",
        "super::Conn",
        "",
        RUST,
        "crates/a-core/src/net/mod.rs",
    ),
    ("rust", "crates/b/src/x.rs", "a_core::net::tcp", "", RUST, "crates/a-core/src/net/tcp.rs"),
    ("rust", "crates/b/src/x.rs", "renamed::Thing", "", RUST, "crates/a-core/src/lib.rs"),
    ("rust", "crates/b/src/x.rs", "std::fmt", "", RUST, ""),
    ("rust", "crates/b/src/main.rs", "self::Shape::*", "", RUST, "crates/b/src/main.rs"),
    ("c", "src/net/a.c", '"b.h"', "", C, "src/net/b.h"),
    ("c", "src/fs/a.c", '"b.h"', "", C, "src/b.h"),
    ("c", "src/net/a.c", '"net/a.h"', "", C, "include/net/a.h"),
    ("c", "src/net/a.c", "<uv.h>", "", C, "include/uv.h"),
    ("cpp", "src/net/a.cc", "<b.h>", "", C, ""),
    ("c", "src/a.c", "<string.h>", "", ["include/string.h"], ""),
    ("csharp", "app/P.cs", "Acme.Core.Text", "", CS, "src/Core/Text/A.cs src/Core/Text/B.cs"),
    ("csharp", "app/P.cs", "Acme.Core", "", CS, "src/Core/Main.cs"),
    ("csharp", "app/P.cs", "System.Text", "", CS, ""),
    ("ruby", "lib/a/y.rb", "./x", "", RUBY, "lib/a/x.rb"),
    ("ruby", "spec/y_spec.rb", "a/x", "", RUBY, "lib/a/x.rb"),
    ("ruby", "spec/y_spec.rb", "spec_helper", "", RUBY, "spec/spec_helper.rb"),
    ("ruby", "lib/a.rb", "b", "", RUBY, "sub/lib/b.rb"),
    ("php", "app.php", "Acme\\Http\\Client", "", PHP, "src/Http/Client.php"),
    ("php", "app.php", "Acme\\Http\\Fake", "", PHP, "tests/Http/Fake.php"),
    ("php", "app.php", "Acme\\Http", "Client Fake", PHP, "src/Http/Client.php tests/Http/Fake.php"),
    ("php", "app.php", "Acme\\helper", "", PHP, "src/functions.php"),
    ("php", "app.php", "Psr\\Log\\Logger", "", PHP, ""),
    ("lua", "plugin/a.lua", "x.y", "", ["lua/x/y.lua"], "lua/x/y.lua"),
    ("zig", "src/a.zig", "x/b.zig", "", ["src/x/b.zig"], "src/x/b.zig"),
    ("haskell", "src/A.hs", "Data.B", "", ["src/Data/B.hs"], "src/Data/B.hs"),
    ("elixir", "lib/a.ex", "My.HTTPClient", "", ["lib/my/http_client.ex"], "lib/my/http_client.ex"),
    ("elixir", "lib/a.ex", "Logger", "", ["lib/my/logger.ex"], ""),
    ("bash", "bin/run.sh", "$(dirname $0)/lib.sh", "", ["bin/lib.sh"], "bin/lib.sh"),
    ("hcl", "env/main.tf", "../modules/vpc", "", ["modules/vpc/main.tf"], "modules/vpc/main.tf"),
    ("hcl", "env/main.tf", "terraform-aws-modules/vpc/aws", "", [], ""),
    ("yaml", "compose.yml", "./app", "build", ["app/Dockerfile"], "app/Dockerfile"),
    ("yaml", ".github/workflows/ci.yml", "./act", "uses", ["act/action.yml"], "act/action.yml"),
    ("yaml", ".gitlab-ci.yml", "/ci/x.yml", "file", ["ci/x.yml"], "ci/x.yml"),
    (
        "yaml",
        "charts/web/Chart.yaml",
        "file://../db",
        "chart",
        ["charts/db/Chart.yaml"],
        "charts/db/Chart.yaml",
    ),
    (
        "yaml",
        "overlays/prod/kustomization.yaml",
        "../../base",
        "base",
        ["base/kustomization.yaml", "base/web.yaml"],
        "base/kustomization.yaml",
    ),
    ("yaml", "k/Kustomization", "web.yaml", "base", ["k/web.yaml", "web.yaml"], "k/web.yaml"),
    ("yaml", "k/kustomization.yml", "github.com/acme/x/web", "base", ["web.yaml"], ""),
    ("yaml", "k/kustomization.yml", "https://h/a/b//c?ref=1", "base", ["c/kustomization.yaml"], ""),
    ("yaml", "compose.yml", "redis:7", "image", ["redis"], ""),
    ("markdown", "docs/a.md", "../src/x.py#L3", "file", ["src/x.py"], "src/x.py"),
    ("markdown", "README.md", "docs", "file", ["docs/README.md"], "docs/README.md"),
    (
        "json",
        "packages/web/package.json",
        "npm:@acme/ui",
        "package",
        TS,
        "packages/ui/package.json",
    ),
    ("protobuf", "api/a.proto", "acme/b.proto", "", ["protos/acme/b.proto"], "protos/acme/b.proto"),
]


@pytest.mark.parametrize(
    ("language", "path", "module", "names", "files", "expected"),
    RESOLVED,
    ids=[f"{row[0]} {row[2]} {row[3]}".strip() for row in RESOLVED],
)
def test_an_import_resolves_to_the_files_that_its_tools_would_use(
    language, path, module, names, files, expected
):
    assert meant(language, path, module, names, files) == expected


HOSTILE_MODULES = [
    "../../../etc/passwd",
    "/etc/passwd",
    "." * 500,
    "a." * 400,
    "::" * 400,
    "\\",
    "~/",
    "\0",
]
LANGUAGES = (
    *("python", "javascript", "java", "rust", "c", "php", "ruby", "go", "csharp", "elixir"),
    *("lua", "hcl", "yaml", "markdown", "dart", "bash", "scala"),
)


@pytest.mark.parametrize("language", LANGUAGES)
def test_any_import_resolves_to_files_of_the_repository_or_none(language):
    layout = layout_of({**TS, **GO, **RUST, **PHP, **CS})
    for module, names in itertools.product(
        HOSTILE_MODULES, ((), ("n",), ("file",), ("uses",), ("package",))
    ):
        imp = Import(module, 1, names)
        found = resolve(imp, path="src/a/b.x", language=language, layout=layout)
        assert all(path in layout for path in found.targets)
        assert all(len(key) < 2_000 for key in found.keys)


POM = """\ufeff<?xml version="1.0" encoding="UTF-8"?>
<!-- moved from <groupId>org.old</groupId> <artifactId>old</artifactId> -->
<p:project xmlns:p="http://maven.apache.org/POM/4.0.0">
  <p:parent><p:groupId>org.acme</p:groupId><p:artifactId>all</p:artifactId></p:parent>
  <p:artifactId>http</p:artifactId>
  <p:dependencies>
    <!-- <dependency><groupId>org.gone</groupId><artifactId>gone</artifactId></dependency> -->
    <p:dependency>
      <p:exclusions><p:exclusion><p:groupId>not</p:groupId></p:exclusion></p:exclusions>
      <p:groupId>org.acme</p:groupId><p:artifactId><![CDATA[tls]]></p:artifactId>
    </p:dependency>
  </p:dependencies>
</p:project>
"""
CSPROJ = """<Project>
  <PropertyGroup><RootNamespace>Acme.Core</RootNamespace></PropertyGroup>
  <!-- <PackageReference Include="Gone" /> -->
  <ItemGroup><PackageReference Version='1' Include='Dapper' /></ItemGroup>
</Project>
"""
WORKFLOW = """on: {push: {tags: ['release/*']}}
jobs:
  image:
    steps:
      - uses: docker/build-push-action@v6
        with:
          tags: |
            ghcr.io/acme/app:latest
            ghcr.io/acme/app-slim:${{ github.ref_name }}
            docker.io/acme/app:1
"""
COMPOSE = """x-app: &app {image: acme/app, build: .}
services:
    worker:
        <<: *app
    store:
        image: redis:7
    "web":
        image: 'acme/web:2'
        build: {context: web}
# services: {gone: {image: acme/gone, build: .}}
"""

#: Manifests with unusual syntax: path, text, name, dependencies, other facts.
UNUSUAL = [
    ("pom.xml", POM, "org.acme:http", ("org.acme:tls",), ()),
    ("src/a.csproj", CSPROJ, "a", ("Dapper",), (("<root>", "Acme.Core"),)),
    ("web/Chart.yaml", "{apiVersion: v2, 'name': &n web}\n---\nname: other\n", "web", (), ()),
    ("pubspec.yaml", '# name: gone\n"name" : acme_ui\n', "acme_ui", (), ()),
    ("compose.yaml", COMPOSE, "", (), (("acme/app", "."), ("acme/web", "."))),
    ("release.yml", WORKFLOW, "", (), (("acme/app", "."), ("ghcr.io/acme/app", "."))),
    ("ci.yml", "script: docker push ghcr.io/acme/cli:1", "", (), (("ghcr.io/acme/cli", "."),)),
]


@pytest.mark.parametrize(
    ("path", "text", "name", "uses", "pairs"), UNUSUAL, ids=[row[0] for row in UNUSUAL]
)
def test_a_manifest_with_unusual_syntax_is_read_correctly(path, text, name, uses, pairs):
    facts = read(path, text)

    assert (facts.name, facts.uses, facts.pairs) == (name, uses, pairs)


def test_an_action_is_recognised_by_its_entries_and_not_by_its_text():
    assert read("action.yml", '{"name": "a", "runs": {"using": "node20"}}') is not None
    assert read("action.yml", "description: |\n  runs:\nruns:\n") is not None
    assert read("action.yml", "description: |\n\n  none\n# runs:\n") is None


ENTITIES = '<!DOCTYPE p [<!ENTITY e SYSTEM "file:///etc/hostname">]>'
UNFIT = [
    ("pom.xml", f"{ENTITIES}<p><groupId>a</groupId><artifactId>&e;</artifactId></p>"),
    ("a.csproj", f"{ENTITIES}<p><AssemblyName>&e;</AssemblyName></p>"),
    ("Chart.yaml", f"name: {'[' * 101}{']' * 101}"),
    ("Chart.yaml", "name: &a [*a]"),
    ("Chart.yaml", "? [a]\n: b\nname: c"),
]


@pytest.mark.parametrize(("path", "text"), UNFIT)
def test_a_manifest_with_entities_or_endless_values_has_no_facts(path, text):
    assert read(path, text) is None


BROKEN = [
    "",
    "{",
    "[",
    "\0",
    '{"name": 3, "exports": [[[]]]}',
    "module",
    "<project>",
    "x = [",
    "{}",
]
MANIFESTS = [
    *("package.json", "tsconfig.json", "go.mod", "Cargo.toml", "composer.json", "pom.xml"),
    *("pyproject.toml", "a.csproj", "a.gemspec", "Chart.yaml", "compose.yml", "requirements.txt"),
]


@pytest.mark.parametrize("path", MANIFESTS)
def test_a_broken_manifest_is_ignored(path):
    for text in BROKEN:
        layout = layout_of({path: text, "a.py": "", "a.ts": ""})
        for language in LANGUAGES:
            resolve(Import("a.b", 1), path="x/y", language=language, layout=layout)
        assert "a.py" in layout, text


HALF = r'"\ud800"'
HALVES = {
    "package.json": f'{{"name": {HALF}, "dependencies": {{{HALF}: "1"}}, "exports": {HALF}}}',
    "composer.json": f'{{"name": {HALF}, "require": {{{HALF}: "1"}}}}',
    "tsconfig.json": f'{{"extends": {HALF}, "compilerOptions": {{"paths": {{{HALF}: [{HALF}]}}}}}}',
}


@pytest.mark.parametrize(("path", "text"), HALVES.items())
def test_unpaired_surrogates_in_a_manifest_are_replaced(path, text):
    layout = layout_of({path: text})
    assert "?" in repr(layout.facts[path])
    for key in imports.published(layout):
        key.encode()
    wire.dump_parsed(parse(text.encode(), path=path), max_file_bytes=1_000_000)


#: Path, first part of the text, and the part that is repeated: regular expressions may backtrack.
HOSTILE = [
    ("go.mod", "module a.b/c\n", "\n"),
    ("go.mod", "module a.b/c\n", "."),
    ("pom.xml", "", "<dependency><build><parent>"),
    ("build.gradle", "", "api"),
    ("build.gradle", "group\n", "\n"),
    ("Gemfile", "", "\n"),
    ("x.csproj", "", "<PackageReference "),
    ("compose.yaml", "services:\n  a:\n    build: .\n", "\n"),
    ("build.yml", "build-push-action", "\n"),
    ("build.yml", "build-push-action\ntags:", " "),
    ("pom.xml", "", "<a>"),
    ("pom.xml", "<a b='", "\n"),
    ("pom.xml", f"<a xmlns='{'u' * 100_000}'>", "<b/>"),
    ("pom.xml", f"<!DOCTYPE a [<!ATTLIST b c CDATA '{'u' * 100_000}'>]><a>", "<b/>"),
    ("x.csproj", "<a", "\n"),
    ("Chart.yaml", "", "["),
    ("Chart.yaml", "", "- "),
    ("Chart.yaml", "a: &a [b]\nc: [", "*a,"),
    ("Chart.yaml", "", "'"),
    ("Chart.yaml", "", "a: "),
    ("Chart.yaml", "{", "? a,"),
    ("Chart.yaml", "a: |\n", "\n"),
    ("action.yml", "a: >\n", " b\n"),
    ("pubspec.yaml", "", "#"),
    ("package.json", "{", "/*"),
    ("package.json", '{"', '\\"'),
    ("Cargo.toml", "", "a."),
    ("pyproject.toml", "[", "a."),
    ("pyproject.toml", "", '"\u2028".'),  # a line separator that does not end a line of TOML
]


@pytest.mark.slow
@pytest.mark.parametrize(("path", "head", "repeated"), HOSTILE)
def test_a_hostile_manifest_is_read_in_linear_time(path, head, repeated):
    """Quadratic backtracking would take minutes for a text of this size."""
    with processor_time_below(10):
        read(path, head + repeated * (900_000 // len(repeated)))


def linked(path, text, files):
    layout = layout_of({**dict.fromkeys(files, ""), path: ""})
    return imports.links(path, parse(text.encode(), path=path), layout=layout)


def test_a_file_never_depends_on_itself_and_repeats_count_once():
    found = linked("a.py", "import a\nimport b\nimport b\nimport numpy\n", ["b.py"])

    assert found.edges == (
        Edge("a.py", "b.py", EdgeKind.IMPORTS),
        Edge("a.py", "numpy", EdgeKind.IMPORTS, is_external=True),
    )


def includes(names):
    return "".join(f'#include "{name}"\n' for name in names)


@pytest.fixture
def clock_readings(monkeypatch):
    """Return the readings of the clock: one per lookup, each a millisecond after the last."""
    made = count()
    monkeypatch.setattr(time, "thread_time", lambda: next(made) / 1000)
    return made


def test_an_import_that_is_repeated_is_resolved_once(clock_readings):
    layout = layout_of([f"lib{n}/a.h" for n in range(20)])

    def looked(text):
        parsed = parse(text.encode(), path="a.c")
        before = next(clock_readings)
        imports.links("a.c", parsed, layout=layout)
        return next(clock_readings) - before

    once = looked(includes(["a.h"]))
    assert looked(includes(["a.h"] * 1_000)) == once
    assert looked(includes(["a.h", "b.h"])) > once


@pytest.mark.usefixtures("clock_readings")
def test_imports_that_take_too_long_are_left_out_and_logged(monkeypatch):
    monkeypatch.setattr(sys.modules["workers.parse.imports.links"], "RESOLVING_S", 0.5)
    files = [f"lib{n}/a.h" for n in range(20)]
    with structlog.testing.capture_logs() as logs:
        found = linked("a.c", includes(f"x{n}/a.h" for n in range(1_000)), files)

    assert 0 < len(found.edges) < 1_000
    (line,) = logs
    assert (line["event"], line["path"]) == ("imports_left_out", "a.c")
    assert line["imports"] == 1_000 - len(found.edges)


def test_a_single_import_that_takes_too_long_is_left_out_and_logged(monkeypatch):
    monkeypatch.setattr(sys.modules["workers.parse.imports.links"], "RESOLVING_S", 0.2)
    named = ",".join(f"D{n}" for n in range(3_000))
    with structlog.testing.capture_logs() as logs:
        found = linked(
            "a.scala", f"import a.b.{{{named}}}\n", [f"x{n}/a/b/c{n}.kt" for n in range(2_000)]
        )

    assert found.edges == ()
    assert [(line["event"], line["imports"]) for line in logs] == [("imports_left_out", 1)]


def test_a_file_whose_imports_time_out_keeps_its_other_entries():
    text = "import b\n\ndef test_a():\n    assert b.run()\n"
    parsed = parse(text.encode(), path="test_b.py")
    found = imports.links("test_b.py", parsed, layout=layout_of(["b.py"]), time_s=0)

    assert found.edges == ()
    assert any(name.startswith("m run") for name in found.names)


def test_configurations_that_extend_each_other_are_each_read_once():
    files = {
        f"tsconfig.{n}.json": json.dumps({"extends": [f"./tsconfig.{m}.json" for m in range(30)]})
        for n in range(29)
    }
    files["tsconfig.29.json"] = '{"compilerOptions": {"paths": {"@app/*": ["./src/*"]}}}'
    files["tsconfig.json"] = '{"extends": "./tsconfig.0.json"}'
    layout = layout_of({**files, "a.ts": "", "src/x.ts": ""})

    found = imports.links("a.ts", parse(b"import x from '@app/x'\n", path="a.ts"), layout=layout)

    assert [edge.target for edge in found.edges] == ["src/x.ts"]


def test_an_import_of_a_file_in_a_thousand_folders_is_resolved():
    path = "a/" * 1_500 + "x.ts"
    files = {"tsconfig.json": '{"compilerOptions": {"baseUrl": "."}}', "src/x.ts": "", path: ""}
    parsed = parse(b"import x from 'src/x'\n", path=path)

    assert [e.target for e in imports.links(path, parsed, layout=layout_of(files)).edges] == [
        "src/x.ts"
    ]


@pytest.mark.slow
def test_autoload_rules_are_read_in_linear_time():
    text = json.dumps({"autoload": {"psr-4": {"A\\": [f"src{n}" for n in range(1_000)]}}})
    parsed = parse(b"<?php\nuse A\\B;\n", path="a.php")

    def processor_s(manifests):
        layout = layout_of({f"{n}/composer.json": text for n in range(manifests)})
        started = time.thread_time()
        imports.links("a.php", parsed, layout=layout)
        return time.thread_time() - started

    # 8 times as much if it is linear, 64 times if it is quadratic. The minimum of several
    # measurements, because on a busy machine any of them may take longer.
    few, many = (min(processor_s(number) for _ in range(5)) for number in (4, 32))
    assert many < 24 * few


TESTED = [
    ("tests/test_store.py", "", ["src/app/store.py"], "src/app/store.py"),
    ("tests/app/test_store.py", "", ["src/app/store.py", "src/web/store.py"], "src/app/store.py"),
    ("tests/test_store.py", "", ["src/app/store.py", "src/web/store.py"], ""),
    (
        "tests/test_x.py",
        "from app import store\n",
        ["app/__init__.py", "app/store.py"],
        "app/store.py",
    ),
    ("src/user.test.ts", "import {a} from './user'\n", ["src/user.ts"], "src/user.ts"),
    ("pkg/store_test.go", "package pkg\n", ["pkg/store.go"], "pkg/store.go"),
    (
        "src/test/java/a/StoreTest.java",
        "",
        ["src/main/java/a/Store.java"],
        "src/main/java/a/Store.java",
    ),
    ("spec/user_spec.rb", "", ["lib/user.rb"], "lib/user.rb"),
]


@pytest.mark.parametrize(("path", "text", "files", "expected"), TESTED, ids=[t[0] for t in TESTED])
def test_a_test_file_has_edges_to_the_files_it_tests(path, text, files, expected):
    found = linked(path, text, files)
    tested = [edge.target for edge in found.edges if edge.kind is EdgeKind.TESTS]
    assert " ".join(tested) == expected


PUBLISHED = [
    ({"package.json": '{"name": "@acme/ui"}'}, "npm:@acme/ui", "javascript", "@acme/ui/button"),
    ({"src/acme/__init__.py": ""}, "py:acme", "python", "acme.http"),
    (
        {"go.mod": "module example.com/acme/http\n"},
        "go:example.com/acme/http",
        "go",
        "example.com/acme/http/retry",
    ),
    ({"Cargo.toml": '[package]\nname = "acme-http"\n'}, "crate:acme_http", "rust", "acme_http::X"),
    ({"src/main/java/org/acme/http/A.java": ""}, "jvm:org.acme.http", "java", "org.acme.http.A"),
    (
        {
            "composer.json": '{"autoload": {"psr-4": {"Acme\\\\Http\\\\": "src"}}}',
        },
        None,
        "php",
        "Acme\\Http\\Client",
    ),
    (
        {
            "composer.json": '{"name": "acme/http", '
            '"autoload": {"psr-4": {"Acme\\\\Http\\\\": "src"}}}'
        },
        "php:Acme\\Http",
        "php",
        "Acme\\Http\\Client",
    ),
    ({"acme.gemspec": "s.name = 'acme'"}, "gem:acme", "ruby", "acme/http"),
    (
        {"compose.yml": "services:\n  a:\n    build: .\n    image: ghcr.io/acme/app:1\n"},
        "image:ghcr.io/acme/app",
        "dockerfile",
        "ghcr.io/acme/app:2@sha256:0",
    ),
    ({"action.yml": "runs: {}\n"}, "repo:acme/http", "yaml", "acme/http@v2"),
    ({"main.tf": ""}, "repo:acme/http", "hcl", "git::https://git.example.com/acme/http.git//vpc"),
]


@pytest.mark.parametrize(
    ("files", "key", "language", "module"), PUBLISHED, ids=lambda v: str(v)[:30]
)
def test_published_keys_match_the_keys_of_imports_in_other_repositories(
    files, key, language, module
):
    published = imports.published(layout_of(files, name="git.example.com/acme/http"))
    kind = ("uses",) if language == "yaml" else ()
    taken = packages(Import(module, 1, kind), language=language)

    assert (key in published) is (key is not None)
    assert key is None or key in taken


@pytest.mark.parametrize(
    "module",
    [
        "https://git.example.com/acme/http//deploy/base?ref=v1",
        "https://github.com/acme/http.git//deploy",
        "github.com/acme/http/deploy/base",
        "git@github.com:acme/http.git",
    ],
)
def test_a_base_in_another_repository_has_the_key_of_that_repository(module):
    taken = packages(Import(module, 1, ("base",)), language="yaml")
    assert taken == ("repo:acme/http",)


def test_a_missing_local_base_has_no_key_of_another_repository():
    taken = packages(Import("../../base/web.yaml", 1, ("base",)), language="yaml")
    assert taken == ()


def test_manifests_and_sources_of_one_package_agree_on_its_name():
    for path, text, module in (
        (
            "pyproject.toml",
            '[project]\nname = "x"\ndependencies = ["Acme_HTTP>=1"]\n',
            "pypi:acme-http",
        ),
        ("Cargo.toml", '[package]\nname="x"\n[dependencies]\nacme-http = "1"\n', "crate:acme_http"),
        ("go.mod", "module a.b/x\nrequire example.com/acme v1.0.0\n", "go:example.com/acme"),
    ):
        found = parse(text.encode(), path=path)
        taken = {key for i in found.imports for key in packages(i, language="")}
        assert module in taken, posixpath.basename(path)


def test_the_fingerprint_changes_only_with_facts_about_imports():
    def fingerprint(text):
        return layout_of({"package.json": text}).fingerprints()["npm"]

    same = fingerprint('{"name": "a", "version": "1", "main": "./x.js"}')
    assert same == fingerprint('{"name": "a", "version": "2", "main": "./x.js"}')
    assert same != fingerprint('{"name": "a", "version": "1", "main": "./y.js"}')


def test_layouts_are_evicted_by_their_size():
    made = []

    def make(name, size):
        def made_now():
            made.append(name)
            return Layout(f"{number}" for number in range(size))

        return made_now

    layouts = imports.Layouts(max_paths=10)
    for name, size in (("a", 4), ("b", 4), ("a", 4), ("c", 4), ("a", 4), ("b", 4)):
        layouts.get(name, "1", make(name, size))
    assert made == ["a", "b", "c", "b"]
