"""No call, however malformed, gets an internal error, a stack trace, or no answer at all.

Every method of every service is sent messages of random values, which are mostly invalid, and bytes
that are no message. The gateway is a real one over the in-memory twins.
"""

from __future__ import annotations

import base64
from functools import cache

import grpc
import pytest
from google.protobuf.descriptor import FieldDescriptor
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

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
TEXT = st.one_of(st.sampled_from(TEXTS), st.text(max_size=40))
SCALARS = {
    FieldDescriptor.CPPTYPE_STRING: TEXT,
    FieldDescriptor.CPPTYPE_BOOL: st.booleans(),
    FieldDescriptor.CPPTYPE_INT32: st.one_of(
        st.sampled_from([0, 1, -1, 200, 201, 2**31 - 1, -(2**31)]), st.integers(-5, 1_000)
    ),
    FieldDescriptor.CPPTYPE_DOUBLE: st.floats(),
}


def values(field):
    one = messages(field.message_type) if field.message_type else SCALARS[field.cpp_type]
    return st.lists(one, max_size=4) if field.is_repeated else one


def messages(descriptor):
    """Return a strategy for messages of a type with a random part of their fields."""
    fields = {field.name: values(field) for field in descriptor.fields}
    return st.fixed_dictionaries({}, optional=fields).map(
        lambda given: descriptor._concrete_class(**given)
    )


@cache  # to build the strategy takes longer than to draw from it
def requests(descriptor):
    """Return a strategy for encoded messages, and for bytes that are damaged or random."""
    encoded = messages(descriptor).map(lambda message: message.SerializeToString())
    cut = st.builds(lambda data, at: data[: at % (len(data) + 1)], encoded, st.integers(0, 10_000))
    return st.one_of(encoded, encoded, encoded, cut, st.binary(max_size=60))


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
@settings(max_examples=examples(240, short=12), suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_malformed_call_gets_an_answer_that_says_what_is_wrong(channel, name, data):
    path, method = METHODS[name]
    request = data.draw(requests(method.input_type))

    code, details = answered(channel, path, method, request)

    assert code not in DEFECTS, details
    assert "Traceback" not in details
    assert "<class" not in details


@pytest.mark.parametrize("name", METHODS)
def test_bytes_that_are_not_a_request_are_an_invalid_argument(channel, name):
    path, method = METHODS[name]
    if not method.input_type.fields:
        pytest.skip("a message without fields accepts any field")

    for request in (b"\xff" * 20, b"\x0a\x02\xff\xfe", b"\x0a\x05ab"):
        code, details = answered(channel, path, method, request)

        assert code is grpc.StatusCode.INVALID_ARGUMENT, request
        assert "cannot be decoded" in details or "invalid" in details or "must" in details
