"""Which schema and embedder a folder was written with.

The signature is a small file rather than a row in the database, so that a mismatch is found when a
side is constructed, before any engine starts, and by a reader that comes before the first writer.
"""

from __future__ import annotations

import json
from pathlib import Path

from codelode.errors import Corrupt, SchemaMismatch

#: Grows with every change of the tables or of how their text is made.
SCHEMA_VERSION = 2

IDENTITY_FILE = "identity.json"


def sign(folder: Path, *, dim: int, identity: str) -> None:
    """Write the signature: the tables are complete, readers may come."""
    draft = folder / f"{IDENTITY_FILE}.draft"
    draft.write_text(json.dumps(_identity(dim, identity)), encoding="utf-8")
    draft.replace(folder / IDENTITY_FILE)


def check(folder: Path, *, dim: int, identity: str) -> bool:
    """Whether there is an index; raises SchemaMismatch when it is not of this identity."""
    try:
        found = json.loads((folder / IDENTITY_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return False
    except ValueError as exc:
        raise Corrupt(
            f"{folder / IDENTITY_FILE} is damaged: remove {folder} and index again"
        ) from exc
    wanted = _identity(dim, identity)
    if found != wanted:
        raise SchemaMismatch(
            f"{folder} was written with {_phrase(found)}, this is {_phrase(wanted)}: "
            f"remove {folder} and index again, or set CODELODE_EMBEDDER back"
        )
    return True


def _identity(dim: int, identity: str) -> dict[str, object]:
    return {"schema": SCHEMA_VERSION, "embedder": identity, "dim": dim}


def _phrase(identity: object) -> str:
    if not isinstance(identity, dict):
        return repr(identity)
    return ", ".join(f"{key} {value}" for key, value in identity.items())
