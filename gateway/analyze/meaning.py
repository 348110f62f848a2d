"""Extract the words that two queries must share exactly to share a cached answer.

Vectors of queries that differ in one name, one number or one `not` are close together, and so are
those of opposite queries: with the built-in embedder "string to int" and "int to string" have a
cosine of 1, because it ignores order, and "ascending" and "descending" in one question .97, while
the same question in other words seldom passes .94. So all words except those that only make a
sentence must be equal and in the same order. A cache miss costs milliseconds; the answer to another
question costs the trust of the user.
"""

from __future__ import annotations

import re

from codelode import languages, tokens
from gateway.analyze.intent import entities

_NEGATION = re.compile(
    r"\b(?:not|no|never|none|neither|nor|without|except|excluding|but|cannot)\b|\w+n['’]t\b",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"\"[^\"\n]+\"|`[^`\n]+`|(?<!\w)'[^'\n]+'(?!\w)")
_NUMBERED = re.compile(r"\w*\d\w*")
_WORD = re.compile(r"[\w+#]+")

_WORDS = """
a an the how what where when which who why is are was were be been do does did can could should
would will i we you my our your me please find show
"""

#: Words that only make a sentence. Not `to`, `from` and `in`, which give a direction.
SENTENCE = frozenset(_WORDS.split())
_ASKING = re.compile(r"\b(?:how|where|what|when)\s+to\b", re.IGNORECASE)


def literals(text: str) -> tuple[str, ...]:
    """Return quoted texts, names, numbers, negations and languages, sorted, then the words."""
    found = [entity.text for entity in entities(text)]
    found += (match.group().lower() for match in _NEGATION.finditer(text))
    found += (match.group() for match in _QUOTED.finditer(text))
    found += (match.group() for match in _NUMBERED.finditer(text))
    found += (word.lower() for word in _WORD.findall(text) if languages.resolve(word))
    return (*sorted(found), *_telling(text))


def _telling(text: str) -> list[str]:
    """Return the words that carry meaning, in order: `how do I retry a call?` → retry call."""
    return [term for term in tokens.terms(_ASKING.sub("", text)) if term not in SENTENCE]
