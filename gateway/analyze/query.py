"""Classify a query and extract its words and identifiers. Pure. Any text is a valid query.

The form alone decides the kind, because a wrong guess only shifts weights between keyword and
vector results. A single token is an identifier, and so is `class Foo`. A query with punctuation of
code is code. Everything else is natural language.
"""

from __future__ import annotations

import re

from codelode import tokens
from codelode.model import Kind
from codelode.stopwords import stopwords
from gateway.state import Analysis, QueryKind

_DEFINING_WORDS = """
class struct enum interface trait type def func function fn fun impl module namespace object
protocol macro const var let val package
"""

#: Words that introduce a name in some language: `class Foo` asks for Foo.
DEFINING = frozenset(_DEFINING_WORDS.split())

_TYPES = frozenset({Kind.CLASS, Kind.STRUCT, Kind.INTERFACE, Kind.TRAIT, Kind.ENUM, Kind.TYPE})
_FUNCTIONS = frozenset({Kind.FUNCTION, Kind.METHOD, Kind.MACRO})

#: The kinds of definitions that a defining word asks for; other words ask for any kind.
_KINDS = {
    **dict.fromkeys(("class", "struct", "enum", "interface", "trait", "type", "protocol"), _TYPES),
    **dict.fromkeys(("def", "func", "function", "fn", "fun"), _FUNCTIONS),
}

#: Matches one token of names that are joined by the separators of some language: `absl::StrCat`,
#: `Client.get()`, `$this->run`, `@app.route`, `Foo#bar`, `serde::de::Visitor<'de>`, `kebab-case`.
_NAME = re.compile(r"[@$&*#.:]{0,2}\w+(?:(?:::|->|[.#:/\\-])\w+)*(?:\(\)|[!?])?[;,]?")

_WORD = re.compile(r"\w+")
_JOINED = re.compile(r"::|->|\.\w|#\w")
#: Matches an inner capital that starts a word: in `getUser`, `HTTPServer`, not in `HTTP`.
_INNER_CAPITAL = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]{2}")

#: Matches marks of code that prose does not have: blocks, ends of statements, arrows, calls with
#: arguments, comparisons, assignments, comments, decorators.
_CODE = re.compile(
    r"[{};][^\S\n]*+$|^[^\S\n]*+[{}#@]|[{}]|=>|->\s|==|!=|:=|&&|\|\||\w\([^)\s]|\)\s*:|\w\[\w*+\]|//|/\*"
    r"|^[^\S\n]*+(?:import|from|return|def|func|fn|if|for|while)\b.*[:({=]|\s=\s",
    re.MULTILINE,
)

#: Matches a key, whose parts may be joined by signs that names do not have: `--gather-outputs`,
#: `server.port`.
_KEY = re.compile(r"-{0,2}\w+(?:[-.:/]\w+)*+")

#: Matches a mark that joins the parts of a key.
_KEY_JOINT = re.compile(r"[-._:]")

#: Minimum length of a key in capital letters without such a mark: `EDITOR`.
VARIABLE_CHARS = 5

#: Matches a message of two words.
_SHORT_MESSAGE = re.compile(r"[A-Za-z][\w'-]* [\w'-]{2,}")

#: Matches a URL path, perhaps after a method or with its host and parameters:
#: `GET https://host/users/123?page=2`.
_URL_PATH = re.compile(
    r"(?:(?P<method>[A-Z]{3,7})\s++)?(?:https?://[\w.:-]++)?(?P<path>(?:/[\w.~%@+-]++)++)/?(?:[?#]\S*+)?"
)

#: Quotation marks that may have been copied with a message.
_QUOTES = "\"'`"

#: Minimum number of words, and maximum number of characters, of a text that is searched verbatim.
VERBATIM_WORDS = 3
MAX_VERBATIM_CHARS = 2_000

