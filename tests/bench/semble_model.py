"""Write the built-in table of token vectors as a model that semble can load.

    PYTHON tests/bench/semble_model.py FOLDER

Run it with the Python of an environment that has semble. semble's own model is in no package
registry; with this one instead, its tools can be compared with others everywhere. Identifiers are
split at capitals and underscores, as the built-in embedder does.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from model2vec import StaticModel
from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers
from tokenizers.models import WordPiece

TABLE = Path(__file__).parents[2] / "codelode" / "backends" / "models" / "data" / "static"
UNKNOWN = "[UNK]"


def main(folder: Path) -> None:
    words = (TABLE / "vocabulary.txt").read_text(encoding="utf-8").splitlines()
    rows = np.load(TABLE / "rows.npy").astype(np.float32)
    vectors = rows * np.load(TABLE / "scales.npy")[:, None]
    tokeniser = Tokenizer(
        WordPiece(vocab={word: at for at, word in enumerate((*words, UNKNOWN))}, unk_token=UNKNOWN)
    )
    tokeniser.normalizer = normalizers.Sequence(
        [
            normalizers.Replace(Regex(r"(?<=[a-z0-9])(?=[A-Z])"), " "),
            normalizers.Lowercase(),
        ]
    )
    tokeniser.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    unknown = np.zeros((1, vectors.shape[1]), np.float32)
    StaticModel(np.concatenate([vectors, unknown]), tokeniser).save_pretrained(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
