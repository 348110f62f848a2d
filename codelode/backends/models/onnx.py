"""A cross-encoder in an ONNX file, run on the CPU: an optional extra without a download.

The folder holds `model.onnx`, a sequence classifier over pairs of texts, and `tokenizer.json`, in
the form that the usual exporters write. Package and model are loaded when the first pair is scored.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from codelode.errors import InvalidSettings, Unavailable

#: Pairs are cut to this many tokens, the length that most of these models were trained with.
MAX_TOKENS = 512
#: Pairs per batch; larger batches take more memory and no less time per pair.
BATCH = 16


class OnnxCrossEncoder:
    """Implements the port CrossEncoder. Safe to share between threads.

    Raises InvalidSettings when a file or the package is missing or a file is invalid, Unavailable
    when a run fails.
    """

    def __init__(self, folder: Path) -> None:
        self._model = folder / "model.onnx"
        self._words = folder / "tokenizer.json"
        for file in (self._model, self._words):
            if not file.is_file():
                raise InvalidSettings(f"CODELODE_CROSS_ENCODER: there is no file {file}")
        self._lock = threading.Lock()

    @cached_property
    def identity(self) -> str:
        digest = hashlib.sha256(self._model.read_bytes()).hexdigest()
        return f"onnx-{self._model.parent.name}-{digest[:12]}"

    def scores(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        found: list[float] = []
        for start in range(0, len(texts), BATCH):
            found += self._batch([(query, text) for text in texts[start : start + BATCH]])
        return found

    def _batch(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        session, tokenizer = self._loaded
        with self._lock:
            encoded = tokenizer.encode_batch(list(pairs))
        columns = {
            "input_ids": [one.ids for one in encoded],
            "attention_mask": [one.attention_mask for one in encoded],
            "token_type_ids": [one.type_ids for one in encoded],
        }
        wanted = {one.name for one in session.get_inputs()}
        feed = {name: np.array(rows, np.int64) for name, rows in columns.items() if name in wanted}
        try:
            (logits, *_) = session.run(None, feed)
        except Exception as exc:  # its own error types are not exported
            raise Unavailable(f"the cross-encoder failed: {exc}") from exc
        return probabilities(np.asarray(logits, np.float64))

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        try:
            import onnxruntime  # type: ignore[import-untyped,unused-ignore]
            from tokenizers import Tokenizer  # type: ignore[import-not-found,unused-ignore]
        except ImportError as exc:
            raise InvalidSettings(
                "CODELODE_CROSS_ENCODER needs the extra: pip install 'codelode[onnx]'"
            ) from exc
        try:
            tokenizer = Tokenizer.from_file(str(self._words))
            session = onnxruntime.InferenceSession(
                str(self._model), providers=["CPUExecutionProvider"]
            )
        except Exception as exc:  # neither package has a type for what it cannot read
            told = f"CODELODE_CROSS_ENCODER: {self._model.parent} cannot be loaded: {exc}"
            raise InvalidSettings(told) from exc
        tokenizer.enable_truncation(MAX_TOKENS)
        tokenizer.enable_padding()
        return session, tokenizer


def probabilities(logits: npt.NDArray[np.float64]) -> list[float]:
    """Return the probability that each text answers the query.

    It is the logistic function of (n, 1) logits, or the softmax of (n, 2) logits, of which the
    second one means yes.
    """
    margin = logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits[:, 0]
    found: list[float] = (1 / (1 + np.exp(-np.clip(margin, -50, 50)))).tolist()
    return found
