"""Attribute macros of C hide neither the function that they describe nor those after it."""

import pytest

from workers.parse import parse

FUNCTIONS = {
    "after the type": "static int __printflike(2, 3) say(struct out *o, const char *f, ...)",
    "before the name": "void printflike(2, 3)\nsay(struct out *o, const char *f, ...)",
    "after a pointer": "char * printflike(1, 2)\nsay(const char *f, ...)",
    "after a struct": "static enum result FORMAT(printf, 2, 3)\nsay(int a, const char *f, ...)",
    "on a line of its own": "printflike(2,3)\nstatic void say(int a, const char *f, ...)",
    "a section": 'SECTION(".init")\nint say(void)',
    "none": "static struct out *\nsay(struct out *o, int n)",
    "after the parameters": "int say(int a) NONNULL(1)",
    "several after the parameters": "int say(int a) EXCLUDES(mutex_)\n    RETURNS(other)",
}


@pytest.mark.parametrize("suffix", [".c", ".cc", ".h"])
@pytest.mark.parametrize("head", FUNCTIONS.values(), ids=list(FUNCTIONS))
def test_a_function_with_an_attribute_macro_is_found_and_so_is_the_next_one(head, suffix):
    text = f"{head}\n{{\n\treturn 1;\n}}\n\nint\nnext(void)\n{{\n}}\n"

    parsed = parse(text.encode(), path=f"a{suffix}")

    assert [one.name for one in parsed.symbols] == ["say", "next"]
    said = parsed.symbols[0]
    assert (said.start_line, said.signature) == (1, " ".join(head.split()))
    assert parsed.pieces[0].content.startswith(head)


def test_a_declaration_with_such_a_macro_is_no_definition():
    text = "void printflike(1, 2) say(const char *, ...);\nint next(void)\n{\n}\n"

    assert [one.name for one in parse(text.encode(), path="log.h").symbols] == ["next"]


def test_statements_are_read_as_they_are():
    text = "int main(void)\n{\nif (1) run(2);\nwhile (1)\n  stop();\nreturn (0);\n}\n"

    parsed = parse(text.encode(), path="main.c")

    assert parsed.health.errors == 0
    assert {one.name for one in parsed.references} == {"run", "stop"}


def test_a_method_with_macros_after_its_parameters_is_found():
    text = "class Log {\n  void add(int n) const REQUIRES(mutex_) {\n  }\n  int next() {}\n};\n"

    names = [one.qualified_name for one in parse(text.encode(), path="log.h").symbols]
    assert names == ["Log", "Log.add", "Log.next"]


def test_a_type_between_a_macro_and_the_name_is_not_a_part_of_the_name():
    text = "namespace a {\nAPI inline std::string next(int n) {\n  return {};\n}\n}\n"

    names = [one.qualified_name for one in parse(text.encode(), path="log.cc").symbols]
    assert names == ["a.next"]
