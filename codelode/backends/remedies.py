"""Remedies for an index that cannot be used, as parts of error messages."""

#: For an index that another embedder wrote.
EMBEDDER = (
    "set CODELODE_EMBEDDER back and change it with `codelode reindex`, which builds the new index "
    "while searches go on"
)

#: For an index that is missing or was moved away. `codelode index` alone would not fill a new one:
#: it trusts the ledger about which files are indexed.
AFRESH = "`codelode doctor --repair` indexes again what was in it"
