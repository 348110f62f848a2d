import hashlib
import json
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import codelode
from codelode.backends.models.static import (
    MAX_TOKENS,
    TABLE_DIR,
    StaticEmbedder,
    read_table,
    word_pieces,
)
from codelode.errors import Corrupt

FILES = ("vocabulary.txt", "rows.npy", "scales.npy")


@pytest.fixture(scope="module")
def embedder():
    return StaticEmbedder()


def cosine(embedder, first, second):
    return float(embedder.embed_query(first) @ embedder.embed_query(second))


VOCABULARY = {"embed": 0, "##ding": 1, "##s": 2, "parse": 3, "##di": 4, "cafe": 5}

PIECES = {
    "whole word": ("parse", [3]),
    "longest pieces first": ("embeddings", [0, 1, 2]),
    "accents are stripped": ("café", [5]),
    "a gap leaves nothing": ("embedx", []),
    "a continuation does not begin a word": ("ding", []),
    "empty": ("", []),
    "too long to be a word": ("parse" + "s" * 100, []),
}


@pytest.mark.parametrize(("word", "expected"), PIECES.values(), ids=PIECES.keys())
def test_a_word_is_split_into_the_longest_pieces(word, expected):
    assert list(word_pieces(word, VOCABULARY)) == expected


def test_identity_names_version_dimensions_and_content(embedder):
    digest = hashlib.sha256(b"".join((TABLE_DIR / name).read_bytes() for name in FILES)).hexdigest()
    about = json.loads((TABLE_DIR / "about.json").read_text())
    assert about["sha256"] == digest
    assert embedder.identity == f"{about['name']}-{about['version']}-256-{digest[:12]}"


def test_the_package_data_stays_small():
    assert sum(file.stat().st_size for file in TABLE_DIR.parent.rglob("*")) <= 9_000_000


def test_all_spellings_of_a_name_have_the_same_vector(embedder):
    spellings = [
        "parseHTTPResponse",
        "parse_http_response",
        "ParseHttpResponse",
        "parse http response",
    ]
    vectors = embedder.embed_documents(spellings)
    np.testing.assert_allclose(vectors, np.tile(vectors[0], (4, 1)), atol=1e-6)


NEARER = {
    "words inside identifiers": (
        "retry with backoff",
        "def retryWithBackoff(): pass",
        "def draw(): pass",
    ),
    "meaning without a shared word": (
        "remove a folder",
        "deleteDirectory(path)",
        "renderButton(color)",
    ),
    "inflection": ("parsing configuration files", "parseConfigFile(f)", "connectSocket(s)"),
    "abbreviation": ("authentication", "auth login password", "matrix multiply"),
}


@pytest.mark.parametrize(("query", "near", "far"), NEARER.values(), ids=NEARER.keys())
def test_code_about_the_query_is_nearer_than_other_code(embedder, query, near, far):
    assert cosine(embedder, query, near) > cosine(embedder, query, far) + 0.1


