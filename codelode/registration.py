"""Register a repository in the catalog, after checking its address, name, and patterns.

This is in the kernel because both sides register repositories: the gateway for its callers, and the
write side for the repositories of code hosts that it follows.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from codelode import addresses, patterns
from codelode.errors import Denied, InvalidQuery
from codelode.ledger import Catalog
from codelode.model import Repository, RepositoryName

#: Bounds of each list, because every file is compared with every pattern.
MAX_PATTERNS = 100
MAX_PATTERN_CHARS = 500


def register(
    catalog: Catalog,
    visible: Container[RepositoryName],
    *,
    url: str,
    name: str = "",
    paths: Container[str] | None = None,
    include: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    local_paths: str,
) -> Repository:
    """Register the repository, or replace the patterns of a registered one.

    An empty `name` stands for the one that the URL is registered under, or else is derived from the
    URL. Patterns that are None stay as they are. `local_paths`: see the setting. `paths`: those
    that the URL of a new repository may have at its host; None: any. Raises InvalidQuery, and
    Denied for a name that is not `visible`, whether or not such a repository exists, and for a path
    that is not allowed. Nothing is stored unless every argument is valid.
    """
    url = addresses.normal_url(url)
    checked = addresses.check_name(name) if name else _default_name(catalog, visible, url)
    included, excluded = _included(include), _excluded(exclude)
    if checked not in visible:
        raise Denied(
            f"you may not register or index {checked!r}: ask an admin to register it, with a label "
            "that lets you see it"
        )
    known = catalog.get(checked)
    if known is None and paths is not None:
        _check_path(addresses.path_of(url), paths)
    if known is not None and known.url != url:
        raise InvalidQuery(
            "name",
            f"{checked!r} is already the name of {known.url}; "
            "pass another name for this one alone, or remove that repository first",
        )
    # Last, because its errors tell whether there is such a local folder.
    addresses.check_url(url, local_paths=local_paths)
    if known is None:  # registering again would reset the default ref, which a run may be choosing
        catalog.register(Repository(checked, url))
    catalog.set_patterns(checked, include=included, exclude=excluded)
    return known or Repository(checked, url)


def _check_path(path: str, paths: Container[str]) -> None:
    """Raise Denied for a path that is not allowed, or that is empty because it is not plain."""
    if not path:
        raise Denied(
            "the path of this URL has parts such as '..' or unusual characters, which may lead to "
            "another repository: write it as the host does, or ask an admin without globs"
        )
    if path not in paths:
        raise Denied(
            f"the globs of your key do not match the path {path!r} of this URL: ask an admin "
            "without globs to register it, or to add a glob that matches the path to your key"
        )


def _default_name(catalog: Catalog, visible: Container[RepositoryName], url: str) -> RepositoryName:
    """Return the visible name of the URL, the one derived from the URL if it has several."""
    usual = addresses.default_name(url)
    found = catalog.get(usual)
    if found is not None and found.url == url and usual in visible:
        return usual  # without reading the names of all repositories
    names = [name for name, known in catalog.urls().items() if known == url and name in visible]
    return min(names, default=usual)


def _included(given: Sequence[str] | None) -> tuple[str, ...] | None:
    """Check the patterns to include. None: the repository keeps those it has."""
    if given is None:
        return None
    for pattern in given:
        if pattern.startswith("!"):
            raise InvalidQuery(
                "include", f"{pattern[:100]!r} starts with '!'; exclude it, without the '!'"
            )
    return _patterns("include", given)


def _excluded(given: Sequence[str] | None) -> tuple[str, ...] | None:
    """Check the patterns to exclude, in their order. None: the repository keeps those it has."""
    return None if given is None else _patterns("exclude", given)


def _patterns(field: str, given: Sequence[str]) -> tuple[str, ...]:
    if len(given) > MAX_PATTERNS:
        raise InvalidQuery(
            field,
            f"has {len(given):,} patterns, at most {MAX_PATTERNS} are allowed; "
            "name folders, or commit a .codelodeignore",
        )
    return tuple(_file_pattern(field, pattern) for pattern in given)


def _file_pattern(field: str, pattern: str) -> str:
    if not pattern.strip():
        raise InvalidQuery(field, "holds an empty pattern; give no patterns at all to clear them")
    if len(pattern) > MAX_PATTERN_CHARS:
        raise InvalidQuery(
            field,
            f"holds a pattern of {len(pattern):,} characters, at most {MAX_PATTERN_CHARS} are "
            "allowed; match a part of the path with '*' or '**'",
        )
    if not pattern.isprintable():
        raise InvalidQuery(
            field, f"{pattern[:100]!r} holds control characters; give each pattern by itself"
        )
    if not patterns.can_match(pattern):
        raise InvalidQuery(
            field,
            f"{pattern[:100]!r} can match no path; write it as in a .gitignore, relative to the "
            r"repository's root ('src/', '*.min.js'; '\#' and '\[' for the characters themselves)",
        )
    return pattern
