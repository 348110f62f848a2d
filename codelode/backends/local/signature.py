"""Which schema and embedder a folder was written with.

The signature is a small file rather than a row in the database, so that a mismatch is found when a
side is constructed, before any engine starts, and by a reader that comes before the first writer.
"""

from __future__ import annotations

import json
from pathlib import Path

from codelode.backends.bound import Made
from codelode.backends.local import pointer
from codelode.backends.remedies import AFRESH, EMBEDDER
from codelode.errors import Corrupt, SchemaMismatch

#: Grows with every change of the tables or of how their text is made.
SCHEMA_VERSION = 4

IDENTITY_FILE = "identity.json"


def sign(folder: Path, *, dim: int, identity: str) -> None:
    """Write the signature: the tables are complete, readers may come."""
    draft = folder / f"{IDENTITY_FILE}.draft"
    draft.write_text(json.dumps(_identity(dim, identity)), encoding="utf-8")
    draft.replace(folder / IDENTITY_FILE)


def check(folder: Path, *, dim: int, identity: str) -> bool:
    """Whether there is an index.

    Raises SchemaMismatch when it is not of this identity, Superseded when another was published.
    """
    pointer.require_current(folder)
    found = read(folder)
    if found is None:
        return False
    wanted = _identity(dim, identity)
    if found != wanted:
        is_of_schema = found.get("schema") == SCHEMA_VERSION
        remedy = EMBEDDER if is_of_schema else f"remove {folder}, and {AFRESH}"
        raise SchemaMismatch(
            f"{folder} was written with {_phrase(found)}, this is {_phrase(wanted)}: {remedy}"
        )
    return True


def is_signed(folder: Path, *, dim: int, identity: str) -> bool:
    """Whether there is an index of exactly this schema and embedder."""
    return read(folder) == _identity(dim, identity)


def read(folder: Path) -> dict[str, object] | None:
    """Schema, embedder and dimensions of the index in the folder; None: there is none."""
    try:
        found = json.loads((folder / IDENTITY_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as exc:
        raise Corrupt(
            f"{folder / IDENTITY_FILE} is damaged: remove {folder}, and {AFRESH}"
        ) from exc
    return found if isinstance(found, dict) else {"": found}


def made(folder: Path) -> Made | None:
    """What made the vectors; None: there is no index, or it is damaged."""
    try:
        found = read(folder) or {}
    except Corrupt:  # which opening it tells
        return None
    identity, dim = found.get("embedder"), found.get("dim")
    return Made(identity, dim) if isinstance(identity, str) and isinstance(dim, int) else None


def _identity(dim: int, identity: str) -> dict[str, object]:
    return {"schema": SCHEMA_VERSION, "embedder": identity, "dim": dim}


def _phrase(identity: dict[str, object]) -> str:
    return ", ".join(f"{key} {value}" for key, value in identity.items())
