"""The cross-encoder scores pairs with a real ONNX model, and names what is missing."""

from __future__ import annotations

import numpy as np
import pytest

from codelode.backends import registry
from codelode.backends.models.onnx import MAX_TOKENS, OnnxCrossEncoder, probabilities
from codelode.errors import InvalidSettings
from codelode.settings import Settings
from tests import cross_encoder


def test_a_folder_without_a_model_is_refused_by_name(tmp_path):
    with pytest.raises(InvalidSettings, match=r"CODELODE_CROSS_ENCODER.*model\.onnx"):
        OnnxCrossEncoder(tmp_path)


def test_the_identity_follows_the_weights(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / "model.onnx").write_bytes(b"one")
    first = OnnxCrossEncoder(tmp_path).identity
    (tmp_path / "model.onnx").write_bytes(b"two")

    assert first != OnnxCrossEncoder(tmp_path).identity


@pytest.mark.parametrize(
    ("logits", "expected"),
    [
        ([[0.0], [100.0], [-1_000.0]], [0.5, 1.0, 0.0]),
        ([[0.0, 0.0], [0.0, 2.0]], [0.5, 0.8808]),
    ],
)
def test_logits_of_one_or_two_classes_become_shares(logits, expected):
    assert probabilities(np.array(logits)) == pytest.approx(expected, abs=1e-4)


WORDS = ("retry", "call", "cache", "key")


@pytest.mark.parametrize("classes", [1, 2])
def test_pairs_are_read_together_and_scored_in_their_order(tmp_path, classes):
    folder = cross_encoder.write(tmp_path, WORDS, classes=classes)
    texts = ["cache key", "Retry the call", "retry", *["call"] * 40, ""]

    found = OnnxCrossEncoder(folder).scores("retry call", texts)

    shared = np.array([0, 2, 1, *[1] * 40, 0])
    assert found == pytest.approx(1 / (1 + np.exp(cross_encoder.BIAS - shared)))
    assert OnnxCrossEncoder(folder).scores("cache", texts[:2]) == pytest.approx(
        1 / (1 + np.exp(cross_encoder.BIAS - np.array([1, 0])))
    )


def test_a_long_text_is_scored_by_its_beginning(tmp_path):
    folder = cross_encoder.write(tmp_path, WORDS)
    texts = ["retry " + "cache " * 2 * MAX_TOKENS, "cache " * 2 * MAX_TOKENS + "retry", "retry"]

    first, last, short = OnnxCrossEncoder(folder).scores("retry", texts)

    assert first == short > last


@pytest.mark.parametrize("file", ["model.onnx", "tokenizer.json"])
def test_a_file_that_cannot_be_read_is_refused_by_the_name_of_its_folder(tmp_path, file):
    folder = cross_encoder.write(tmp_path, WORDS)
    (folder / file).write_bytes(b"neither a graph nor a tokenizer")

    with pytest.raises(InvalidSettings, match=rf"CODELODE_CROSS_ENCODER: {tmp_path} cannot"):
        OnnxCrossEncoder(folder).scores("retry", ["call"])


def test_the_settings_name_the_folder(tmp_path):
    folder = cross_encoder.write(tmp_path, WORDS)

    model = registry.cross_encoder(Settings(data=tmp_path, cross_encoder=str(folder)))

    assert model.scores("retry", ["retry"])[0] == pytest.approx(0.3775, abs=1e-4)
    assert registry.cross_encoder(Settings(data=tmp_path)) is None
