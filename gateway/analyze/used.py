"""Recognise a question for the users of a name: `who calls Client.get`. Pure.

Only whole queries of a fixed form count, so that prose about use ("how are tokens used in headers")
is searched as it is.
"""

from __future__ import annotations

import re

from codelode.name_resolution import dotted

#: Longest query that is compared with the forms, characters.
MAX_CHARS = 200

_VERB = r"(?:call|use|invoke|reference|instantiate|extend|implement|subclasse|inherit)s"
_PAST = r"(?:called|used|invoked|referenced|instantiated|extended|implemented)"
_NOUN = r"(?:callers?|usages?|uses|users|references?|call sites?|invocations?|subclasses)"
_KIND = (
    r"(?:the )?(?:(?:function|method|class|struct|type|macro|constant|symbol|interface|trait) )?"
)
_NAME = r"`?(?P<name>[A-Za-z_$][\w$]*+(?:(?:\.|::|->|#)[\w$]++)*+[?!]?)(?:\(\))?`?"
_FORMS = tuple(
    re.compile(rf"(?:(?:find|show|list|get) )?{form}[ ?.]*", re.IGNORECASE)
    for form in (
        rf"(?:who|what|which (?:code|files?|functions?|classes)) {_VERB}(?: from)? {_KIND}{_NAME}",
        rf"(?:where|by whom|by what) (?:is|are) {_KIND}{_NAME} {_PAST}",
        rf"(?:all )?(?:the )?{_NOUN} (?:of|to) {_KIND}{_NAME}",
        rf"(?:all )?{_NAME} {_NOUN}",
    )
)


def used(text: str) -> str:
    """Return the name whose users the query asks for, joined by dots; empty if there is none."""
    asked = " ".join(text.split()) if len(text) <= MAX_CHARS else ""
    found = next(filter(None, (form.fullmatch(asked) for form in _FORMS)), None)
    return dotted(found["name"].rstrip("?")) if found else ""
