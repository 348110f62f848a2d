"""Files as resources, which users attach to a question in their agent."""

from __future__ import annotations

from urllib.parse import parse_qs, unquote, urlsplit

from codelode.errors import InvalidQuery
from codelode.mcp.arguments import Read

#: The name of a repository may contain slashes; they are written as `%2F`.
TEMPLATE = "codelode://file/{repository}/{+path}{?ref}"


def file_of(uri: str) -> Read:
    """Return which file the URI names. Raises InvalidQuery for another form."""
    parts = urlsplit(uri)
    repository, slash, path = parts.path.removeprefix("/").partition("/")
    if (parts.scheme, parts.netloc) != ("codelode", "file") or not slash or not path:
        raise InvalidQuery("uri", f"{uri!r} is not of the form {TEMPLATE}")
    (ref,) = parse_qs(parts.query).get("ref", [""])[:1]
    named = {"path": unquote(path), "repository": unquote(repository), "ref": ref}
    return Read.model_validate(named)
