"""The code keeps the rules of the architecture, and generated files are up to date."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent


def test_import_rules_hold() -> None:
    found = subprocess.run(
        [BIN / "lint-imports", "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout


def test_generated_code_is_up_to_date(tmp_path: Path) -> None:
    protos = sorted(ROOT.glob("protos/codelode/v1/*.proto"))
    outputs = [f"--{kind}_out={tmp_path}" for kind in ("python", "grpc_python")]
    outputs += [f"--{kind}_out=quiet:{tmp_path}" for kind in ("mypy", "mypy_grpc")]
    subprocess.run(
        [sys.executable, "-m", "grpc_tools.protoc", f"-I{ROOT / 'protos'}", *outputs, *protos],
        env={**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"},
        check=True,
    )
    made = {path.name: path.read_text() for path in (tmp_path / "codelode/v1").iterdir()}
    committed = {
        path.name: path.read_text()
        for path in (ROOT / "codelode/v1").glob("*_pb2*")
        if path.suffix in (".py", ".pyi")
    }
    assert made == committed


def test_settings_page_equals_the_output_of_the_command() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "codelode", "settings", "--markdown"],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if "CODELODE" not in name},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    page = (ROOT / "docs/settings.md").read_text()
    assert page[page.index("| variable") :] == printed, "run codelode settings --markdown"


def test_only_settings_read_the_environment() -> None:
    readers = [
        str(path.relative_to(ROOT))
        for folder in ("codelode", "gateway", "workers")
        for path in (ROOT / folder).rglob("*.py")
        if re.search(r"os\.(environ|getenv)", path.read_text())
    ]
    assert set(readers) <= {
        "codelode/settings.py",
        "codelode/environment.py",
        "workers/pull/git.py",
    }


def test_code_and_documents_name_no_paths_or_registries() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True
    ).stdout.decode()
    text_files = [
        path
        for name in listed.split("\0")
        if name
        and (path := ROOT / name).suffix in {".py", ".md", ".toml", ".proto", ".lua", ""}
        and path.is_file()
        and path != Path(__file__)
    ]
    pattern = re.compile(r"/(work|root)/|pypi\.org|proxy\.golang\.org|registry\.npmjs")
    assert [str(path) for path in text_files if pattern.search(path.read_text("utf-8"))] == []


def test_principals_and_visibilities_are_made_in_few_modules() -> None:
    """A face or service function that made its own could read what its caller may not see."""
    sources = [
        path
        for folder in ("codelode", "gateway", "workers")
        for path in (ROOT / folder).rglob("*.py")
        if path != ROOT / "codelode/access.py"
    ]

    def holding(pattern: str) -> set[str]:
        found = (path for path in sources if re.search(pattern, path.read_text()))
        return {str(path.relative_to(ROOT)) for path in found}

    assert holding(r"\bPrincipal\(") == {"gateway/access/__init__.py"}
    assert holding(r"\bVisibility(\.of)?\(") == {"gateway/access/visibility.py"}
    assert holding(r"\bEVERYTHING\b") == {
        "gateway/access/visibility.py",
        "gateway/health.py",  # does the store answer?
        "workers/sources/following.py",  # which runs failed? It shows nothing to anyone
        "codelode/backends/weaviate/engine.py",  # likewise
        "codelode/backends/local/column_table.py",  # makes masks of filters apart from visibility
    }
