"""Unchanged files are resolved again, so that edges equal those of indexing the commit at once."""

from __future__ import annotations

import hashlib

from hypothesis import example, given, settings
from hypothesis import strategies as st

from codelode.backends.memory.graph import MemoryGraph
from codelode.backends.memory.references import MemoryReferences
from codelode.ledger import FileManifest, WorkItem
from codelode.model import DEFAULT_REF, BlobId, FileRecord, FileState, Revision, SourceFile
from tests.examples import examples
from workers.parse import imports, parse

REPO = "acme/app"


def blob(text):
    return BlobId(hashlib.sha1(text.encode()).hexdigest())


def layout_of(files):
    contents = {blob(text): text.encode() for text in files.values()}
    listing = [SourceFile(path, blob(text), len(text)) for path, text in files.items()]
    return imports.read_layout(listing, contents.__getitem__)


class Index:
    """An index that runs update commit by commit: edges, names, fingerprints."""

    def __init__(self):
        self.graph, self.references = MemoryGraph(), MemoryReferences()
        self.files, self.fingerprints, self.redone = {}, {}, frozenset()

    def commit(self, files):
        """Index the difference to the last commit and what depends on it."""
        layout = layout_of(files)
        changed = [path for path, text in files.items() if self.files.get(path) != text]
        gone = [path for path in self.files if path not in files]
        items = [WorkItem(path, blob(files[path])) for path in changed]
        items += [WorkItem(path, BlobId("")) for path in gone]
        known = imports.IndexLookups(
            exists=lambda paths: frozenset(paths) & self.files.keys(),
            incoming=lambda paths: self.graph.incoming(REPO, DEFAULT_REF, paths),
            waiting=self._waiting,
            records=self._records,
            fingerprints=self.fingerprints,
        )
        manifest = FileManifest(Revision("0" * 40), tuple(items))
        concerned = imports.concerns_others(manifest, known)
        self.redone = imports.dependents(manifest, layout, known)
        assert concerned or not self.redone
        for path in gone:
            self._store(path, imports.Links())
        for path in {*changed, *self.redone}:
            parsed = parse(files[path].encode(), path=path)
            self._store(path, imports.links(path, parsed, layout=layout))
        self.files, self.fingerprints = dict(files), layout.fingerprints()
        return self

    def edges(self):
        found = self.graph.outgoing(REPO, DEFAULT_REF, sorted(self.files))
        return {path: edges for path, edges in found.items() if edges}

    def _store(self, path, links):
        self.graph.replace(REPO, [DEFAULT_REF], {path: links.edges})
        self.references.replace(REPO, [DEFAULT_REF], {path: links.names})

    def _waiting(self, names):
        return {
            path
            for paths in self.references.files(REPO, DEFAULT_REF, names).values()
            for path in paths
        }

    def _records(self):
        return (
            FileRecord(path, blob(text), FileState.INDEXED, language=parse(b"", path=path).language)
            for path, text in self.files.items()
        )


def test_files_that_waited_for_a_new_file_are_resolved_again():
    files = {"app/__init__.py": "", "app/a.py": "from app import late\n", "app/b.py": "import os\n"}
    index = Index().commit(files).commit({**files, "app/late.py": "x = 1\n"})

    assert index.redone == {"app/a.py"}
    assert [edge.target for edge in index.edges()["app/a.py"]] == ["app/late.py"]


def test_only_importers_of_a_deleted_file_are_resolved_again():
    files = {"a.js": "import './b'\n", "b.js": "", "c.js": "import './a'\n"}
    index = Index().commit(files).commit({"a.js": files["a.js"], "c.js": files["c.js"]})

    assert index.redone == {"a.js"}
    assert index.edges()["a.js"][0].is_external


def test_a_changed_alias_makes_only_files_of_its_languages_stale():
    config = '{"compilerOptions": {"paths": {"@/*": ["%s/*"]}}}'
    files = {
        **{"tsconfig.json": config % "old", "old/x.ts": "", "new/x.ts": ""},
        **{"a.ts": "import '@/x'\n", "b.py": "import os\n"},
    }
    index = Index().commit(files).commit({**files, "tsconfig.json": config % "new"})

    assert index.redone == {"a.ts", "old/x.ts", "new/x.ts"}
    assert [edge.target for edge in index.edges()["a.ts"]] == ["new/x.ts"]


def test_a_change_of_contents_makes_no_other_file_stale():
    files = {"a.py": "import b\n", "b.py": "x = 1\n"}
    index = Index().commit(files).commit({**files, "b.py": "x = 2\n"})

    assert index.redone == frozenset()


def test_a_new_path_or_manifest_makes_other_files_stale_but_new_content_does_not():
    index = Index().commit({"a.py": "", "go.mod": "module a.b/c\n"})

    def concerned(*items):
        known = imports.IndexLookups(
            exists=lambda paths: frozenset(paths) & index.files.keys(),
            incoming=lambda paths: {},
            waiting=lambda names: (),
            records=tuple,
            fingerprints=index.fingerprints,
        )
        manifest = FileManifest(Revision("0" * 40), tuple(WorkItem(*item) for item in items))
        return imports.concerns_others(manifest, known)

    text = blob("x")
    assert not concerned(("a.py", text))
    assert not concerned()
    assert concerned(("b.py", text))
    assert concerned(("a.py", ""))
    assert concerned(("go.mod", text))


