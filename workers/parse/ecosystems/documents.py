"""Parse untrusted XML and YAML.

Nothing is expanded. XML with a document type is refused, because it may define entities and default
attributes; namespaces are not resolved, because the parser would copy them for every tag. A YAML
alias becomes the same object as the value that it names. The nesting of YAML is bounded, because
the parser recurses and takes time quadratic in the depth.
"""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree
from xml.parsers import expat

import yaml

#: Maximum nesting of collections in YAML. Deployed files have fewer than 20 levels.
MAX_DEPTH = 100


def xml(text: str) -> ElementTree.Element:
    """Return the root element; the tags in it have no namespaces.

    Raises ValueError if the text is not XML or has a document type.
    """
    builder = ElementTree.TreeBuilder()
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = _refuse_document_type
    parser.StartElementHandler = lambda tag, given: builder.start(_local(tag), given)
    parser.EndElementHandler = lambda tag: builder.end(_local(tag))
    parser.CharacterDataHandler = builder.data
    try:
        parser.Parse(text.lstrip("\ufeff \t\r\n"), True)
    except expat.ExpatError as exc:
        raise ValueError(str(exc)) from exc
    return builder.close()


def _refuse_document_type(*_: object) -> None:
    raise ValueError("the document has a document type")


def _local(tag: str) -> str:
    return tag.rpartition(":")[2]


def word(element: ElementTree.Element, path: str) -> str:
    """Return the text of the first element at a path if it is a single word, else empty."""
    found = element.findtext(path, "").split()
    return found[0] if len(found) == 1 else ""


def yaml_document(text: str) -> Any:
    """Return the first document as mappings, lists, and texts; every scalar is a text.

    Raises ValueError if the text is not YAML or is nested too deeply.
    """
    try:
        _check_depth(text)
        return next(yaml.load_all(text, Loader=yaml.CBaseLoader), None)
    except yaml.YAMLError as exc:
        raise ValueError(str(exc)) from exc


def _check_depth(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CBaseLoader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise ValueError(f"collections are nested more than {MAX_DEPTH} levels deep")
