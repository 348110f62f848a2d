"""Name the fields of a request as the arguments of the tool that sent it."""

from __future__ import annotations

from codelode.errors import CodelodeError, InvalidQuery
from codelode.mcp.arguments import Arguments
from codelode.text.fields import reworded

#: The argument from which a field comes, if no argument has the name of the field.
_ARGUMENTS = {
    "after_lines": "context_lines",
    "before_lines": "context_lines",
    "budget_tokens": "tokens",
    "limit": "top_k",
    "name": "query",
    "page_token": "page",
    "pattern": "query",
}


def in_own_terms(error: CodelodeError, arguments: type[Arguments]) -> CodelodeError:
    """Return the error, with the fields that it names written as arguments of the tool."""
    if not isinstance(error, InvalidQuery):
        return error

    def quoted(field: str) -> str:
        name = _named(field, arguments)
        return f"`{name}`" if name else ""

    field = _named(error.field, arguments) or error.field
    return InvalidQuery(field, reworded(error.message, quoted))


def _named(field: str, arguments: type[Arguments]) -> str:
    """Return the argument of a field; empty: no argument has another name for it.

    `filters.paths` is `paths`. For an option with its own argument, both are named, because either
    may have been given: `tokens (assemble.budget_tokens)`.
    """
    last = field.rpartition(".")[2]
    option = field.removeprefix("options.") if field.startswith("options.") else ""
    for name in (last, _ARGUMENTS.get(last, "")):
        if name in arguments.model_fields:
            return f"{name} ({option})" if option else name
    return ""
