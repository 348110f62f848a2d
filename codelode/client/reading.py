"""Read dataclasses from messages, whose fields have the same names.

Annotations say how to convert what messages express differently: tuples, enumerations, and None.
Fields that the message lacks keep their defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from enum import Enum
from functools import cache
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_type_hints

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor
    from google.protobuf.message import Message

Value = TypeVar("Value")


def reader(kind: type[Value]) -> Callable[[Message], Value]:
    """Return the function that reads a value of a dataclass from a message."""
    return lambda message: value(kind, message)


def value(kind: type[Value], message: Message, /, **given: object) -> Value:
    """Read a value of a dataclass; `given` are values of fields that are not read."""
    of: Any = kind
    read: Callable[..., Value] = _reader(of, message.DESCRIPTOR, without=tuple(given))
    return read(message, **given)


def values(kind: type[Value], messages: Iterable[Message]) -> tuple[Value, ...]:
    """Read a value of a dataclass from each message."""
    return tuple(value(kind, message) for message in messages)


@cache
def _reader(kind: Any, of: Descriptor, without: tuple[str, ...] = ()) -> Callable[..., Any]:
    hints = get_type_hints(kind)
    known = {field.name: field for field in of.fields if field.name not in without}
    names = [field.name for field in fields(kind) if field.name in known]
    conversions = {name: _conversion(hints[name], known[name]) for name in names}
    converted = [(name, convert) for name, convert in conversions.items() if convert is not None]
    optional = [
        name for name in names if known[name].has_presence and NoneType in get_args(hints[name])
    ]

    def read(message: Message, /, **given: object) -> Any:
        found = {name: getattr(message, name) for name in names}
        for name, convert in converted:
            found[name] = convert(found[name])
        for name in optional:
            if not message.HasField(name):
                found[name] = None
        return kind(**found, **given)

    return read


def _conversion(hint: Any, field: FieldDescriptor) -> Callable[[Any], Any] | None:
    """Return how to convert the value of a field; None: it needs no conversion."""
    parts = get_args(hint)
    if NoneType in parts:
        inner = _of_one(parts[0], field)
        # Empty text means None where the message cannot tell whether it has the field.
        return inner if field.has_presence else lambda found: found or None
    if not field.is_repeated:
        return _of_one(hint, field)
    one = _of_one(parts[0], field)
    return tuple if one is None else lambda found: tuple(map(one, found))


def _of_one(hint: Any, field: FieldDescriptor) -> Callable[[Any], Any] | None:
    if field.message_type is None:
        return hint if isinstance(hint, type) and issubclass(hint, Enum) else None
    if get_args(hint):  # a tuple
        names = [part.name for part in field.message_type.fields]
        return lambda message: tuple(getattr(message, name) for name in names)
    return _reader(hint, field.message_type)
