"""Decide whether a definition can be used from outside its file, by rules of its language.

A rule sees the definition's name, signature, node type, and the kind of its parent. Everything
inside a private definition is private, whatever the rule returns. `language_rules` lists the rule
of each language.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from codelode.model import Kind

_PRIVATE = re.compile(r"\b(?:private|fileprivate)\b")
_NOT_PUBLIC = re.compile(r"\b(?:private|protected|internal)\b")
_PUBLIC = re.compile(r"\bpublic\b")
_INTERNAL = re.compile(r"\b(?:private|internal)\b")
_JS_MEMBERS = frozenset(
    {"method_definition", "method_signature", "abstract_method_signature", "pair"}
    | {"field_definition", "public_field_definition"}
)


class Declared(NamedTuple):
    """The facts about a definition that a rule may read."""

    name: str
    signature: str
    node_type: str
    parent: Kind | None

    @property
    def head(self) -> str:
        """Return the signature up to its parameters."""
        return self.signature.split("(", 1)[0]


ExportRule = Callable[[Declared], bool]


def no_leading_underscore(declared: Declared) -> bool:
    """Return whether the name has no leading underscore, or is a special one: `__init__`."""
    return not declared.name.startswith("_") or declared.name.endswith("__")


def no_leading_dot(declared: Declared) -> bool:
    """Return whether the name has no leading dot."""
    return not declared.name.startswith(".")


def capital(declared: Declared) -> bool:
    """Return whether the name begins with a capital."""
    return declared.name[:1].isupper()


def star(declared: Declared) -> bool:
    """Return whether a star follows the name: `proc load*(…)`."""
    return "*" in declared.head


def pub(declared: Declared) -> bool:
    """Return whether the definition is `pub`, a member of a trait, or a macro."""
    return declared.parent is Kind.TRAIT or declared.signature.startswith(("pub", "macro_rules!"))


def pub_or_export(declared: Declared) -> bool:
    """Return whether the definition begins with `pub` or `export`."""
    return declared.signature.startswith(("pub ", "export "))


def export_statement(declared: Declared) -> bool:
    """Return whether a JavaScript definition is exported, or is a member that is not private."""
    if declared.node_type in _JS_MEMBERS:
        return not (declared.name.startswith("#") or _PRIVATE.search(declared.head))
    return declared.signature.startswith("export") or "exports." in declared.signature


def public(declared: Declared) -> bool:
    """Return whether the definition is `public` or a member of an interface."""
    return declared.parent is Kind.INTERFACE or bool(_PUBLIC.search(declared.head))


def not_static(declared: Declared) -> bool:
    """Return whether a top-level definition of C is not `static`."""
    return declared.parent is not None or not declared.signature.startswith("static ")


def not_restricted(declared: Declared) -> bool:
    """Return whether the definition is neither `private`, `protected`, nor `internal`."""
    return not _NOT_PUBLIC.search(declared.head)


def not_private(declared: Declared) -> bool:
    """Return whether the definition is neither `private` nor `fileprivate`."""
    return not _PRIVATE.search(declared.head)


def not_internal(declared: Declared) -> bool:
    """Return whether the signature has no `private` or `internal`, even after the parameters."""
    return not _INTERNAL.search(declared.signature)


def not_local(declared: Declared) -> bool:
    """Return whether the definition is not `local`."""
    return not declared.signature.startswith("local ")


def not_defp(declared: Declared) -> bool:
    """Return whether the definition is not one of Elixir's private forms."""
    return not declared.signature.startswith(("defp ", "defmacrop ", "defguardp ", "@typep"))


def not_defn_(declared: Declared) -> bool:
    """Return whether the definition is not Clojure's `defn-`."""
    return not declared.signature.startswith("(defn- ")


def not_function(declared: Declared) -> bool:
    """Return whether it is not a function: in Erlang, only the export list exports functions."""
    return declared.node_type != "fun_decl"
