"""What two queries must share to the letter to have one answer, however near their vectors are.

Vectors of queries that differ in one name, one number or one `not` are close together.
"""

from __future__ import annotations

import re

from codelode import languages
from gateway.analyze.intent import entities

_NEGATION = re.compile(
    r"\b(?:not|no|never|none|neither|nor|without|except|excluding|but|cannot)\b|\w+n['’]t\b",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"\"[^\"\n]+\"|`[^`\n]+`|(?<!\w)'[^'\n]+'(?!\w)")
_NUMBERED = re.compile(r"\w*\d\w*")
_WORD = re.compile(r"[\w+#]+")


def literals(text: str) -> tuple[str, ...]:
    """Quoted texts, names, numbers, negations and languages of a query, sorted."""
    found = [entity.text for entity in entities(text)]
    found += (match.group().lower() for match in _NEGATION.finditer(text))
    found += (match.group() for match in _QUOTED.finditer(text))
    found += (match.group() for match in _NUMBERED.finditer(text))
    found += (word.lower() for word in _WORD.findall(text) if languages.resolve(word))
    return tuple(sorted(found))
