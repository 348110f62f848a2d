"""Run the image's install steps in a clean folder, which needs no container engine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "deploy/Dockerfile").read_text()

#: The install steps download a hundred packages, which takes a minute.
if_requested = pytest.mark.skipif(
    not (os.environ.get("CI") or os.environ.get("CODELODE_TEST_IMAGE")),
    reason="takes a minute: set CODELODE_TEST_IMAGE=1",
)


@if_requested
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_install_steps_produce_a_working_program_without_development_tools(tmp_path):
    folders = {"/src": tmp_path / "src", "/wheels": tmp_path / "wheels", "/opt": tmp_path / "opt"}
    for name in ("requirements.lock", "pyproject.toml", "README.md", "LICENSE"):
        _copy(ROOT / name, folders["/src"] / name)
    for name in ("codelode", "gateway", "workers"):
        shutil.copytree(ROOT / name, folders["/src"] / name)
    environment = {
        **{k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")},
        "PIP_NO_COMPILE": "0",  # sets `compile` to 0: bytecode is not needed for one run
    }
    steps = [step for step in _steps() if "/wheels" in step]
    assert len(steps) == 3
    for step in steps:
        for name, folder in folders.items():
            step = re.sub(rf"(?<![\w/]){name}\b", str(folder), step)
        subprocess.run(["bash", "-ec", step], env=environment, check=True, cwd=tmp_path)

    installed = folders["/opt"] / "codelode/bin"
    shown = subprocess.run(
        [installed / "codelode", "--help"], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert "Usage: codelode" in shown.stdout
    script = "import gateway.app, workers.delivery.tasks, codelode.backends.weaviate"
    subprocess.run([installed / "python", "-P", "-c", script], check=True, cwd=tmp_path)
    assert not (installed / "pytest").exists()


def test_build_context_consists_of_the_files_that_the_image_copies():
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    copied = {
        name for line in re.findall(r"^COPY (.*) \S+$", DOCKERFILE, re.M) for name in line.split()
    }

    assert copied == {line[1:] for line in ignored if line.startswith("!")}


def test_the_base_image_can_be_replaced():
    """An ARG applies to every FROM only if it precedes the first one."""
    before, *_ = DOCKERFILE.partition("\nFROM ")
    (default,) = re.findall(r"^ARG PYTHON_IMAGE=(\S+)$", before, re.MULTILINE)
    assert set(re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)) == {"${PYTHON_IMAGE}"}
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    built_with = compose["x-codelode"]["build"]["args"]
    assert built_with == {"PYTHON_IMAGE": f"${{PYTHON_IMAGE:-{default}}}"}


def test_image_runs_as_an_unprivileged_user():
    assert re.findall(r"^USER (.*)$", DOCKERFILE, re.MULTILINE) == ["codelode"]


def _steps():
    joined = DOCKERFILE.replace("\\\n", " ")
    return [re.sub(r"--mount=\S+ ", "", run) for run in re.findall(r"^RUN (.*)$", joined, re.M)]


def _copy(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)
