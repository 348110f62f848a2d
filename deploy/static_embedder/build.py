"""Build the table of the built-in embedder: `build.py --model FOLDER --out FOLDER SOURCES…`.

The steps are: count words in the sources, choose the vocabulary, embed it with all-MiniLM-L6-v2,
reduce the vectors to 256 dimensions, weigh them by rarity, and train them on (sentence, code)
pairs. A twentieth of the packages is held out of training; the retrieval quality on their pairs is
logged before and after. The same sources, model, and numpy give the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import random
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

import table  # noqa: E402  # needs the path above
from corpus import Source, read_sources  # noqa: E402
from minilm import MiniLM  # noqa: E402
from pairs import Pair, extract  # noqa: E402
from train import Texts, train  # noqa: E402
from vocabulary import choose, document_frequencies, rarity  # noqa: E402

from codelode.backends.models.static import StaticEmbedder  # noqa: E402
from codelode.vectors import Vectors  # noqa: E402

log = logging.getLogger("build")

VERSION = "2"
DIM = 256

#: Maximum number of characters read per package and per language, so that none dominates.
PACKAGE_CHARS = 1_500_000
LANGUAGE_CHARS = 40_000_000

#: Maximum number of pairs per package.
PACKAGE_PAIRS = 6_000

#: One of this many packages is held out of training.
HELD_OUT = 20
HELD_OUT_PAIRS = 4_000


def main() -> None:
    """Build the table from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", nargs="+", type=Path, help="folders as fetch.sh lays them out")
    parser.add_argument("--model", type=Path, required=True, help="folder of model.safetensors")
    parser.add_argument("--out", type=Path, required=True, help="folder to write the table to")
    parser.add_argument("--untrained", action="store_true", help="stop before training")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    build(options.sources, options.model, options.out, is_trained=not options.untrained)


def build(folders: Sequence[Path], model_dir: Path, out: Path, *, is_trained: bool) -> None:
    """Write the table to `out`."""
    sources = balanced(read_sources(folders))
    log.info("%d files, %d characters", len(sources), sum(len(s.text) for s in sources))
    frequencies, chunks = document_frequencies(source.text for source in sources)
    model = MiniLM(model_dir)
    tokens = choose(model.pieces(), frequencies)
    log.info("%d words in %d windows; embedding %d tokens", len(frequencies), chunks, len(tokens))
    vectors = table.reduce(model.embed(tokens), DIM)
    weights = rarity(tokens, frequencies, chunks)
    table.write(out, version=VERSION, tokens=tokens, vectors=vectors, weights=weights)
    if not is_trained:
        return
    pairs = [pair for source in sources for pair in extract(source)]
    held_out = [pair for pair in pairs if is_held_out(pair.package)]
    distilled = StaticEmbedder(out)
    log.info("distilled: MRR %.3f on packages held out", reciprocal_rank(distilled, held_out))
    chosen = deduplicated(pair for pair in pairs if not is_held_out(pair.package))
    log.info("training on %d pairs: %s", len(chosen), Counter(pair.kind for pair in chosen))
    texts = Texts(
        sentences=[distilled.token_ids(pair.sentence) for pair in chosen],
        codes=[distilled.token_ids(pair.code) for pair in chosen],
        titles=[distilled.token_ids(pair.code.partition("\n")[0]) for pair in chosen],
    )
    vectors, weights = train(vectors, weights, texts)
    table.write(out, version=VERSION, tokens=tokens, vectors=vectors, weights=weights)
    log.info(
        "trained: MRR %.3f on packages held out", reciprocal_rank(StaticEmbedder(out), held_out)
    )


def balanced(sources: Iterable[Source]) -> list[Source]:
    """Return the sources in a fixed random order, up to the bounds of package and language."""
    shuffled = sorted(
        sources, key=lambda s: hashlib.sha1(f"{s.package}/{s.path}".encode()).digest()
    )
    taken: Counter[str] = Counter()
    out = []
    for source in shuffled:
        if taken[source.package] < PACKAGE_CHARS and taken[source.language] < LANGUAGE_CHARS:
            taken.update({source.package: len(source.text), source.language: len(source.text)})
            out.append(source)
    return out


def is_held_out(package: str) -> bool:
    """Return whether a package is held out of training, for the measurement."""
    return int.from_bytes(_digest(package)) % HELD_OUT == 0


def deduplicated(pairs: Iterable[Pair]) -> list[Pair]:
    """Return the pairs, each sentence and each code once, at most PACKAGE_PAIRS per package."""
    seen: set[str] = set()
    taken: Counter[str] = Counter()
    out = []
    for pair in pairs:
        code = pair.code.partition("\n")[2]
        if pair.sentence in seen or code in seen or taken[pair.package] >= PACKAGE_PAIRS:
            continue
        seen.update((pair.sentence, code))
        taken[pair.package] += 1
        out.append(pair)
    return out


def reciprocal_rank(embedder: StaticEmbedder, pairs: Sequence[Pair]) -> float:
    """Return the mean reciprocal rank of each sentence's code among the codes of all pairs."""
    distinct = deduplicated(pairs)
    pairs = random.Random(0).sample(distinct, min(HELD_OUT_PAIRS, len(distinct)))
    sentences: Vectors = embedder.embed_documents([pair.sentence for pair in pairs])
    codes: Vectors = embedder.embed_documents([pair.code for pair in pairs])
    scores = sentences @ codes.T
    own = scores[np.arange(len(pairs)), np.arange(len(pairs))]
    return float((1 / (scores >= own[:, None]).sum(axis=1)).mean())


def _digest(text: str) -> bytes:
    return hashlib.sha1(text.encode()).digest()


if __name__ == "__main__":
    main()
