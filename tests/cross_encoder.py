"""Write a small cross-encoder: a real ONNX graph and tokenizer file, for `OnnxCrossEncoder`.

It reads query and text together, as real models do: the logit is the number of tokens that both
share, minus BIAS. A trained model would be a download of dozens of megabytes.
"""

from __future__ import annotations

from onnx import TensorProto, helper, save
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

#: Number of shared tokens at which the score is 0.5.
BIAS = 1.5

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")

_AXES = {"first": [1], "second": [2], "both": [1, 2]}


def write(folder, words, *, classes=1):
    """Write `model.onnx` and `tokenizer.json`; the tokenizer knows the words."""
    _tokenizer(words).save(str(folder / "tokenizer.json"))
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["n", "t"]) for name in INPUTS]
    output = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", classes])
    constants = [
        *(helper.make_tensor(name, TensorProto.INT64, [len(at)], at) for name, at in _AXES.items()),
        helper.make_tensor("special", TensorProto.INT64, [], [len(SPECIAL) - 1]),
        helper.make_tensor("bias", TensorProto.FLOAT, [], [BIAS]),
    ]
    graph = helper.make_graph(_nodes(classes), "overlap", inputs, [output], constants)
    opset = [helper.make_opsetid("", 13)]
    save(helper.make_model(graph, opset_imports=opset, ir_version=8), folder / "model.onnx")
    return folder


def _tokenizer(words):
    ids = {word: number for number, word in enumerate((*SPECIAL, *words))}
    made = Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))
    made.normalizer = normalizers.Lowercase()
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])],
    )
    return made


def _nodes(classes):
    """Compare each word of the query (type 0) with each word of the text (type 1)."""
    node = helper.make_node
    nodes = [
        node("Greater", ["input_ids", "special"], ["is_word"]),
        node("Cast", ["attention_mask"], ["is_read"], to=TensorProto.BOOL),
        node("And", ["is_word", "is_read"], ["counts"]),
        node("Cast", ["token_type_ids"], ["in_text"], to=TensorProto.BOOL),
        node("Not", ["in_text"], ["in_query"]),
        node("And", ["counts", "in_text"], ["text"]),
        node("And", ["counts", "in_query"], ["query"]),
        node("Unsqueeze", ["query", "second"], ["query_column"]),
        node("Unsqueeze", ["text", "first"], ["text_row"]),
        node("And", ["query_column", "text_row"], ["pairs"]),
        node("Unsqueeze", ["input_ids", "second"], ["id_column"]),
        node("Unsqueeze", ["input_ids", "first"], ["id_row"]),
        node("Equal", ["id_column", "id_row"], ["equal"]),
        node("And", ["equal", "pairs"], ["shared"]),
        node("Cast", ["shared"], ["ones"], to=TensorProto.FLOAT),
        node("ReduceSum", ["ones", "both"], ["sum"], keepdims=0),
        node("Sub", ["sum", "bias"], ["margin"]),
        node("Unsqueeze", ["margin", "first"], ["yes"]),
    ]
    if classes == 1:
        return [*nodes, node("Identity", ["yes"], ["logits"])]
    return [
        *nodes,
        node("Sub", ["yes", "yes"], ["no"]),
        node("Concat", ["no", "yes"], ["logits"], axis=1),
    ]
