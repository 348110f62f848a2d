"""Docstrings open with a sentence, not with a fragment that only its author can complete."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

#: Words that open a fragment: "Those that have a chunk.", "What a run left behind."
FRAGMENT = re.compile(
    r"(Of|Those|That|The same|What|Which|Who|Whose|Where|When|How|For|As|With|Without|Nobody"
    r"|Nothing|None|Each of|One that)\b"
)

#: Generated code, whose comments come from the protos.
GENERATED = "codelode/v1"

FOLDERS = ("codelode", "gateway", "workers")


def sources() -> list[Path]:
    files = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    return sorted(path for path in files if GENERATED not in path.as_posix())


def fragments(source: str) -> list[str]:
    """Return the first lines of docstrings that open with a fragment, with their line numbers."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        f"{node.body[0].lineno}: {text.splitlines()[0]}"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, documented)
        and (text := ast.get_docstring(node))
        and FRAGMENT.match(text)
    ]


@pytest.mark.parametrize("text", ["Those that have a chunk.", "Of both.", "How files are cut."])
def test_a_fragment_is_found(text: str) -> None:
    assert fragments(f'def f():\n    """{text}"""\n') == [f"2: {text}"]


def test_docstrings_open_with_a_sentence() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{fragment}"
        for path in sources()
        for fragment in fragments(path.read_text("utf-8"))
    ]
    assert not found, "\n".join(found)
