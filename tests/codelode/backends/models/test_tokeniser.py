"""The built-in embedder counts its own tokens."""

from __future__ import annotations

from codelode.backends.models.static import MAX_TOKENS, StaticEmbedder
from codelode.ports import Tokeniser


def test_texts_of_any_length_are_split_into_pieces_of_the_table():
    embedder = StaticEmbedder()
    text = "def parseHTTPResponse(body): return body"

    assert isinstance(embedder, Tokeniser)
    assert embedder.count_tokens(text) == len(embedder.token_ids(text)) > 5
    assert embedder.count_tokens(text * MAX_TOKENS) > MAX_TOKENS
    assert embedder.count_tokens("") == 0
