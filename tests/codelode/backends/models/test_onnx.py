"""The cross-encoder's border: what is missing is said, logits become shares."""

from __future__ import annotations

import numpy as np
import pytest

from codelode.backends.models.onnx import OnnxCrossEncoder, probabilities
from codelode.errors import InvalidSettings


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


class TestWithARuntime:
    """A model of one sum over the token ids, made here."""

    @pytest.fixture
    def folder(self, tmp_path):
        onnx = pytest.importorskip("onnx")
        pytest.importorskip("onnxruntime")
        tokenizers = pytest.importorskip("tokenizers")
        words = tokenizers.models.WordLevel({"[UNK]": 0, "good": 5, "bad": 1}, unk_token="[UNK]")
        made = tokenizers.Tokenizer(words)
        made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
        made.save(str(tmp_path / "tokenizer.json"))
        of = onnx.helper
        ids = of.make_tensor_value_info("input_ids", onnx.TensorProto.INT64, ["n", "tokens"])
        out = of.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, ["n", 1])
        nodes = [
            of.make_node("Cast", ["input_ids"], ["floats"], to=onnx.TensorProto.FLOAT),
            of.make_node("ReduceSum", ["floats", "axes"], ["logits"], keepdims=1),
        ]
        axes = of.make_tensor("axes", onnx.TensorProto.INT64, [1], [1])
        graph = of.make_graph(nodes, "sum", [ids], [out], [axes])
        opset = [of.make_opsetid("", 13)]
        onnx.save(of.make_model(graph, opset_imports=opset, ir_version=8), tmp_path / "model.onnx")
        return tmp_path

    def test_pairs_are_scored_in_their_order(self, folder):
        texts = ["bad", "good good", "else", *["good"] * 40]

        found = OnnxCrossEncoder(folder).scores("q", texts)

        assert len(found) == len(texts)
        assert found[1] > found[3] > found[0] > found[2]
