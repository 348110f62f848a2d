"""Extract the words that two queries must have in common to share a cached answer.

Queries that differ in one name, one number, or one `not` have vectors that are close together, even
if their meanings are opposite. With the built-in embedder, "string to int" and "int to string" have
a cosine of 1, because it ignores word order, and questions that differ in "ascending" and
"descending" have .97, while paraphrases seldom exceed .94. All words except function words (`how`,
`the`) must therefore be equal and in the same order. A cache miss costs milliseconds, whereas the
answer to another question costs the user's trust.
"""

from __future__ import annotations

import re

from codelode import languages, tokens
from gateway.analyze.intent import entities

_NEGATION = re.compile(
    r"\b(?:not|no|never|none|neither|nor|without|except|excluding|but|cannot)\b|(?<!\w)\w++(?<=\wn)['’]t\b",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"\"[^\"\n]+\"|`[^`\n]+`|(?<!\w)'[^'\n]+'(?!\w)")
_NUMBERED = re.compile(r"(?<!\w)(?=[^\W\d]*+\d)\w++")
_WORD = re.compile(r"[\w+#]+")

_WORDS = """
a an the how what where when which who why is are was were be been do does did can could should
would will i we you my our your me please find show
"""

#: Words without a meaning of their own. `to`, `from`, and `in` tell a direction, so they stay out.
FUNCTION_WORDS = frozenset(_WORDS.split())
_ASKING = re.compile(r"\b(?:how|where|what|when)\s+to\b", re.IGNORECASE)


def literals(text: str) -> tuple[str, ...]:
    """Return quoted texts, names, numbers, negations, and languages, sorted; then other words."""
    found = [entity.text for entity in entities(text)]
    found += (match.group().lower() for match in _NEGATION.finditer(text))
    found += (match.group() for match in _QUOTED.finditer(text))
    found += (match.group() for match in _NUMBERED.finditer(text))
    found += (word.lower() for word in _WORD.findall(text) if languages.resolve(word))
    return (*sorted(found), *_content_words(text))


def _content_words(text: str) -> list[str]:
    """Return the words that carry meaning, in order: `how do I retry a call?` → retry call."""
    return [term for term in tokens.terms(_ASKING.sub("", text)) if term not in FUNCTION_WORDS]
