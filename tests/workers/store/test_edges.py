"""Imports become edges to what the repository really holds."""

from __future__ import annotations

from collections.abc import Sequence

from codelode.model import (
    Category,
    Edge,
    EdgeKind,
    FileHealth,
    HealthStatus,
    Import,
    ParsedFile,
)
from workers.store import import_edges

MEANT = {
    "app.util": ("app/util.py", "app/util/__init__.py"),
    "app.models": ("app/models.py", "app/models/__init__.py"),
    "os": ("os.py", "os/__init__.py"),
    "app.main": ("app/main.py",),
}


class Held:
    """The files of a repository; counts how often it is asked."""

    def __init__(self, *paths: str) -> None:
        self.paths = frozenset(paths)
        self.calls = 0

    def __call__(self, paths: Sequence[str]) -> frozenset[str]:
        self.calls += 1
        return self.paths & set(paths)


def importing(*modules: str) -> ParsedFile:
    imports = tuple(Import(module, line) for line, module in enumerate(modules, 1))
    return ParsedFile(
        "python", Category.SOURCE, FileHealth(HealthStatus.OK), pieces=(), imports=imports
    )


def meant(imp: Import, /, *, path: str, language: str) -> Sequence[str]:
    return MEANT[imp.module]


def edges(*modules: str, held: Held) -> tuple[Edge, ...]:
    files = {"app/main.py": importing(*modules)}
    return import_edges(files, candidates=meant, exists=held)["app/main.py"]


def test_the_first_candidate_that_exists_is_meant() -> None:
    held = Held("app/models/__init__.py", "app/util.py", "app/util/__init__.py")
    assert edges("app.util", "app.models", held=held) == (
        Edge("app/main.py", "app/models/__init__.py", EdgeKind.IMPORTS),
        Edge("app/main.py", "app/util.py", EdgeKind.IMPORTS),
    )


def test_what_the_repository_does_not_hold_keeps_its_name() -> None:
    assert edges("os", held=Held()) == (
        Edge("app/main.py", "os", EdgeKind.IMPORTS, is_external=True),
    )


def test_a_file_does_not_import_itself_and_repeats_count_once() -> None:
    held = Held("app/main.py", "app/util.py")
    assert edges("app.main", "app.util", "app.util", held=held) == (
        Edge("app/main.py", "app/util.py", EdgeKind.IMPORTS),
    )


def test_existence_is_asked_once_for_all_files() -> None:
    held = Held("app/util.py")
    files = {"app/main.py": importing("app.util", "os"), "b.py": importing("app.models")}

    found = import_edges(files, candidates=meant, exists=held)

    assert held.calls == 1
    assert [edge.target for edge in found["app/main.py"]] == ["app/util.py", "os"]
    assert [edge.target for edge in found["b.py"]] == ["app.models"]
