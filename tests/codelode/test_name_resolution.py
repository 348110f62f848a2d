"""Uses of names are resolved by what the using file imports."""

from __future__ import annotations

import pytest

from codelode.model import Kind, LocatedSymbol, Reference, ReferenceKind, Symbol
from codelode.name_resolution import MAX_BY_NAME, Confidence, reexports, resolve_use

CALL, MEMBER, OWN = ReferenceKind.CALL, ReferenceKind.MEMBER, ReferenceKind.OWN


def at(path, kind=Kind.FUNCTION, name="load", line=1, signature="def load"):
    symbol = Symbol(name, name, kind, signature, line, line, is_exported=True)
    return LocatedSymbol("acme/app", path, symbol)


def means(kind, path, *definitions, imported=(), name="load"):
    found = resolve_use(
        Reference(name, kind), path=path, imported=imported, definitions=definitions
    )
    return [(one.definition.path, one.confidence) for one in found]


EXACT, IMPORTED, NAME = Confidence


CASES = [
    ("the same file wins", CALL, "a.py", ["a.py", "b.py"], ["b.py"], [("a.py", EXACT)]),
    ("the only one, imported", CALL, "a.py", ["b.py"], ["b.py"], [("b.py", EXACT)]),
    ("one of two, imported", CALL, "a.py", ["b.py", "c.py"], ["b.py"], [("b.py", IMPORTED)]),
    ("a member is never sure", MEMBER, "a.py", ["b.py"], ["b.py"], [("b.py", IMPORTED)]),
    ("not imported", CALL, "a.py", ["b.py", "c.py"], [], [("b.py", NAME), ("c.py", NAME)]),
    ("another language", CALL, "a.py", ["b.go"], ["b.go"], []),
    ("languages that see each other", CALL, "a.ts", ["b.js"], ["b.js"], [("b.js", EXACT)]),
    ("a package is a folder", CALL, "n/a.go", ["n/b.go", "m/b.go"], [], [("n/b.go", IMPORTED)]),
    ("a test and its package", CALL, "src/test/java/x/T.java",
     ["src/main/java/x/A.java", "src/main/java/y/B.java"], [],
     [("src/main/java/x/A.java", IMPORTED)]),
    ("tests define for tests", CALL, "src/a.py", ["tests/b.py"], [], []),
    ("tests among themselves", CALL, "tests/a.py", ["tests/b.py"], [], [("tests/b.py", NAME)]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "path", "defined", "imported", "expected"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_a_use_resolves_to_the_surest_definitions(kind, path, defined, imported, expected):
    assert means(kind, path, *map(at, defined), imported=imported) == expected


BUILTIN = [
    ("of an imported class", MEMBER, "a.py", ["b.py"], ["b.py"], [("b.py", NAME)]),
    ("of a class of the file", MEMBER, "a.py", ["a.py"], [], [("a.py", NAME)]),
    ("of a class elsewhere", MEMBER, "a.py", ["b.py"], [], []),
    ("of the code's own class", OWN, "a.py", ["a.py", "b.py"], [], [("a.py", EXACT)]),
    ("of an imported base", OWN, "a.py", ["b.py", "c.py"], ["b.py"], [("b.py", IMPORTED)]),
    ("in a language without such a type", MEMBER, "n/a.go", ["n/b.go"], [], [("n/b.go", IMPORTED)]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "path", "defined", "imported", "expected"),
    [case[1:] for case in BUILTIN],
    ids=[case[0] for case in BUILTIN],
)
def test_a_method_name_of_builtin_types_resolves_surely_only_on_self(
    kind, path, defined, imported, expected
):
    definitions = [at(one, Kind.METHOD, "copy") for one in defined]
    assert means(kind, path, *definitions, imported=imported, name="copy") == expected


def test_a_c_function_is_linked_by_its_name_unless_it_is_static():
    static = at("c.c", signature="static int load(void)")
    assert means(CALL, "a.c", at("b.c"), static) == [("b.c", IMPORTED)]
    assert means(CALL, "a.c", at("b.c"), at("c.c")) == [("b.c", NAME), ("c.c", NAME)]
    assert means(CALL, "a.c", static) == []
    assert means(CALL, "a.py", at("b.py")) == [("b.py", NAME)]


RENAMED = [
    ("not the file's own", "a.py", ["a.py", "b.py"], ["b.py"], "b.py", [("b.py", IMPORTED)]),
    ("of two that are imported the one it is from", "a.py", ["b.py", "c.py"], ["b.py", "c.py"],
     "c.py", [("c.py", IMPORTED)]),
    ("passed on", "a.py", ["p/b.py"], ["p/__init__.py", "p/b.py"], "p/__init__.py",
     [("p/b.py", EXACT)]),
    ("any file of the package", "a.go", ["n/b.go", "m/b.go"], ["n/c.go"], "n/c.go",
     [("n/b.go", IMPORTED)]),
    ("imported from itself", "a.rs", ["a.rs", "b.rs"], [], "a.rs", [("a.rs", EXACT)]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "defined", "imported", "source", "expected"),
    [case[1:] for case in RENAMED],
    ids=[case[0] for case in RENAMED],
)
def test_a_renamed_import_resolves_to_the_file_it_is_from(
    path, defined, imported, source, expected
):
    use = Reference("load", CALL, "read")
    found = resolve_use(
        use, path=path, imported=imported, definitions=list(map(at, defined)), source=source
    )
    assert [(one.definition.path, one.confidence) for one in found] == expected


def test_a_bare_call_is_a_method_call_only_if_the_receiver_may_be_implicit():
    method = at("b.py", Kind.METHOD)
    assert means(CALL, "a.py", method) == []
    assert means(MEMBER, "a.py", method) == [("b.py", NAME)]
    assert means(CALL, "a.rb", at("b.rb", Kind.METHOD)) == [("b.rb", NAME)]


def test_a_base_resolves_to_types_only():
    base = ReferenceKind.IMPLEMENTATION
    assert means(base, "a.py", at("b.py"), imported=["b.py"]) == []
    assert means(base, "a.py", at("b.py", Kind.CLASS), imported=["b.py"]) == [("b.py", EXACT)]


def test_an_imported_constant_may_hold_a_function():
    constant = at("b.ts", Kind.CONSTANT)
    assert means(CALL, "a.ts", constant, imported=["b.ts"]) == [("b.ts", EXACT)]
    assert means(CALL, "a.ts", constant) == []


def test_a_common_name_resolves_to_a_bounded_number_of_definitions():
    found = means(MEMBER, "a.py", *(at(f"b{number}.py", Kind.METHOD) for number in range(50)))
    assert len(found) == MAX_BY_NAME


def test_index_files_of_a_folder_reexport_their_imports():
    assert all(map(reexports, ["a/__init__.py", "web/index.ts", "src/lib.rs", "m/mod.rs"]))
    assert not reexports("a/init_db.py")
