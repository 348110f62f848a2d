"""Find text exactly: a pattern and the text of a file in, the matching lines out.

`needs` says which trigrams a file must have, so that only few files are read; `pattern` compiles
the pattern with RE2, whose time is linear in the text; `matching` finds the lines. An invalid
pattern raises InvalidQuery.
"""
