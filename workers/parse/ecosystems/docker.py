"""Read the images that the stages of Dockerfiles are built from."""

from __future__ import annotations

import re
from collections.abc import Iterator

from codelode.model import Import
from workers.parse.ecosystems.manifests import image
from workers.parse.ecosystems.statement import References

_INSTRUCTION = re.compile(
    r"^[^\S\n]*+(?:FROM\s++(?:--\S++\s++)*+(\S++)(?:\s++AS\s++(\S++))?|COPY\s++--from=(\S++))",
    re.MULTILINE | re.IGNORECASE,
)


def references(text: str) -> References:
    """Read the images of `FROM` and `COPY --from`, without stages of the file itself."""
    stages: set[str] = set()
    for found in _INSTRUCTION.finditer(text):
        named = found.group(1) or found.group(3)
        if named.lower() not in stages and not named.isdecimal() and named != "scratch":
            yield found.start(), named, "image"
        if found.group(2):
            stages.add(found.group(2).lower())


def packages(imp: Import) -> Iterator[str]:
    """Yield the image, unless a variable stands for it."""
    if "$" not in imp.module:
        yield f"image:{image(imp.module)}"
