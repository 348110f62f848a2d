"""Results of parsing whole files equal those in golden.json, which reviewers read.

`python tests/workers/parse/test_golden.py` rewrites that file. It refuses if results changed but
PARSER_VERSION did not, because cached parses would then be stale.
"""

import json
import sys
from pathlib import Path

import pytest

from workers.parse import PARSER_VERSION, parse

HERE = Path(__file__).parent
GOLDEN = HERE / "golden.json"
SAMPLES = sorted((HERE / "samples").iterdir())


def summary(sample):
    parsed = parse(sample.read_bytes(), path=f"src/{sample.name}")
    return {
        "language": parsed.language,
        "category": str(parsed.category),
        "health": str(parsed.health.status),
        "pieces": [
            f"{p.start_line}-{p.end_line} {p.kind} {p.symbol} [{' '.join(p.symbols)}] {p.header}"
            for p in parsed.pieces
        ],
        "symbols": [
            f"{s.start_line}-{s.end_line} {s.kind} {s.qualified_name} | {s.signature} | {s.doc}"
            for s in parsed.symbols
        ],
        "imports": [f"{i.line} {i.module} {' '.join(i.names)}" for i in parsed.imports],
    }


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_a_sample_parses_as_recorded(sample):
    assert summary(sample) == json.loads(GOLDEN.read_text())["samples"][sample.name]


def test_results_belong_to_the_version_that_made_them():
    assert json.loads(GOLDEN.read_text())["version"] == PARSER_VERSION


def rewrite():
    new = {"version": PARSER_VERSION, "samples": {s.name: summary(s) for s in SAMPLES}}
    old = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    if old.get("version") == PARSER_VERSION and old["samples"] != new["samples"]:
        sys.exit(f"the results changed: raise PARSER_VERSION, which is {PARSER_VERSION!r}, first")
    GOLDEN.write_text(json.dumps(new, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    rewrite()
