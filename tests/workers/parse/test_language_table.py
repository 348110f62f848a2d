"""One row adds a language, and a missing part of a language is named."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from codelode.languages import BY_NAME
from workers import parse as stage
from workers.parse import grammars
from workers.parse.language_rules import RULES

ROOT = Path(__file__).parents[3]
QUERIES = {file.stem for file in Path(stage.__file__).parent.glob("queries/*.scm")}

#: A query that others inherit and that is of no language itself.
SHARED_QUERIES = {"ecmascript"}
#: Languages whose imports could be resolved, if they were read.
UNREAD = {"css", "cuda", "less", "objc", "scss"}

NAMES = '_row("pony", ".pony", "// /* */", scope=Scope("pony", has_implicit_receiver=True)),'
RULES_ROW = """
    "pony": Rules(
        is_exported=exports.no_leading_underscore,
        has_docstrings=True,
        statements=by_pattern(r'use\\s+(?:(?P<own>\\w+)\\s*=\\s*)?"(?P<module>[^"]+)"'),
        resolve=paths.by_path(".pony"),
    ),
"""
QUERY = """
(class_definition (identifier) @name) @definition.class
(method (identifier) @name) @definition.method
(use_statement) @import

; uses of names
(call_expression callee: (identifier) @reference.call)
(call_expression callee: (member_expression (_) (identifier) @reference.member))
"""
SOURCE = '''\
use "lib/printer"

class Counter
  fun reset() =>
    """Start over."""
    refresh()
    out.show(1)

  fun _hidden() => None
'''
PROGRAM = """
import json, sys
from codelode.name_resolution import scope
from workers.parse import imports, parse

parsed = parse(sys.stdin.buffer.read(), path="src/counter.pony")
layout = imports.Layout(["src/counter.pony", "lib/printer.pony"])
print(json.dumps({
    "language": parsed.language,
    "chunks": [[piece.symbol, piece.kind] for piece in parsed.pieces],
    "symbols": [[one.qualified_name, one.kind, one.is_exported] for one in parsed.symbols],
    "imports": [one.module for one in parsed.imports],
    "uses": [[one.name, one.kind] for one in parsed.references],
    "edges": [one.target for one in imports.links("src/counter.pony", parsed, layout=layout).edges],
    "scope": scope("src/counter.pony").name,
}))
"""


def test_a_row_in_each_table_and_a_query_add_a_language(tmp_path):
    """The source is edited as a contributor would, in a copy, and run in a process of its own."""
    for package in ("codelode", "workers"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=ignored)
    insert(tmp_path / "codelode/language_table.py", "    TEXT,\n", f"    {NAMES}\n")
    insert(tmp_path / "workers/parse/language_rules.py", '    "gleam": ', RULES_ROW)
    (tmp_path / "workers/parse/queries/pony.scm").write_text(QUERY)
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM],
        input=SOURCE,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "language": "pony",
        "chunks": [["Counter", "class"]],
        "symbols": [
            ["Counter", "class", True],
            ["Counter.reset", "method", True],
            ["Counter._hidden", "method", False],
        ],
        "imports": ["lib/printer"],
        "uses": [["refresh", "call"], ["show", "member"]],
        "edges": ["lib/printer.pony"],
        "scope": "pony",
    }


def ignored(folder, names):
    return [name for name in names if name == "__pycache__"]


def insert(file, before, text):
    source = file.read_text()
    assert source.count(before) == 1
    file.write_text(source.replace(before, text + before))


def test_every_language_with_rules_has_a_row_of_names():
    assert RULES.keys() - BY_NAME.keys() == set(), "rows are missing in codelode/language_table.py"


def test_every_query_is_of_a_language_with_a_grammar():
    with_grammar = {name for name, row in BY_NAME.items() if row.grammar}
    assert QUERIES - SHARED_QUERIES - with_grammar == set(), "queries of no language"


def test_every_reader_of_import_statements_has_statements_to_read():
    readers = {name for name, rules in RULES.items() if rules.statements}
    capturing = {name for name in BY_NAME if "@import" in grammars.query_source(name).definitions}
    assert readers - capturing == set(), "queries/<language>.scm does not capture @import"


def test_every_resolver_has_imports_to_resolve():
    resolving = {name for name, rules in RULES.items() if rules.resolve or rules.packages}
    reading = {
        name
        for name, rules in RULES.items()
        if rules.statements or rules.references or rules.sections
    }
    assert resolving - reading == UNREAD, "rows resolve imports that nothing reads"


def test_sections_are_of_known_languages():
    named = {language for rules in RULES.values() for language in rules.sections.values()}
    assert named <= BY_NAME.keys()
