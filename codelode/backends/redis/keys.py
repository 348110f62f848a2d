"""Names of keys, and text as the bytes that are stored."""

from __future__ import annotations

from urllib.parse import quote

#: Characters of a repository's name that are written as they are; braces would end a hash tag.
_PLAIN = "/.-_~@:+, "


def of_repository(prefix: str, table: str, repository: str) -> str:
    """`("codelode:", "graph", "acme/app")` → `codelode:graph:{acme/app}`.

    The braces are a hash tag: all keys that start so live in one slot of a cluster.
    """
    return f"{prefix}{table}:{{{quote(encode(repository), safe=_PLAIN)}}}"


def encode(text: str) -> bytes:
    """UTF-8; lone surrogates survive the round trip."""
    return text.encode("utf-8", "surrogatepass")


def decode(raw: bytes) -> str:
    """The text that `encode` was given."""
    return raw.decode("utf-8", "surrogatepass")
