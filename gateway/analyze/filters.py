"""Infer filters from the words of a query: `function that … in python`. Pure.

A wrong guess hides the answer, so this is off by default, filters in the request take precedence,
and the answer says which filters were inferred.
"""

from __future__ import annotations

import re
from dataclasses import replace

from codelode import languages
from codelode.model import Filters, Kind

#: The kinds of definitions that a word of a query stands for, over all languages.
KINDS: dict[str, tuple[Kind, ...]] = {
    "function": (Kind.FUNCTION, Kind.METHOD),
    "method": (Kind.METHOD, Kind.FUNCTION),
    "class": (Kind.CLASS, Kind.STRUCT),
    "interface": (Kind.INTERFACE, Kind.TRAIT),
    "struct": (Kind.STRUCT,),
    "enum": (Kind.ENUM,),
    "trait": (Kind.TRAIT,),
    "macro": (Kind.MACRO,),
    "constant": (Kind.CONSTANT,),
}

#: Matches a kind that is asked for, as in `a function that retries`, `which class for sessions`,
#: but not in `function call`.
_KIND = re.compile(
    rf"\b({'|'.join(KINDS)})(?:s|es)?\s+(?:that|which|for|to|who|called|named)\b", re.IGNORECASE
)

#: Matches `in python` and `written in go` at the end of a clause.
_LANGUAGE = re.compile(
    r"\b(?:in|using)\s+([A-Za-z+#-]+)(?=\s*(?:$|[,.;?!]|\bcode\b))", re.IGNORECASE
)


def inferred(text: str, given: Filters) -> tuple[Filters, tuple[str, ...]]:
    """Return the filters with the language and kind that the query names, and a notice for each."""
    found, notices = given, []
    language = _language(text)
    if language and not given.languages and language not in given.not_languages:
        found = replace(found, languages=(language,))
        notices.append(_notice("language", language))
    kind = _KIND.search(text)
    if kind and not given.kinds:
        word = kind.group(1).lower()
        found = replace(found, kinds=KINDS[word])
        notices.append(_notice("kind", " and ".join(KINDS[word])))
    return found, tuple(notices)


def _language(text: str) -> str | None:
    named = (languages.resolve(match.group(1)) for match in _LANGUAGE.finditer(text))
    return next((language for language in named if language), None)


def _notice(what: str, value: str) -> str:
    return f"limited to the {what} {value}, inferred from the query by infer_filters"