def test_a_new_file_of_a_package_is_imported_with_it():
    files = {
        **{"go.mod": "module m.x/m\n", "net/a.go": "package net\n"},
        "main.go": 'package main\nimport "m.x/m/net"\n',
    }
    index = Index().commit(files).commit({**files, "net/b.go": "package net\n"})

    assert [edge.target for edge in index.edges()["main.go"]] == ["net/a.go", "net/b.go"]


#: Files that import each other in every way; the test draws which of them exist.
POOL = {
    "app/__init__.py": "",
    "app/a.py": "from app import b\nimport app.sub.c\nfrom .sub import c\nimport lonely\n",
    "app/b.py": "from app.sub.c import x\n",
    "app/sub/__init__.py": "from . import c\n",
    "app/sub/c.py": "import app\n",
    "lonely.py": "",
    "tests/test_b.py": "import app.b\n",
    "web/a.ts": "import './b'\nimport '@/c'\nimport './d'\nimport '@acme/ui'\n",
    "web/b.ts": "",
    "web/b/index.ts": "",
    "web/d.tsx": "",
    "src/c.ts": "import '../web/a'\n",
    "ui/package.json": '{"name": "@acme/ui"}',
    "ui/index.ts": "",
    "tsconfig.json": '{"compilerOptions": {"paths": {"@/*": ["web/*"]}}}',
    "go.mod": "module m.x/m\n",
    "main.go": 'package main\nimport "m.x/m/net"\nimport "m.x/m"\n',
    "net/n.go": "package net\n",
    "net/o.go": "package net\n",
    "j/src/main/java/com/x/A.java": "import com.x.y.*;\nimport com.x.y.B;\nclass A {}\n",
    "j/src/main/java/com/x/y/B.java": "import com.x.A;\nclass B {}\n",
    "j/src/main/java/com/x/y/C.java": "class C {}\n",
    "k/src/main/java/com/x/y/B.java": "class B {}\n",
    "j/src/test/java/com/x/y/B.java": "class B {}\n",
    "k/src/main/kotlin/com/x/K.kt": "import com.x.y.B\nimport com.x.L\nclass K\n",
    "k/src/main/kotlin/com/x/L.kt": "class L\n",
    "j/src/main/kotlin/com/x/L.kt": "class L\n",
    "s/src/main/scala/com/x/S.scala": "import com.x.y.B\nimport com.x.{A, L}\nclass S\n",
    "test/r/s.rb": "",
    "r/s.rb": "",
    "other/lib/r/s.rb": "require 'r/s'\n",
    "lua/x/a.lua": "local b = require('x.b')\nlocal c = require('c')\n",
    "lua/x/b.lua": "",
    "x/b.lua": "",
    "x/b/init.lua": "",
    "c.lua": "",
    "lua/c.lua": "",
    "other/P/B.php": "<?php\n",
    "c/a.c": '#include "b.h"\n#include "inc/d.h"\n',
    "c/b.h": "",
    "include/b.h": "",
    "include/inc/d.h": "",
    "lib/r.rb": "require 'r/s'\nrequire_relative 'r/t'\n",
    "lib/r/s.rb": "",
    "lib/r/t.rb": "",
    "Cargo.toml": '[package]\nname = "k"\n',
    "src/lib.rs": "mod m;\nuse crate::m::n::X;\n",
    "src/m.rs": "use super::Y;\nmod n;\n",
    "src/m/n.rs": "use crate::m::Z;\n",
    "README.md": "[a](docs/a.md) [b](lib/r.rb)\n",
    "docs/a.md": "[up](../README.md)\n",
    "env/main.tf": 'module "v" {\n  source = "../mod"\n}\n',
    "mod/main.tf": "",
    "composer.json": '{"autoload": {"psr-4": {"P\\\\": "php/"}}}',
    "php/A.php": "<?php\nuse P\\B;\n",
    "php/B.php": "<?php\nuse P\\A;\n",
    "cs/K/K.csproj": "<Project/>",
    "cs/K/A.cs": "using K.T;\nclass A {}\n",
    "cs/K/T/B.cs": "using K;\nclass B {}\n",
}
commits = st.lists(st.sets(st.sampled_from(sorted(POOL))), min_size=1, max_size=5)


@example(commits=[{"src/m.rs"}, {"src/m.rs", "src/lib.rs"}])
@settings(max_examples=examples(150, short=40))
@given(commits=commits)
def test_commits_one_by_one_leave_the_edges_of_the_last_commit_only(commits):
    step_by_step = Index()
    for paths in commits:
        step_by_step.commit({path: POOL[path] for path in paths})

    at_once = Index().commit({path: POOL[path] for path in commits[-1]})
    assert step_by_step.edges() == at_once.edges()
