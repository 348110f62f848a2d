"""Name keys, and encode text."""

from __future__ import annotations

from urllib.parse import quote

#: Characters of a repository name that are not escaped. Braces are: they would end a hash tag.
_PLAIN = "/.-_~@:+, "


def of_repository(prefix: str, table: str, repository: str) -> str:
    """Return a key prefix: `("codelode:", "graph", "acme/app")` → `codelode:graph:{acme/app}`.

    The braces are a hash tag: all keys with this prefix are in the same slot of a cluster.
    """
    return f"{prefix}{table}:{{{quote(encode(repository), safe=_PLAIN)}}}"


def encode(text: str) -> bytes:
    """Encode text as UTF-8; lone surrogates survive the round trip."""
    return text.encode("utf-8", "surrogatepass")


def decode(raw: bytes) -> str:
    """Decode the bytes that `encode` returned."""

    return raw.decode("utf-8", "surrogatepass")
