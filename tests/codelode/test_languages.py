"""The language table and the guesses from paths."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codelode import languages
from codelode.languages import BY_NAME, LANGUAGES, category, detect, resolve
from codelode.model import Category

PROMISED = """
    python javascript typescript tsx go rust java c cpp csharp ruby php swift kotlin scala r
    solidity fortran pascal sql html css yaml json toml xml markdown mdx dtd hcl dockerfile bash
    elixir lua haskell zig dart perl vue svelte protobuf graphql cmake make nix cobol objc text
"""


def test_the_promised_languages_are_there():
    assert set(PROMISED.split()) <= set(BY_NAME)


@pytest.mark.parametrize("field", ["name", "extensions", "filenames", "aliases", "interpreters"])
def test_no_two_languages_claim_the_same(field):
    values = [getattr(row, field) for row in LANGUAGES]
    claims = [v for value in values for v in ([value] if field == "name" else value)]
    assert len(claims) == len(set(claims))


def test_names_and_aliases_resolve_to_one_language_each():
    for row in LANGUAGES:
        assert row.name == row.name.lower()
        assert {resolve(alias) for alias in (row.name, row.name.upper(), *row.aliases)} == {
            row.name
        }


@pytest.mark.parametrize(
    ("path", "head", "expected"),
    [
        ("src/a.py", b"", "python"),
        ("a.d.ts", b"", "typescript"),
        ("view.blade.php", b"", "php"),
        ("A.JAVA", b"", "java"),
        ("a.C", b"", "cpp"),
        ("a.c", b"", "c"),
        ("config/runtime.exs.eex", b"", "elixir"),
        ("templates/app.rb.tt", b"", "ruby"),
        ("deploy/app.yaml.j2", b"", "yaml"),
        ("main.go.tmpl", b"", "go"),
        ("config.h.in", b"#include <vector>\n", "cpp"),
        ("config.ts.example", b"", "typescript"),
        (".env.example", b"", "properties"),
        ("new.html.heex.eex", b"", "heex"),
        ("index.html.j2", b"", "html"),
        ("show.html.erb", b"", "erb"),
        ("feed.xml.erb", b"", "erb"),
        ("mail.text.erb", b"", "erb"),
        ("model.stub", b"", "template"),
        ("card.hbs", b"", "template"),
        (".erb", b"", "erb"),
        ("MANIFEST.in", b"", "text"),
        ("Dockerfile", b"", "dockerfile"),
        ("docker/Dockerfile.dev", b"", "dockerfile"),
        ("Makefile.am", b"", "make"),
        ("CMakeLists.txt", b"", "cmake"),
        ("Gemfile", b"", "ruby"),
        ("main.tf", b"", "hcl"),
        ("tool", b"#!/bin/sh\n", "bash"),
        ("tool", b"#!/usr/bin/env -S python3.11 -u\n", "python"),
        ("tool", b"#!/usr/bin/env node", "javascript"),
        ("a.rb", b"#!/bin/sh\n", "ruby"),
        ("a.h", b"", "c"),
        ("a.h", b"#include <stdio.h>\nint f(void);\n", "c"),
        ("a.h", b"/* a class of\n   using the */\nstruct a;", "c"),
        ("a.h", b"#include <vector>\n", "cpp"),
        ("a.h", b"namespace a {\n", "cpp"),
        ("a.h", b"class EXPORT Foo : public Bar {\n", "cpp"),
        ("a.h", b"#import <UIKit/UIKit.h>\n", "objc"),
        ("a.m", b"@implementation A\n", "objc"),
        ("a.m", b"function y = f(x)\n", "matlab"),
        ("de.ts", b'<?xml version="1.0"?>', "xml"),
        ("notes", b"", "text"),
        ("BUILD", b"cc_library(\n", "starlark"),
        ("scripts/build", b"#!/bin/sh -e\n", "bash"),
        ("overlays/prod/Kustomization", b"", "yaml"),
        ("a.unheardof", b"", "text"),
        ("", b"", "text"),
        ("a/", b"\xff\xfe", "text"),
    ],
)
def test_a_path_has_the_expected_language(path, head, expected):
    assert detect(path, head).name == expected


@given(path=st.text(max_size=60), head=st.binary(max_size=200))
def test_guessing_language_and_category_never_fails(path, head):
    assert detect(path, head) in LANGUAGES
    assert category(path, head.decode("latin-1")) in Category


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("terraform", "hcl"), ("sh", "bash"), ("py", "python"), ("ts", "typescript"),
        ("js", "javascript"), ("C++", "cpp"), ("c#", "csharp"), (" Go ", "go"), ("golang", "go"),
        (".rs", "rust"), ("kt", "kotlin"), ("md", "markdown"), ("yml", "yaml"),
        ("docker", "dockerfile"),
        ("klingon", None), ("", None),
    ],
)  # fmt: skip
def test_an_alias_resolves(asked, expected):
    assert resolve(asked) == expected


CATEGORIES = {
    Category.SOURCE: """
        src/main.py lib/latest.py Contest.java internal/server.go app/models/user.rb doc/render.go
        src/attest/x.rs core/vendors/Dialect.kt index.html a.sql main.tf examples/demo.py
        testify.go spec.rb src/inspector.ts protest.c src/history.ts lib/security_utils.rb
        lib/changelog.rb bin/contributors.js src/main/java/com/acme/external/Client.java
        contests/round.py
        podspec.gen.py scripts/release.sh lib/contest/Round.kt
        templates/router.ex.eex lib/generators/model.rb.tt views/card.hbs stubs/model.stub
        views/show.html.erb deploy/run.sh.tmpl local_settings.py.example
        lib/bats-core/test_functions.bash packages/vitest/src/node/test-run.ts lib/test.js
    """,
    Category.TEST: """
        tests/a.py test/a.js src/test/java/A.java pkg/a_test.go test_a.py a_test.py conftest.py
        src/a.test.ts src/a.spec.tsx __tests__/a.js spec/a_spec.rb FooTest.java FooTests.cs
        ASpec.scala Tests/FooTests/Foo.swift t/01.t a_test.exs testdata/x.json fixtures/a.yml
        a.bats AppTests/AppTests.swift src/FooTest.php e2e/login.js
        lib/active_support/testing/assertions.rb src/testing/fakes.py
        src/commonTest/kotlin/Data.kt src/jvmTest/resources/a.json test_suite/src/main.rs
        core/test-fixtures/Data.kt base/cord_test_helpers.h base/random_test_util.cc
        tests/fixtures/vendor/a.php test/mocks/node_modules/a/package.json
        src/test/java/org/acme/external/A.java
        templates/auth_test.exs.eex templates/model_spec.rb.tt
        test-run.js bin/test_all.sh src/test_parser.py src/test/test-run.ts lib/test-run.test.ts
        ui-tests/src/test-run.ts
    """,
    Category.VENDORED: """
        vendor/a.go third_party/a.cc web/node_modules/a/index.js Pods/A/A.m deps/lua/src/lua.c
        a/site-packages/b.py gradlew external/x.h vendor/a_test.go
        vendor/a/tests/b.go java/third_party/a/B.java packages/server/src/vendor/cookie.ts
    """,
    Category.GENERATED: """
        package-lock.json Cargo.lock go.sum a.pb.go a_pb2.py a_pb2_grpc.py a.min.js a.g.dart
        Form.Designer.cs zz_generated.deepcopy.go src/__generated__/a.ts app.js.map
    """,
    Category.DOCS: """
        README.md LICENSE docs/conf.py CHANGELOG doc/man.md a.rst guide.adoc CONTRIBUTING.md
        templates/README.md.tt docs/a.html.j2
        docs/img/a.svg LICENSE.txt README.ja.md security.md HISTORY.rst NOTICE src/changes.xml
    """,
    Category.CONFIGURATION: """
        buf.gen.yaml proto/buf.gen.yml
        config.yaml package.json pyproject.toml Dockerfile Makefile CMakeLists.txt .eslintrc.js
        .php-cs-fixer.php .formatter.exs .mailmap a.gemspec A.podspec pkg/BUILD.bazel flake.nix
        config/security.yaml deploy/app.yaml.j2 templates/mix.exs.eex theme.gemspec.erb .env.example
        .github/workflows/ci.yml setup.py vite.config.ts build.gradle.kts pom.xml .editorconfig
    """,
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [(path, expected) for expected, paths in CATEGORIES.items() for path in paths.split()],
)
def test_a_path_has_the_expected_category(path, expected):
    assert category(path) is expected


MARKED = [
    "// Code generated by protoc-gen-go. DO NOT EDIT.",
    "# Generated by the protocol buffer compiler.  DO NOT EDIT!",
    "/**\n * @generated SignedSource<<abc>>\n */",
    "// <auto-generated>\n//     This code was generated by a tool.",
    "/* DO NOT EDIT: this file is automatically generated by x */",
    "-- This file was auto-generated from schema.sql",
]


@pytest.mark.parametrize("head", MARKED)
def test_a_marker_in_a_first_comment_is_generated(head):
    assert category("src/a.go", head + "\n") is Category.GENERATED


UNMARKED = [
    'MARKER = "Code generated by x. DO NOT EDIT."',
    "// writes files that are marked as generated",
    "# Do not edit this by hand",
    "\n" * languages.MARKER_LINES + "// Code generated by x. DO NOT EDIT.",
    "// " + "x" * 5_000 + " Code generated by x. DO NOT EDIT.",
]


@pytest.mark.parametrize("head", UNMARKED, ids=range(len(UNMARKED)))
def test_a_file_that_only_mentions_generated_files_is_source_code(head):
    assert category("src/a.go", head + "\n") is Category.SOURCE


API_PAGES = [
    '<html><head><meta name="generator" content="javadoc/HtmlDoclet"></head>',
    "<meta content=\"Doxygen 1.9.8\" name='generator'/>",
    "<html>\n<!-- Generated by javadoc (17) on Tue -->",
    '<script>const storage = localStorage.getItem("dokka-dark-mode")</script>',
    '<meta name="generator" content="Docutils 0.20: https://docutils.sourceforge.io/" />',
]


@pytest.mark.parametrize("head", API_PAGES)
def test_a_page_of_an_api_document_is_generated(head):
    assert languages.is_generated("docs/api/index.html", head)
    assert languages.category("docs/api/index.html", head) is Category.GENERATED


@pytest.mark.parametrize(
    ("path", "head"),
    [
        ("docs/index.html", '<meta name="generator" content="{{ hugo.Generator }}">'),
        ("docs/index.html", '<meta name="description" content="javadoc for all">'),
        ("tools/clean.py", 'REMOVE = "<!-- Generated by javadoc (17) on Tue -->"'),
    ],
)
def test_a_page_that_only_speaks_of_generators_is_not_generated(path, head):
    assert not languages.is_generated(path, head)