FOUND = {
    "lock": (
        "wait until another thread releases the lock",
        "class Mutex:\n    def acquire(self): ...\n    def release(self): ...",
    ),
    "json": (
        "parse a JSON document",
        "func decode(data []byte) (map[string]any, error) {\n    return json.Unmarshal(data)\n}",
    ),
    "hash": (
        "compute the hash of a file's content",
        "fn checksum(bytes: &[u8]) -> String {\n    Sha256::digest(bytes).to_hex()\n}",
    ),
    "mail": (
        "send an email",
        "void deliver(Mail mail) {\n    smtp.connect(host);\n    smtp.send(mail);\n}",
    ),
    "date": (
        "convert a timestamp to year and month",
        "const format = (date) => `${date.getFullYear()}-${date.getMonth()}`",
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_code_is_found_by_what_it_does(embedder, name):
    documents = embedder.embed_documents([code for _, code in FOUND.values()])
    similarity = documents @ embedder.embed_query(FOUND[name][0])
    assert list(FOUND)[int(similarity.argmax())] == name


def test_the_path_counts_more_than_a_line_of_code(embedder):
    query = embedder.embed_query("retry policy")
    lines = ["retry_policy.py", "import os", "def run(task): return task()"]
    under, beside = embedder.embed_documents(["\n".join(lines), "\n".join(lines[1:] + lines[:1])])
    assert under @ query > beside @ query + 0.02


def test_a_text_beyond_the_limit_is_embedded_by_its_beginning(embedder):
    beginning = "alpha beta " * (MAX_TOKENS // 2)
    whole = embedder.embed_query(beginning + "gamma delta " * 1_000)
    np.testing.assert_allclose(whole, embedder.embed_query(beginning), atol=1e-6)


def test_a_query_of_usual_length_is_embedded_at_once(embedder):
    text = "where are retries counted "

    at_once = embedder.embed_at_once(text)

    np.testing.assert_array_equal(at_once, embedder.embed_query(text))
    assert embedder.embed_at_once(text * 40) is None


@pytest.mark.parametrize("text", ["parse config", "retry retry call", "::::", "", "x" * 500])
def test_a_query_is_pooled_like_a_document_without_a_title(embedder, text):
    (document,) = embedder.embed_documents(["\n" + text])
    query = embedder.embed_query(text)

    assert query.dtype == document.dtype
    np.testing.assert_allclose(query, document, atol=1e-6)


def test_each_repetition_of_a_word_counts_less(embedder):
    once, often = (cosine(embedder, "parser", "parser " * n + "socket") for n in (1, 50))
    twice_as_often = cosine(embedder, "parser", "parser " * 100 + "socket")
    assert once < often < twice_as_often
    assert twice_as_often - often < often - once


def test_threads_share_one_embedder(embedder):
    texts = [f"def name{n}Of{n % 13}Things(argument{n}): return value{n}" for n in range(400)]
    expected = StaticEmbedder().embed_documents(texts)
    found = {}

    def work(worker):
        found[worker] = embedder.embed_documents(texts)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for vectors in found.values():
        np.testing.assert_allclose(vectors, expected, atol=1e-6)
    assert len(found) == 4


def copy_table(folder):
    for file in TABLE_DIR.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


def test_a_missing_table_is_reported_with_its_folder(tmp_path):
    with pytest.raises(Corrupt, match=str(tmp_path)):
        read_table(tmp_path)


@pytest.mark.parametrize("name", [*FILES, "about.json"])
def test_a_truncated_file_is_reported(tmp_path, name):
    file = copy_table(tmp_path) / name
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(Corrupt, match="install codelode again"):
        read_table(tmp_path)


MEMORY = """
import resource, codelode.backends.models.static as static, numpy
numpy.ones((64, 64), numpy.float32) @ numpy.ones((64, 64), numpy.float32)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
embedder = static.StaticEmbedder()
for start in range(0, 80_000, 200):
    names = " ".join(f"name{n}Of{n % 97}Things" for n in range(start, start + 200))
    embedder.embed_documents([names] * 32)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
def test_an_embedder_needs_little_memory():
    result = subprocess.run(
        [sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True
    )
    assert int(result.stdout) <= 60_000  # KiB


def test_a_text_has_the_same_vector_in_any_batch():
    embedder = StaticEmbedder()
    files = sorted(Path(codelode.__file__).parent.glob("**/*.py"))
    texts = [file.read_text("utf-8")[:1_500] for file in files]
    together = embedder.embed_documents(texts)

    alone = np.concatenate([embedder.embed_documents([text]) for text in texts])
    reversed_ = embedder.embed_documents(texts[::-1])[::-1]

    assert len(texts) > 50
    for vectors in (alone, reversed_):
        assert vectors.astype(np.float16).tobytes() == together.astype(np.float16).tobytes()
