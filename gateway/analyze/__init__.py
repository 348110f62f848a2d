"""Query text → its kind, words and identifiers. Pure; never fails: any text is a query.

The kind is told by form alone, because a wrong guess only shifts weights between the two sides
of the index: one token is an identifier (so is `class Foo`), punctuation that prose does not
have makes code, the rest is natural language.
"""

from __future__ import annotations

import re

from codelode import tokens
from gateway.analyze.read import read
from gateway.analyze.stopwords import STOPWORDS
from gateway.state import Analysis, Backends, QueryKind, SearchState

_DEFINING_WORDS = """
class struct enum interface trait type def func function fn fun impl module namespace object
protocol macro const var let val package
"""

#: Words that introduce a name in some language: `class Foo` asks for Foo.
DEFINING = frozenset(_DEFINING_WORDS.split())

#: One token of names joined by the separators of the languages: `absl::StrCat`, `Client.get()`,
#: `$this->run`, `@app.route`, `Foo#bar`, `serde::de::Visitor<'de>`, `kebab-case`.
_NAME = re.compile(r"[@$&*#.:]{0,2}\w+(?:(?:::|->|[.#:/\\-])\w+)*(?:\(\)|[!?])?[;,]?")

#: What prose does not hold and code does: blocks, statements' ends, arrows, calls with arguments,
#: comparisons, assignments, comments, decorators.
_CODE = re.compile(
    r"[{};]\s*$|^\s*[{}#@]|[{}]|=>|->\s|==|!=|:=|&&|\|\||\w\([^)\s]|\)\s*:|\w\[\w*\]|//|/\*"
    r"|^\s*(?:import|from|return|def|func|fn|if|for|while)\b.*[:({=]|\s=\s",
    re.MULTILINE,
)

#: Words of a pasted snippet that the ranker compares, each with every candidate.
MAX_WORDS = 64

#: One code mark may be a slip of prose ("a => b mapping"); snippets have more or several lines.
_CODE_MARKS = 2

_EDGES = "\"'`()[]{}<>,;?!*"


async def analyze(state: SearchState, backends: Backends) -> SearchState:
    """Adds the analysis of the query, and what the options make of it."""
    return await read(state, backends, analysis=analysis)


def analysis(text: str) -> Analysis:
    """Kind, words and identifiers of a query.

    `"how does parse_args work"` → natural language, words `parse args parseargs work`,
    identifiers `parse_args`.
    """
    return Analysis(kind=kind(text), words=words(text), identifiers=identifiers(text))


def kind(text: str) -> QueryKind:
    """How the query is written."""
    parts = text.split()
    if len(parts) == 2 and parts[0].lower() in DEFINING:
        parts = parts[1:]
    if len(parts) == 1 and _NAME.fullmatch(parts[0]):
        return QueryKind.IDENTIFIER
    if len(_CODE.findall(text)) >= _CODE_MARKS:
        return QueryKind.CODE
    return QueryKind.NATURAL_LANGUAGE


def words(text: str) -> tuple[str, ...]:
    """The first distinct index terms that carry meaning; those without, when none does."""
    terms = tuple(dict.fromkeys(tokens.terms(text)))
    meaningful = tuple(term for term in terms if term not in STOPWORDS)
    return (meaningful or terms)[:MAX_WORDS]


def identifiers(text: str) -> tuple[str, ...]:
    """The tokens written like code, as written and distinct, in order.

    A token counts when it joins names or has a capital inside; of a query that is one token,
    that token.
    """
    found = [part.strip(_EDGES).rstrip(".:") for part in text.split()]
    alone = kind(text) is QueryKind.IDENTIFIER
    names = found[-1:] if alone else [part for part in found if _is_name_like(part)]
    return tuple(dict.fromkeys(name for name in names if name))


def _is_name_like(token: str) -> bool:
    if not _NAME.fullmatch(token) or token.isdigit():
        return False
    parts = [part for part in re.split(r"[^\w]+", token) if part]
    joined = len(parts) > 1 and re.search(r"::|->|\.\w|#\w", token) is not None
    return joined or any("_" in part.strip("_") or _has_inner_capital(part) for part in parts)


def _has_inner_capital(part: str) -> bool:
    """`getUser` and `HTTPServer` do, `Server` and `HTTP` do not."""
    return bool(re.search(r"[a-z0-9][A-Z]|[A-Z]{2,}[a-z]{2}", part))
