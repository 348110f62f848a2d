"""The contract of the port LanguageModel, over every implementation."""

from __future__ import annotations

import contextlib

import pytest
from pydantic import SecretStr

from codelode.backends.memory.language_model import MemoryLanguageModel
from codelode.backends.models import ollama, openai

MODEL = "smollm2"
PROMPT = "Say in one short sentence what a hash map is for."


@pytest.fixture(
    params=[
        "memory",
        pytest.param("ollama", marks=pytest.mark.server),
        pytest.param("openai", marks=pytest.mark.server),
    ]
)
def make(request):
    """Return a function that makes equal models."""
    if request.param == "memory":
        yield lambda: MemoryLanguageModel(lambda prompt: " Finds a value by its key, fast.\n")
        return
    url = request.getfixturevalue("ollama_url")
    with contextlib.ExitStack() as stack:
        if request.param == "ollama":
            server = stack.enter_context(contextlib.closing(ollama.Server(url, threads=1)))
            yield lambda: ollama.OllamaLanguageModel(server, model=MODEL)
            return
        endpoint = openai.Endpoint(f"{url}/v1", key=SecretStr(""))
        stack.enter_context(contextlib.closing(endpoint))
        yield lambda: openai.OpenAiLanguageModel(endpoint, model=MODEL)


def test_an_answer_is_text_and_stripped(make):
    answer = make().complete(PROMPT, max_tokens=40)
    assert answer
    assert answer == answer.strip()


def test_an_answer_is_no_longer_than_asked_for(make):
    assert len(make().complete(PROMPT, max_tokens=3).split()) <= 3


def test_two_instances_of_one_model_have_the_same_identity(make):
    assert make().identity == make().identity
    assert make().identity.isprintable()


@pytest.mark.parametrize(
    "prompt",
    ["\x00\ufffd\ud800 text", "word " * 500, "日本語 👩‍👩‍👧"],
    ids=["broken", "long", "scripts"],
)
def test_hostile_prompts_are_answered(make, prompt):
    assert isinstance(make().complete(prompt, max_tokens=2), str)
