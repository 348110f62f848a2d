"""Change one entry in the text of a JSON file that may have comments.

The text is parsed by tree-sitter, because Python's parser supports neither comments nor positions.
"""

from __future__ import annotations

import json
from typing import Any

from tree_sitter import Node
from tree_sitter_language_pack import get_parser

from codelode.errors import InvalidSettings

LANGUAGE = "JSON"


def read(text: str) -> dict[str, Any]:
    """Return the values in the text. Raises InvalidSettings with the line that is wrong."""
    source = bytearray(text.encode())
    for node in _comments(_root(text)):
        source[node.start_byte : node.end_byte] = b" " * (node.end_byte - node.start_byte)
    try:
        found = json.loads(source.decode() or "{}") if source.strip() else {}
    except ValueError as exc:
        raise InvalidSettings(f"is not valid JSON: {exc}") from exc
    if not isinstance(found, dict):
        raise InvalidSettings("is not a JSON object")
    return found


def with_entry(text: str, section: str, name: str, entry: dict[str, Any]) -> str:
    """Return the text with the entry in the section, which is added if it is missing."""
    if not text.strip():
        return json.dumps({section: {name: entry}}, indent=2) + "\n"
    root = _object(_root(text))
    found = _pairs(root).get(section)
    if found is None:
        return _added(text, root, section, {name: entry})
    inside = _object(found.child_by_field_name("value"))
    old = _pairs(inside).get(name)
    if old is None:
        return _added(text, inside, name, entry)
    pair = f"{json.dumps(name)}: {_lines(text, entry, _line_indent(text, old))}"
    return _spliced(text, (old.start_byte, old.end_byte, pair))


def without_entry(text: str, section: str, name: str) -> str:
    """Return the text without the entry, which is in the section."""
    inside = _object(_pairs(_object(_root(text)))[section].child_by_field_name("value"))
    pair = _pairs(inside)[name]
    start = len(text.encode()[: pair.start_byte].rstrip())
    commas = [one for one in inside.children if one.type == ","]
    after = next((one for one in commas if one.start_byte >= pair.end_byte), None)
    if after is not None:
        return _spliced(text, (start, after.end_byte, ""))
    if commas:
        comma = commas[-1]
        start = max(start, comma.end_byte)
        return _spliced(text, (comma.start_byte, comma.end_byte, ""), (start, pair.end_byte, ""))
    end = pair.end_byte if _comments(inside) else inside.end_byte - 1
    return _spliced(text, (start, end, ""))


def _root(text: str) -> Node:
    root = get_parser("json").parse(text.encode()).root_node
    if root.has_error:
        raise InvalidSettings(f"is not valid JSON: see line {_wrong_line(root)}")
    return root


def _wrong_line(node: Node) -> int:
    wrong = next((child for child in node.children if child.has_error or child.is_missing), None)
    if wrong is None or node.type == "ERROR":
        return node.start_point[0] + 1
    return _wrong_line(wrong)


def _object(node: Node | None) -> Node:
    """Return the object that the node is, or that the document consists of."""
    if node is not None and node.type == "document":
        node = next((child for child in node.named_children if child.type != "comment"), None)
    if node is None or node.type != "object":
        raise InvalidSettings("has another value where a JSON object is expected")
    return node


def _pairs(node: Node) -> dict[str, Node]:
    pairs = (child for child in node.named_children if child.type == "pair")
    return {_key(pair): pair for pair in pairs}


def _key(pair: Node) -> str:
    key = pair.child_by_field_name("key")
    assert key is not None
    return str(json.loads(key.text or b""))


def _comments(node: Node) -> list[Node]:
    if node.type == "comment":
        return [node]
    return [one for child in node.children for one in _comments(child)]


def _added(text: str, node: Node, name: str, value: dict[str, Any]) -> str:
    """Return the text with a new pair at the end of the object, after its last comment."""
    newline, own = _newline(text), _line_indent(text, node)
    pairs = list(_pairs(node).values())
    indent = _line_indent(text, pairs[-1]) if pairs else own
    if indent == own:  # no pair begins a line
        indent += _unit(text)
    close = node.end_byte - 1
    end = len(text.encode()[:close].rstrip())
    outer = "" if b"\n" in text.encode()[end:close] else newline + own
    pair = f"{newline}{indent}{json.dumps(name)}: {_lines(text, value, indent)}{outer}"
    commas = [(pairs[-1].end_byte, pairs[-1].end_byte, ",")] if pairs else []
    return _spliced(text, *commas, (end, end, pair))


def _lines(text: str, value: dict[str, Any], indent: str) -> str:
    """Return the value as JSON, its lines indented to fit the text around it."""
    lines = json.dumps(value, indent=_unit(text), ensure_ascii=False).split("\n")
    return f"{_newline(text)}{indent}".join(lines)


def _line_indent(text: str, node: Node) -> str:
    """Return the white space at the beginning of the line where the node begins."""
    line = text.split("\n")[node.start_point[0]]
    return line[: len(line) - len(line.lstrip())]


def _unit(text: str) -> str:
    """Return one level of indentation: that of the first pair, else two spaces."""
    pairs = list(_pairs(_object(_root(text))).values())
    return (_line_indent(text, pairs[0]) if pairs else "") or "  "


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _spliced(text: str, *changes: tuple[int, int, str]) -> str:
    """Return the text with ranges of bytes replaced, given in order as (start, end, new text)."""
    source, made, done = text.encode(), b"", 0
    for start, end, new in changes:
        made += source[done:start] + new.encode()
        done = end
    return (made + source[done:]).decode()
