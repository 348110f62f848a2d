"""From an import to the files or packages that it means, by the rules of its language."""

from __future__ import annotations

from codelode.model import Import
from workers.parse.ecosystems import dependencies
from workers.parse.ecosystems.layout import Layout
from workers.parse.ecosystems.resolution import EXTERNAL, Resolved
from workers.parse.imports.statements import is_sound
from workers.parse.language_table import rules_of


def resolve(imp: Import, *, path: str, language: str, layout: Layout) -> Resolved:
    """Return the files that an import of the file at `path` means, possibly that file itself."""
    resolver = dependencies.resolve if _is_dependency(imp) else rules_of(language).resolve
    if resolver is None or not is_sound(imp):
        return EXTERNAL
    return resolver(imp, path, layout)


def packages(imp: Import, *, language: str) -> tuple[str, ...]:
    """Return the keys of the packages that an external import may come from."""
    keys = dependencies.packages if _is_dependency(imp) else rules_of(language).packages
    return tuple(keys(imp)) if keys else ()


def _is_dependency(imp: Import) -> bool:
    return imp.names[:1] == (dependencies.KIND,)
