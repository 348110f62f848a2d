"""Compute the keys of the derived-value cache.

A key is a hash of the input and of everything else that the output depends on, such as the version
of the parser or model. An entry is therefore never stale: forks, branches, renames, and reverts
need no parsing, summary, or vector. After a change of parser, model, or prompt, every lookup is a
miss.
"""

from __future__ import annotations

import hashlib

from codelode import languages
from codelode.model import BlobId, RepositoryName, Revision
from codelode.ports import DerivationKey


def of_parse(blob: BlobId, path: str, *, version: str) -> DerivationKey:
    """Return the key of a parsed file; it depends on the path only by `languages.traits`."""
    return _key("parse", version, blob, languages.traits(path))


def of_layout(repository: RepositoryName, revision: Revision, *, version: str) -> DerivationKey:
    """Return the key of the layout of a commit; imports may contain the repository's name."""
    return _key("layout", version, repository, revision)


def of_summary(content: str, *, language: str, model: str, prompt: str) -> DerivationKey:
    """Return the key of a summary; `model` is an identity, `prompt` a version."""
    return _key("summary", model, prompt, language, content)


def of_vector(text: str, *, embedder: str) -> DerivationKey:
    """Return the key of a document's vector; `embedder` is an identity."""
    return _key("vector", embedder, text)


def _key(*parts: str) -> DerivationKey:
    """Hash the parts, each after its length, so that different lists have different hashes."""
    digest = hashlib.sha256()
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "big"))
        digest.update(raw)
    return DerivationKey(digest.digest())
