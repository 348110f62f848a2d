"""Use a function as a language model."""

from __future__ import annotations

import threading
from collections.abc import Callable


class MemoryLanguageModel:
    """Implements the port LanguageModel. `answer` maps a prompt to the answer and may raise."""

    def __init__(self, answer: Callable[[str], str], *, identity: str = "memory") -> None:
        self.identity = identity
        self.prompts: list[str] = []  # in the order of the calls
        self._answer = answer
        self._lock = threading.Lock()

    def complete(self, prompt: str, *, max_tokens: int) -> str:
        with self._lock:
            self.prompts.append(prompt)
        words = self._answer(prompt).strip().split(" ")
        return " ".join(words[:max_tokens])
