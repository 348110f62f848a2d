"""What to do with an index that cannot be used, for the errors that say so."""

#: When it is of another embedder.
EMBEDDER = (
    "set CODELODE_EMBEDDER back and change it with `codelode reindex`, which builds the new index "
    "while searches go on"
)

#: When it is gone or out of the way: `codelode index` takes for indexed what the ledger says.
AFRESH = "`codelode doctor --repair` indexes again what was in it"