#: Matches the beginning of a commit subject: `fix the retry`, `docs: …`, `http: avoid …`,
#: `feat(client)!: …`.
#: Words that also begin a question for existing code ("add", "set", "use") are not among them.
_CHANGE = re.compile(
    r"(?:[\w,./-]++(?:\([^()\n]*+\))?!?: )?"
    r"(?:fix|fixe[sd]|bugfix|feat|docs?|chore|refactor|perf|style|bump|deprecate|avoid|ensure"
    r"|prevent|don't|rename|cleanup|clean|improve|simplify|optimi[sz]e|correct)\b",
    re.IGNORECASE,
)

#: Matches the beginning of a question. It occurs in none of 1,860 commit subjects.
_QUESTION = re.compile(
    r"(?:how|where|what|why|which|when|who|does|is|are|can)\b(?=\s)", re.IGNORECASE
)

#: Matches the beginning of a question about how something works, which no single place answers.
_HOW = re.compile(r"how\s", re.IGNORECASE)

#: Matches the beginning of a question for the place where a value is set or may be changed.
_WHERE_SET = re.compile(
    r"where\s(?=[^\n]*\b(?:config\w*|set|settings?|defaults?|options?)\b)", re.IGNORECASE
)

#: Matches signs of a message that a program wrote: values, quotes, numbers, and ends of sentences.
_OF_MESSAGE = re.compile(r"""[:'"(){}\[\]<>=!`%\d]|\.(?!\S)""")
#: Minimum and maximum number of words of a message whose parts are searched verbatim.
MESSAGE_WORDS = (4, 60)

#: Minimum length of a line of a snippet that is looked for, and maximum number of such lines.
LINE_CHARS = 4
MAX_LINES = 40

#: Maximum number of words of a query that the ranker compares with candidates. A pasted snippet may
#: have more.
MAX_WORDS = 64

#: Minimum number of `_CODE` marks in a query that is code; one may occur in prose ("a => b map").
_CODE_MARKS = 2

_EDGES = "\"'`()[]{}<>,;?!*"


def analysis(text: str) -> Analysis:
    """Return the kind, words, and identifiers of a query, and signs of its purpose.

    `"how does parse_args work"` → natural language, words `parse args parseargs work`,
    identifiers `parse_args`.
    """
    return Analysis(
        kind=kind(text),
        words=words(text),
        identifiers=identifiers(text),
        kinds=kinds(text),
        verbatim=verbatim(text),
        key=key(text),
        url_path=url_path(text),
        url_method=url_method(text),
        lines=lines(text),
        message=message(text),
        is_change=_CHANGE.match(text.lstrip()) is not None,
        is_question=_QUESTION.match(text.lstrip()) is not None,
        asks_how=_HOW.match(text.lstrip()) is not None,
        asks_where_set=_WHERE_SET.match(text.lstrip()) is not None,
    )


def verbatim(text: str) -> str:
    """Return the text to search verbatim: a message, a line of code, or a key.

    Empty for one or two words, which may occur anywhere: `"'Connection refused by peer'"` →
    `Connection refused by peer`, `--gather-outputs` → itself, `parse_args` → empty.
    """
    stripped = text.strip().strip(_QUOTES).strip()
    if len(stripped) > MAX_VERBATIM_CHARS:
        return ""
    count = len(stripped.split(maxsplit=VERBATIM_WORDS))
    is_key = _KEY.fullmatch(stripped) is not None and not stripped.isidentifier()
    is_prose = count >= VERBATIM_WORDS or tokens.is_unspaced_prose(stripped)
    return stripped if is_key or is_prose else ""


