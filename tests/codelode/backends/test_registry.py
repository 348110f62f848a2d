"""A store or a model provider is one record; what is not chosen is not imported."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from codelode.backends import registry
from codelode.backends.engine import PublishedIndex, VectorSpace
from codelode.backends.memory.chunks import MemoryChunkStore
from codelode.backends.memory.language_model import MemoryLanguageModel
from codelode.backends.registry import Provider, Store
from codelode.errors import InvalidSettings
from codelode.settings import load

SPACE = VectorSpace("static-256", 256)


class ToyEngine:
    """A store that keeps one index in memory."""

    def __init__(self) -> None:
        self.chunks = MemoryChunkStore()

    def published(self):
        return PublishedIndex("toy-1", {"embedder": "toy"}, SPACE)

    def writer(self, space):
        assert space == VectorSpace("toy-2", 2)
        return self.chunks

    reader = writer


class ToyEmbedder:
    identity, dim = "toy-2", 2

    def embed_query(self, text):
        return np.ones(2, np.float32)

    def embed_documents(self, texts):
        return np.ones((len(texts), 2), np.float32)


@pytest.fixture
def toys(monkeypatch):
    engine = ToyEngine()
    store = Store(lambda _: engine, ("data",), writers=1)  # type: ignore[return-value]  # as much as is asked for
    monkeypatch.setitem(registry.STORES, "toy", store)
    provider = Provider(lambda _: ToyEmbedder(), lambda _: MemoryLanguageModel(str.upper))
    monkeypatch.setitem(registry.PROVIDERS, "toy", provider)
    return engine


def test_a_record_adds_a_store(toys):
    settings = load(store="toy", embedder="toy")

    assert registry.chunk_store(settings) is toys.chunks
    assert registry.chunk_search(settings) is toys.chunks  # type: ignore[comparison-overlap]


def test_a_record_adds_a_model_provider(toys):
    settings = load(embedder="toy", language_model="toy")

    assert registry.embedder(settings).identity == "toy-2"
    assert registry.language_model(settings).complete("sums", max_tokens=5) == "SUMS"


def test_the_published_index_names_its_embedder(toys):
    found = registry.published(load(store="toy"))

    assert (found.name, found.settings.embedder, found.space) == ("toy-1", "toy", SPACE)


def test_settings_accept_only_choices_that_are_registered(toys):
    assert "toy" in registry.choices("store")
    assert "none" not in registry.choices("embedder")
    with pytest.raises(InvalidSettings, match="CODELODE_STORE='tyo': choose local or weaviate or"):
        load(store="tyo")
    with pytest.raises(InvalidSettings, match="CODELODE_EMBEDDER='none'"):
        load(embedder="none")


@pytest.mark.parametrize(
    ("expression", "absent"),
    [
        ("settings", ("numpy", "redis", "tantivy", "weaviate", "httpx")),
        ("registry.published(settings)", ("redis", "weaviate", "httpx", "ollama")),
        ("registry.ledger(settings)", ("tantivy", "weaviate", "httpx", "ollama")),
        ("registry.embedder(settings)", ("redis", "tantivy", "weaviate", "httpx", "ollama")),
    ],
    ids=["settings", "local store", "ledger", "built-in embedder"],
)
def test_nothing_is_imported_for_what_is_not_used(expression, absent, tmp_path):
    assert (
        printed(
            f"settings = load(data={str(tmp_path)!r})",
            expression,
            f"print(*[name for name in {absent!r} if name in sys.modules])",
        )
        == []
    )


@pytest.mark.parametrize(
    "choice",
    [
        {},
        {"store": "weaviate", "embedder": "ollama", "language_model": "openai"},
        {"embedder": "openai", "language_model": "ollama"},
    ],
    ids=["default", "weaviate, ollama, and openai", "local, openai, and ollama"],
)
def test_the_modules_of_a_choice_contain_all_that_its_backends_import(choice, tmp_path):
    assert (
        printed(
            "from importlib import import_module",
            f"settings = load(data={str(tmp_path)!r}, **{choice!r})",
            "for name in registry.modules(settings):",
            "    import_module(name)",
            "before = {*sys.modules}",
            "registry.engine(settings)",
            "registry.embedder(settings)",
            "registry.language_model(settings)",
            "print(*{*sys.modules} - before)",
        )
        == []
    )


def printed(*lines):
    """Return the words that these lines of Python print in a process of their own."""
    imports = (
        "import sys",
        "from codelode.backends import registry",
        "from codelode.settings import load",
    )
    script = "\n".join((*imports, *lines))
    command = [sys.executable, "-c", script]
    return subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=60
    ).stdout.split()
