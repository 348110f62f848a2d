"""Whether a definition can be used from outside its file: each language's own rule.

A rule sees the definition's name, signature, node type and the kind of its parent; what is inside
a private definition is private whatever the rule says. Languages without a rule export all.
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
    """What a rule may look at."""

    name: str
    signature: str
    node_type: str
    parent: Kind | None

    @property
    def head(self) -> str:
        """The signature up to its parameters."""
        return self.signature.split("(", 1)[0]


def is_exported(language: str, declared: Declared) -> bool:
    """Whether other files can name it, as far as its own lines tell."""
    rule = _RULES.get(language)
    return rule is None or rule(declared)


def _no_underscore(declared: Declared) -> bool:
    return not declared.name.startswith("_") or declared.name.endswith("__")


def _capital(declared: Declared) -> bool:
    return declared.name[:1].isupper()


def _rust(declared: Declared) -> bool:
    return declared.parent is Kind.TRAIT or declared.signature.startswith(("pub", "macro_rules!"))


def _zig(declared: Declared) -> bool:
    return declared.signature.startswith(("pub ", "export "))


def _javascript(declared: Declared) -> bool:
    if declared.node_type in _JS_MEMBERS:
        return not (declared.name.startswith("#") or _PRIVATE.search(declared.head))
    return declared.signature.startswith("export") or "exports." in declared.signature


def _public(declared: Declared) -> bool:
    return declared.parent is Kind.INTERFACE or bool(_PUBLIC.search(declared.head))


def _not_static(declared: Declared) -> bool:
    return declared.parent is not None or not declared.signature.startswith("static ")


def _unless_private(declared: Declared) -> bool:
    return not _NOT_PUBLIC.search(declared.head)


def _swift(declared: Declared) -> bool:
    return not _PRIVATE.search(declared.head)


def _elixir(declared: Declared) -> bool:
    return not declared.signature.startswith(("defp ", "defmacrop ", "defguardp ", "@typep"))


def _solidity(declared: Declared) -> bool:
    return not _INTERNAL.search(declared.signature)


def _nim(declared: Declared) -> bool:
    return "*" in declared.head


def _listed(declared: Declared) -> bool:
    """Only what the file's export list names, which has been asked before."""
    return declared.node_type != "fun_decl"


def _clojure(declared: Declared) -> bool:
    return not declared.signature.startswith("(defn- ")


def _no_dot(declared: Declared) -> bool:
    return not declared.name.startswith(".")


def _lua(declared: Declared) -> bool:
    return not declared.signature.startswith("local ")


_RULES: dict[str, Callable[[Declared], bool]] = {
    "python": _no_underscore,
    "ruby": _no_underscore,
    "dart": _no_underscore,
    "go": _capital,
    "rust": _rust,
    "zig": _zig,
    "javascript": _javascript,
    "typescript": _javascript,
    "tsx": _javascript,
    "java": _public,
    "csharp": _public,
    "c": _not_static,
    "cpp": _not_static,
    "php": _unless_private,
    "kotlin": _unless_private,
    "scala": _unless_private,
    "swift": _swift,
    "elixir": _elixir,
    "lua": _lua,
    "luau": _lua,
    "perl": _no_underscore,
    "starlark": _no_underscore,
    "gdscript": _no_underscore,
    "r": _no_dot,
    "solidity": _solidity,
    "apex": _public,
    "d": _swift,
    "nim": _nim,
    "erlang": _listed,
    "clojure": _clojure,
    "gleam": _rust,
}