def key(text: str) -> str:
    """Return the key that the text is, without a colon before it; empty if it is none.

    It may be a flag, an option, or a variable of the environment: `--dry-run`, `server.port`,
    `maxBodySize`, `:body_limit` → `body_limit`, `EDITOR`, but not `retry` or `src/app.py`. Code
    has a message of two words in quotes as well, so it counts as a key: `Broken pipe`.
    """
    asked = text.strip().strip(_QUOTES)
    if _SHORT_MESSAGE.fullmatch(asked) and not _is_identifier(asked):
        return asked
    found = asked.removeprefix(":")
    if "/" in found or _KEY.fullmatch(found) is None:
        return ""
    is_variable = found.isupper() and len(found) >= VARIABLE_CHARS
    is_joined = _KEY_JOINT.search(found) or _INNER_CAPITAL.search(found)
    return found if asked != found or is_variable or is_joined else ""


def url_path(text: str) -> tuple[str, ...]:
    """Return the parts of the URL path that the text is: `GET /users/123` → `users`, `123`."""
    found = _url(text)
    return tuple(found["path"].split("/")[1:]) if found else ()


def url_method(text: str) -> str:
    """Return the method of the request that the text is: `GET /users/123` → `GET`."""
    found = _url(text)
    return (found["method"] or "") if found else ""


def _url(text: str) -> re.Match[str] | None:
    return _URL_PATH.fullmatch(text.strip().strip(_QUOTES))


def lines(text: str) -> tuple[str, ...]:
    """Return the lines of a pasted snippet without indentation; empty if it has only one."""
    stripped = (line.strip() for line in text.splitlines())
    found = tuple(line for line in stripped if len(line) >= LINE_CHARS)
    return found[:MAX_LINES] if len(found) > 1 else ()


def message(text: str) -> tuple[str, ...]:
    """Return the words of a message, including values; empty if the query does not look like one.

    `Cannot connect to 10.0.0.1:80` → `Cannot`, `connect`, `to`, `10.0.0.1:80`.
    """
    found = tuple(text.split())
    fewest, most = MESSAGE_WORDS
    return found if fewest <= len(found) <= most and _OF_MESSAGE.search(text) else ()


def kind(text: str) -> QueryKind:
    """Return the kind of the query."""
    if _is_identifier(text):
        return QueryKind.IDENTIFIER
    if len(_CODE.findall(text)) >= _CODE_MARKS:
        return QueryKind.CODE
    return QueryKind.NATURAL_LANGUAGE


def _is_identifier(text: str) -> bool:
    """Return whether the text is one name, perhaps after a word that introduces it."""
    parts = text.split(maxsplit=2)
    if len(parts) == 2 and parts[0].lower() in DEFINING:
        parts = parts[1:]
    is_name = len(parts) == 1 and _NAME.fullmatch(parts[0]) is not None
    return is_name and not tokens.is_unspaced_prose(parts[0])


def kinds(text: str) -> frozenset[Kind]:
    """Return the kinds that a defining word before a name asks for: `class Foo` → types."""
    first, *others = text.lower().split() or [""]
    return _KINDS.get(first, frozenset()) if len(others) == 1 else frozenset()


def words(text: str) -> tuple[str, ...]:
    """Return up to MAX_WORDS distinct index terms, without stop words unless all are such."""
    terms = tuple(dict.fromkeys(tokens.terms(text)))
    ignored = stopwords(terms)
    meaningful = tuple(term for term in terms if term not in ignored)
    return (meaningful or terms)[:MAX_WORDS]


def identifiers(text: str) -> tuple[str, ...]:
    """Return the distinct tokens that are written like code, as written, in order.

    Such a token joins several names or has an inner capital letter. A query of one token is
    returned as it is.
    """
    found = dict.fromkeys(part.strip(_EDGES).rstrip(".:") for part in text.split())
    names = list(found)[-1:] if _is_identifier(text) else filter(_is_name_like, found)
    return tuple(name for name in names if name)


def _is_name_like(token: str) -> bool:
    if not _NAME.fullmatch(token) or token.isdigit():
        return False
    parts = _WORD.findall(token)
    joined = len(parts) > 1 and _JOINED.search(token) is not None
    return joined or any("_" in part.strip("_") or _INNER_CAPITAL.search(part) for part in parts)
