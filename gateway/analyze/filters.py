"""Filters that a query says in words: `function that … in python`. Pure.

A guess that is wrong hides the answer, so this is asked for, never done by itself; a filter that
the request sets is left alone, and the answer says what was limited.
"""

from __future__ import annotations

import re
from dataclasses import replace

from codelode import languages
from codelode.model import Filters, Kind

#: What a word for a kind of definition means in the languages taken together.
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

#: `a function that retries`, `which class for sessions`: the kind is what is asked for, not a word
#: of the subject as in `function call`.
_KIND = re.compile(
    rf"\b({'|'.join(KINDS)})(?:s|es)?\s+(?:that|which|for|to|who|called|named)\b", re.IGNORECASE
)

#: `in python`, `written in go`, at the end of a thought.
_LANGUAGE = re.compile(
    r"\b(?:in|using)\s+([A-Za-z+#-]+)(?=\s*(?:$|[,.;?!]|\bcode\b))", re.IGNORECASE
)


def inferred(text: str, given: Filters) -> tuple[Filters, tuple[str, ...]]:
    """The filters with what the query says of language and kind, and a notice of each."""
    found, notices = given, []
    language = _language(text)
    if language and not given.languages:
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
    return f"limited to the {what} {value}, as the query says; without infer_filters it is not"
