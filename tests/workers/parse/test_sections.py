"""Files of several languages, sections and notebooks, have positions in lines of the file."""

import json

import pytest

from codelode.model import HealthStatus
from workers import wire
from workers.parse import parse

VUE = """\
<template>
  <div @click="go">{{ count }}</div>
</template>

<script setup lang="ts">
import x from './x'
export const count: number = 1
/** Goes. */
function go(): void {}
</script>

<style scoped lang="scss">
$color: red;
.a { color: $color }
</style>
"""
SVELTE = """\
<script context="module">
export class Store {
  load() {}
}
</script>
<script lang="ts">
let count: number = 1;
</script>
{#if count}<p>{count}</p>{/if}
<style>@keyframes spin { from { color: red } }</style>
"""
ASTRO = """\
---
import A from './A.astro';
const title: string = 'x';
---
<A>{title}</A>
<script>function late() {}</script>
"""


def found(text, path):
    return [
        (str(symbol.kind), symbol.qualified_name, symbol.start_line, symbol.end_line)
        for symbol in parse(text.encode(), path=path).symbols
    ]


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        (
            "A.vue",
            VUE,
            [("constant", "count", 7, 7), ("function", "go", 9, 9), ("constant", "$color", 13, 13)],
        ),
        (
            "A.svelte",
            SVELTE,
            [
                ("class", "Store", 2, 4),
                ("method", "Store.load", 3, 3),
                ("constant", "count", 7, 7),
                ("function", "spin", 10, 10),
            ],
        ),
        ("A.astro", ASTRO, [("constant", "title", 3, 3), ("function", "late", 6, 6)]),
    ],
)
def test_each_section_is_read_by_its_own_grammar(path, text, expected):
    assert found(text, path) == expected
    assert parse(text.encode(), path=path).health.status is HealthStatus.OK


def test_a_section_has_the_imports_the_documentation_and_the_exports_of_its_language():
    parsed = parse(VUE.encode(), path="A.vue")
    assert [(imp.module, imp.line) for imp in parsed.imports] == [("./x", 6)]
    assert {s.name: (s.doc, s.is_exported) for s in parsed.symbols} == {
        "count": ("", True),
        "go": ("Goes.", False),
        "$color": ("", True),
    }


def test_a_long_section_is_cut_at_its_definitions():
    methods = "".join(
        f"function f{i}() {{\n" + "  computeSomethingLong(argument);\n" * 45 + "}\n"
        for i in range(6)
    )
    text = f"<template>\n  <p/>\n</template>\n<script>\n{methods}</script>\n"
    pieces = parse(text.encode(), path="A.vue").pieces
    assert "".join(piece.content for piece in pieces) == text
    assert [piece.symbol for piece in pieces] == [f"f{i}" for i in range(6)]
    assert all(piece.content.startswith("function") for piece in pieces[1:])


def test_an_unknown_language_of_a_section_leaves_the_rest():
    text = VUE.replace('lang="scss"', 'lang="stylus"')
    assert [row[1] for row in found(text, "A.vue")] == ["count", "go"]


def cell(kind, *source):
    return {"cell_type": kind, "metadata": {}, "source": list(source), "outputs": []}


def notebook(*cells, language="python"):
    whole = {"cells": list(cells), "metadata": {"language_info": {"name": language}}}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


CELLS = notebook(
    cell("markdown", "# Loading data\n", "Words."),
    cell("code", "import os\n", "%matplotlib inline\n", "def load(path):\n", "    return 1"),
    cell("markdown", "## Größen"),
    cell("code", "class Model:\n", "    def fit(self): ...\n"),
)


def test_symbols_of_a_notebook_are_at_the_lines_where_git_has_their_source():
    lines = CELLS.split("\n")
    rows = {name: (first, last) for _, name, first, last in found(CELLS, "a.ipynb")}
    assert list(rows) == ["load", "Model", "Model.fit"]
    for name, text in [("load", "def load(path)"), ("Model.fit", "def fit(self)")]:
        assert text in lines[rows[name][0] - 1]
    assert rows["load"][1] == rows["load"][0] + 1
    (imp,) = parse(CELLS.encode(), path="a.ipynb").imports
    assert '"import os' in lines[imp.line - 1]


def test_headings_of_a_notebook_are_headers_of_the_chunks_below_them():
    filler = [f"value_{i} = compute_something_long({i})\n" for i in range(100)]
    text = notebook(cell("markdown", "# Loading"), cell("code", *filler), cell("code", *filler))
    pieces = parse(text.encode(), path="a.ipynb").pieces
    assert len(pieces) > 3
    assert {piece.header for piece in pieces[1:-1]} == {"Loading"}
    assert "".join(piece.content for piece in pieces) == text


def test_a_notebook_is_read_by_the_grammar_of_its_language():
    text = notebook(cell("code", "struct P\n", "  x::Int\n", "end"), language="julia")
    assert [row[:2] for row in found(text, "a.ipynb")] == [("struct", "P")]


def test_halves_of_surrogate_pairs_in_a_notebook_are_replaced():
    text = notebook(cell("markdown", "# Half @"), cell("code", "S = '@'\n", "def f():\n", "  pass"))
    text = text.replace("@", r"\ud800")
    assert [row[:2] for row in found(text, "a.ipynb")] == [("constant", "S"), ("function", "f")]
    wire.dump_parsed(parse(text.encode(), path="a.ipynb"), max_file_bytes=1_000_000)


@pytest.mark.parametrize(
    "text",
    ["{}", "[]", '{"cells": 1}', '{"cells": [{"cell_type": "code", "source": [1, null]}]}', "{"],
)
def test_json_that_is_not_a_notebook_has_no_symbols(text):
    parsed = parse(text.encode(), path="a.ipynb")
    assert parsed.symbols == ()
    assert "".join(piece.content for piece in parsed.pieces) == text
