"""Stop words: words of questions that say nothing about the code that answers them.

Some are code too (`for`, `not`): the list affects only what is ranked and highlighted, not the
search of the index.
"""

from __future__ import annotations

from collections.abc import Collection

_WORDS = """
a an and any are as at be been but by can could did do does doing done each for from had has have
how i if in inside into is it its let me my of on onto one or our out over per should so some such
than that the their them then there these they this those through to up upon use used uses using
was we were what when where whether which while who why will with within without would you your
"""

STOPWORDS = frozenset(_WORDS.split())

#: Stop words of other languages, except those that are common words of English: articles, pronouns,
#: prepositions, question words, forms of "to be".
_OTHERS = {
    "de": """
    aber als am an auf aus bei bis das dass dem den der des die durch ein eine einem einen einer
    es für hat im in ist kann man mit nach nicht oder sich sie sind um und unter vom von vor wann
    warum was welche welcher welches wenn wer werden wie wir wird wo wofür wurde zu zum zur über
    """,
    "es": """
    al como con cual cuando cuál cuándo cómo de del donde dónde el en es esta este está están ha
    hay la las lo los más para pero por porque que quién qué se según si sin sobre son su sus un
    una
    """,
    "fr": """
    au aux avec ce ces cette comment dans de des du elle en est et il ils la le les leur mais ne
    ou où par pas pour pourquoi qu quand que quel quelle quels qui sa se ses si son sont sur un
    une
    """,
    "it": """
    al alla che chi con cosa da dal dalla dei del della delle di dove gli ha il in la le lo nel
    nella per perché più quale quando questo si sono su un una uno viene
    """,
    "nl": """
    aan als bij dat de deze die dit door een en er het hij hoe in is kan naar niet of om onder op
    te tot uit van voor waar waarom wanneer wat welke wie worden wordt zijn
    """,
    "pt": """
    ao aos as como da das de do dos ela ele em esta este está foi há mais na nas nos não onde os
    ou para pela pelo por porque qual quando que quem se sem seu sua são um uma
    """,
}
_OF_OTHERS = [frozenset(words.split()) for words in _OTHERS.values()]

#: Minimum number of different words that identify a language; one may be a name (`die`, `los`).
_FEWEST = 2


def stopwords(terms: Collection[str]) -> frozenset[str]:
    """Return the stop words that apply to a text of these terms, by its language.

    These are the English ones. Those of the other language with most stop words among the terms are
    added if the terms have at least as many of them as English ones, and at least _FEWEST.
    """
    english, rest = STOPWORDS.intersection(terms), set(terms) - STOPWORDS
    best = max(_OF_OTHERS, key=lambda words: len(words & rest))
    is_other = len(best & rest) >= max(_FEWEST, len(english))
    return STOPWORDS | best if is_other else STOPWORDS
