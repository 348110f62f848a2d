"""Words of questions that say nothing about the code that answers them.

Some are code too (`for`, `not`): the list affects only what is ranked and highlighted, not the
search of the index.
"""

_WORDS = """
a an and any are as at be been but by can could did do does doing done each for from had has have
how i if in inside into is it its let me my of on onto one or our out over per should so some such
than that the their them then there these they this those through to up upon use used uses using
was we were what when where whether which while who why will with within without would you your
"""

STOPWORDS = frozenset(_WORDS.split())
