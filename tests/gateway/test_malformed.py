"""No call, however malformed, gets an internal error, a stack trace, or no answer at all.

Every method of every service is sent messages of random values, which are mostly invalid, and bytes
that are no message. The gateway is a real one over the in-memory twins.
"""

from __future__ import annotations

import base64
import math
import random

import grpc
import pytest
from google.protobuf.descriptor import FieldDescriptor

from codelode.v1 import access_pb2, graph_pb2, index_pb2, search_pb2
from tests.contracts.test_faces import HTTP, WEB, Running
from tests.examples import examples

SERVICES = [
    service
    for module in (access_pb2, graph_pb2, index_pb2, search_pb2)
    for service in module.DESCRIPTOR.services_by_name.values()
]
METHODS = {
    method.name: (f"/{service.full_name}/{method.name}", method)
    for service in SERVICES
    for method in service.methods
}

#: Long enough for every call on a busy machine; a call that takes longer hangs.
TIMEOUT_S = 60

#: Codes that say that the gateway is at fault, or that it did not answer.
DEFECTS = (
    *(grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.DATA_LOSS),
    *(grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED),
)

#: Texts with a meaning somewhere, and texts that break parsers of names, globs, URLs, and tokens.
TEXTS = [
    *("acme/http", "acme/web", "main", "HEAD", "retry", "Client.get", *HTTP, *WEB),
    *("hybrid", "staged", "fused", "rrf", "fast", "thorough", "judge", "calls", "function"),
    *("", " ", "\0", "\n" * 50, "x" + "\n" * 8_186 + " y", "../..", "/etc/passwd", "*" * 1_000),
    *("[", "**/", "a**/" * 8, "**/" * 300, "\u202e", "\u2028", "é" * 9_000, "\U0010ffff", "%s"),
    *("https://h/r", "https:/u:p@h/r", "ext::sh -c id", "-u", "file:///", "ssh://-o/x", "@{-1}"),
    base64.urlsafe_b64encode(b'["\\ud800", "a", "b"]').decode(),
    base64.urlsafe_b64encode(b"[" * 100_000).decode(),
    base64.urlsafe_b64encode(b'["9999999999", "a", "b"]').decode(),
]
#: Requests that are drawn for each method.
DRAWN = 150

#: What draws a value of each type.
SCALARS = {
    FieldDescriptor.CPPTYPE_STRING: lambda dice: (
        dice.choice(TEXTS) if dice.random() < 0.7 else text(dice)
    ),
    FieldDescriptor.CPPTYPE_BOOL: lambda dice: dice.random() < 0.5,
    FieldDescriptor.CPPTYPE_INT32: lambda dice: dice.choice(
        [0, 1, -1, 200, 201, 2**31 - 1, -(2**31), dice.randint(-5, 1_000)]
    ),
    FieldDescriptor.CPPTYPE_DOUBLE: lambda dice: dice.choice(
        [0.0, 1.0, -1.0, math.nan, math.inf, -math.inf, 5e-324, 1e308, dice.uniform(-2, 2)]
    ),
}


def text(dice):
    """Draw up to 40 characters, half of them from ASCII."""
    codes = [dice.randrange(dice.choice([0x80, 0x110000])) for _ in range(dice.randint(0, 40))]
    return "".join(chr(code) for code in codes if not 0xD800 <= code < 0xE000)


def value(dice, field):
    """Draw a value of a field, or a few if it is repeated."""
    draw = SCALARS.get(field.cpp_type, lambda dice: message(dice, field.message_type))
    return [draw(dice) for _ in range(dice.randint(0, 4))] if field.is_repeated else draw(dice)


def message(dice, descriptor):
    """Draw a message with a random part of its fields."""
    fields = [field for field in descriptor.fields if dice.random() < 0.5]
    return descriptor._concrete_class(**{field.name: value(dice, field) for field in fields})


def drawn(dice, descriptor):
    """Draw an encoded message, which may be cut, or random bytes."""
    encoded = message(dice, descriptor).SerializeToString()
    cut = encoded[: dice.randint(0, len(encoded))]
    return dice.choice([encoded, encoded, encoded, cut, dice.randbytes(dice.randint(0, 60))])


def with_one_text(descriptor):
    """Yield each encoded message of one field that has one of the texts, and is refused for it."""
    for field in descriptor.fields:
        if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
            for one in TEXTS:
                given = {field.name: [one] if field.is_repeated else one}
                yield descriptor._concrete_class(**given).SerializeToString()


@pytest.fixture(scope="module")
def channel(tmp_path_factory):
    running = Running(tmp_path_factory.mktemp("malformed"))
    with grpc.insecure_channel(running.address) as opened:
        yield opened
    running.close()


def answered(channel, path, method, request):
    """Send the bytes; return the code and the details of the answer, of a stream its first."""
    try:
        if method.server_streaming:
            stream = channel.unary_stream(path)(request, timeout=TIMEOUT_S)
            next(stream)
            stream.cancel()
        else:
            channel.unary_unary(path)(request, timeout=TIMEOUT_S)
    except grpc.RpcError as exc:
        return exc.code(), exc.details()
    return grpc.StatusCode.OK, ""


@pytest.mark.parametrize("name", METHODS)
def test_a_malformed_call_gets_an_answer_that_says_what_is_wrong(channel, name):
    path, method = METHODS[name]
    dice = random.Random(name)
    requests = [*with_one_text(method.input_type)]
    requests += [drawn(dice, method.input_type) for _ in range(DRAWN)]
    for sent in dice.sample(requests, examples(len(requests), short=12)):
        code, details = answered(channel, path, method, sent)

        assert code not in DEFECTS, (sent, details)
        assert "Traceback" not in details, sent
        assert "<class" not in details, sent


@pytest.mark.parametrize("name", METHODS)
def test_bytes_that_are_not_a_request_are_an_invalid_argument(channel, name):
    path, method = METHODS[name]
    if not method.input_type.fields:
        pytest.skip("a message without fields accepts any field")

    for request in (b"\xff" * 20, b"\x0a\x02\xff\xfe", b"\x0a\x05ab"):
        code, details = answered(channel, path, method, request)

        assert code is grpc.StatusCode.INVALID_ARGUMENT, request
        assert "cannot be decoded" in details or "invalid" in details or "must" in details
