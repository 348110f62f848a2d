"""Read YAML files that operators write; errors name the line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import yaml

from codelode.errors import InvalidSettings

#: Maximum size of a file, bytes: parsing takes about a second for each MB.
MAX_BYTES = 1_000_000

#: Longest time that a file may give, seconds.
MAX_TIME_S = 30 * 86_400

_TIME = re.compile(r"(\d{1,6})([smhd])")
_UNITS_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_SIZE = re.compile(r"(\d{1,6})(MB|GB)")
_UNITS_BYTES = {"MB": 10**6, "GB": 10**9}

_NUMBER = re.compile(r"[0-9]{1,9}")
_SURROGATE = re.compile("[\ud800-\udfff]")

T = TypeVar("T")


class Wrong(Exception):
    """A node of a file is wrong; the message names the field and the remedy."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


def read_text(path: Path, *, what: str) -> str:
    """Return the content of a file. Raises InvalidSettings if it cannot be read or is too large."""
    try:
        with path.open("rb") as opened:
            raw = opened.read(MAX_BYTES + 1)
        text = raw.decode()
    except (OSError, UnicodeDecodeError) as exc:
        raise InvalidSettings(f"cannot read the {what} {path}: {exc}") from exc
    if len(raw) > MAX_BYTES:
        raise InvalidSettings(f"the {what} {path} is larger than {MAX_BYTES:,} bytes")
    return text


def problem_of(path: str, read: Callable[[Path], object]) -> str:
    """Return why an operator's file cannot be used; empty if it can, or if there is none."""
    try:
        if path:
            read(Path(path).expanduser())
    except InvalidSettings as exc:
        return str(exc)
    return ""


def parsed(text: str, build: Callable[[yaml.Node], T], *, file: str, empty: str) -> T:
    """Return what `build` makes of a document. Raises InvalidSettings with file and line.

    `empty`: the shortest document, which the error for an empty file suggests.
    """
    try:
        root = _composed(text)
        if root is None:
            raise Wrong(1, f"the file is empty; write `{empty}`")
        return build(root)
    except Wrong as exc:
        raise InvalidSettings(f"{file}:{exc.line}: {exc}") from None
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        told = f"{file}:{mark.line + 1 if mark else 1}: {_problem(exc)}"
        raise InvalidSettings(told) from None
    except (yaml.YAMLError, RecursionError) as exc:
        raise InvalidSettings(f"{file}: the file is not valid YAML: {exc}") from None


def _problem(error: yaml.MarkedYAMLError) -> str:
    if "'\\t'" in (error.problem or ""):
        return "a tab is not allowed here; indent with spaces"
    return f"the file is not valid YAML: {error.problem}"


def _composed(text: str) -> yaml.Node | None:
    loader = yaml.SafeLoader(text)
    try:
        return loader.get_single_node()
    except (ValueError, OverflowError) as exc:  # of an escape such as "\UFFFFFFFF"
        raise Wrong(
            loader.line + 1, f"an escape or a number cannot be read ({exc}); correct it"
        ) from None


def items(
    node: yaml.Node, what: str, *, known: Sequence[str] = ()
) -> Iterator[tuple[str, yaml.Node]]:
    """Yield the entries of a mapping. Raises Wrong for unknown and repeated names.

    `what`, here and below: the name of the node in messages.
    """
    if not isinstance(node, yaml.MappingNode):
        raise Wrong(
            line(node),
            f"{what} must be a mapping: lines of the form `name: …`, or {{}} for none",
        )
    seen: set[str] = set()
    for key, value in node.value:
        name = text(key, f"a name in {what}")
        if known and name not in known:
            raise Wrong(line(key), f"{what} has no field {name!r}; it may have: {', '.join(known)}")
        if name in seen:
            raise Wrong(line(key), f"{what} has {name!r} twice; write one entry")
        seen.add(name)
        yield name, value


def sequence(node: yaml.Node, what: str, *, form: str) -> list[yaml.Node]:
    """Return the entries of a list. Raises Wrong for another node; `form` completes "a list"."""
    if not isinstance(node, yaml.SequenceNode):
        raise Wrong(line(node), f"{what} must be a list{form}")
    return list(node.value)


def text(node: yaml.Node, what: str) -> str:
    """Return the text of a node. Raises Wrong for other nodes, and for numbers without quotes."""
    if not isinstance(node, yaml.ScalarNode) or node.tag != "tag:yaml.org,2002:str":
        raise Wrong(line(node), f"{what} must be a text; write it in quotes")
    if _SURROGATE.search(node.value):
        raise Wrong(
            line(node),
            f"{what} has half of a character; remove the escape from \\uD800 to \\uDFFF",
        )
    return str(node.value)


def texts(node: yaml.Node, what: str, *, form: str) -> tuple[str, ...]:
    """Return a list of texts. Raises Wrong for another node; `form` completes "a list"."""
    return tuple(text(one, f"an entry of {what}") for one in sequence(node, what, form=form))


def time_s(node: yaml.Node, what: str) -> int:
    """Return a time in seconds: `30s`, `5m`, `24h`, `7d`."""
    found = _TIME.fullmatch(node.value) if isinstance(node, yaml.ScalarNode) else None
    seconds = int(found[1]) * _UNITS_S[found[2]] if found else 0
    if not 0 < seconds <= MAX_TIME_S:
        raise Wrong(line(node), f"{what} must be a time such as 30s, 5m, or 24h, at most 30d")
    return seconds


def size_bytes(node: yaml.Node, what: str) -> int:
    """Return a size in bytes: `500MB`, `2GB`."""
    found = _SIZE.fullmatch(node.value) if isinstance(node, yaml.ScalarNode) else None
    size = int(found[1]) * _UNITS_BYTES[found[2]] if found else 0
    if not size:
        raise Wrong(line(node), f"{what} must be a size such as 500MB or 2GB")
    return size


def count(node: yaml.Node, what: str, *, most: int) -> int:
    """Return a number from 1 to `most`."""
    is_number = isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:int"
    number = int(node.value) if is_number and _NUMBER.fullmatch(node.value) else 0
    if not 1 <= number <= most:
        raise Wrong(line(node), f"{what} must be a number from 1 to {most}")
    return number


def flag(node: yaml.Node, what: str) -> bool:
    """Return the value of a node that is true or false."""
    if not isinstance(node, yaml.ScalarNode) or node.tag != "tag:yaml.org,2002:bool":
        raise Wrong(line(node), f"{what} must be true or false")
    return node.value.lower() in ("true", "yes", "on")


def line(node: yaml.Node) -> int:
    """Return the number of the line in which the node begins, from 1."""
    return int(node.start_mark.line) + 1
