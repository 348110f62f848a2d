"""Sign an index folder with the schema and embedder that write it, and check the signature.

The signature is a small file rather than a row in the database, so that a mismatch is found when a
store or search is constructed, before any engine starts, and by a reader that is started before the
first writer.

An index without chunks belongs to no embedder: it may have been signed by a process with wrong
settings. A process with another embedder treats it as missing, and a writer recreates it.
"""

from __future__ import annotations

import json
from contextlib import closing, suppress
from pathlib import Path

from codelode.backends.engine import VectorSpace
from codelode.backends.local import database, published
from codelode.backends.local.errors import translated
from codelode.backends.remedies import AFRESH, EMBEDDER
from codelode.errors import Corrupt, SchemaMismatch, Unavailable
from codelode.files import replace_text

#: Incremented with every change to the tables or to how their text is made.
SCHEMA_VERSION = 7

IDENTITY_FILE = "identity.json"


def sign(folder: Path, *, dim: int, identity: str) -> None:
    """Write the signature, which tells readers that the tables are complete."""
    replace_text(folder / IDENTITY_FILE, json.dumps(_identity(dim, identity)))


def withdraw(folder: Path) -> None:
    """Remove the signature: there is no index until the tables are created again."""
    (folder / IDENTITY_FILE).unlink(missing_ok=True)


def check(folder: Path, *, dim: int, identity: str) -> bool:
    """Return whether there is an index with this signature.

    Raises SchemaMismatch when the index has another signature and chunks, and Superseded when
    another folder was published.
    """
    published.require_current(folder)
    found, wanted = read(folder), _identity(dim, identity)
    if found == wanted:
        return True
    if found is None or _is_empty(folder):
        return False
    is_of_schema = found.get("schema") == SCHEMA_VERSION
    remedy = EMBEDDER if is_of_schema else f"remove {folder}, and {AFRESH}"
    raise SchemaMismatch(
        f"{folder} was written with {_phrase(found)}, this is {_phrase(wanted)}: {remedy}"
    )


def is_signed(folder: Path, *, dim: int, identity: str) -> bool:
    """Return whether there is an index with exactly this schema and embedder."""
    return read(folder) == _identity(dim, identity)


def read(folder: Path) -> dict[str, object] | None:
    """Return the schema, embedder, and dimensions of the index; None: there is no index."""
    try:
        found = json.loads((folder / IDENTITY_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as exc:
        raise Corrupt(
            f"{folder / IDENTITY_FILE} is damaged: remove {folder}, and {AFRESH}"
        ) from exc
    return found if isinstance(found, dict) else {"": found}


def space(folder: Path) -> VectorSpace | None:
    """Return the vector space of the index; None: no vectors, or a damaged signature."""
    try:
        found = read(folder) or {}
    except Corrupt:  # reported when the index is opened
        return None
    with suppress(Corrupt, Unavailable):  # reported when the index is opened
        if _is_empty(folder):
            return None
    identity, dim = found.get("embedder"), found.get("dim")
    if isinstance(identity, str) and isinstance(dim, int):
        return VectorSpace(identity, dim)
    return None


def _is_empty(folder: Path) -> bool:
    """Return whether there are tables, without any chunk."""
    if database.file_number(folder) is None:
        return False
    with (
        translated(folder),
        closing(database.connect(folder, is_writer=False)) as connection,
    ):
        return database.is_empty(connection)


def _identity(dim: int, identity: str) -> dict[str, object]:
    return {"schema": SCHEMA_VERSION, "embedder": identity, "dim": dim}


def _phrase(identity: dict[str, object]) -> str:
    return ", ".join(f"{key} {value}" for key, value in identity.items())
