"""Serve the style sheet, the scripts, and the icon.

Their URLs contain a hash of all of them, so browsers keep them until they change, and the scripts
import each other by relative URLs.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

FOLDER = Path(__file__).with_name("static")
TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

FILES = {file.name: file.read_bytes() for file in sorted(FOLDER.iterdir())}
VERSION = hashlib.sha256(repr(FILES).encode()).hexdigest()[:16]

router = APIRouter()


def url(name: str) -> str:
    """Return the URL of a file. Raises KeyError for an unknown name."""
    return f"/static/{VERSION}/{name}" if FILES[name] else ""


@router.get("/static/{version}/{name}", include_in_schema=False)
async def asset(request: Request, version: str, name: str) -> Response:
    if name not in FILES:
        raise HTTPException(404)
    # A page of another version may ask for its files while gateways are being replaced.
    is_current = version == VERSION
    headers = {
        "Cache-Control": "public, max-age=31536000, immutable" if is_current else "no-store",
    }
    return Response(FILES[name], headers=headers, media_type=TYPES[Path(name).suffix])
