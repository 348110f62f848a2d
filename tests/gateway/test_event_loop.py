"""No request, however hostile, holds the event loop, on which probes are answered.

All of the processor time that the thread of the event loop takes for a call is measured, which is
at least that of its longest step and does not depend on what else the machine does.
"""

from __future__ import annotations

import gc

import grpc
import pytest
from google.protobuf.descriptor import FieldDescriptor

from gateway.app import MAX_REQUEST_BYTES
from tests.contracts.test_faces import Running
from tests.gateway.test_malformed import DEFECTS, METHODS, answered

#: Processor time of a call on the event loop, seconds. The most was 0.07, for decoding a list of
#: 170,000 texts; the rest is for slower machines.
MOST_S = 0.2

#: How often a call is measured that seems to take longer, as any may on a busy machine.
ATTEMPTS = 5

#: Texts for one field: the longest query that is read, or as long as a request may be.
LONG = (
    *("x" + "\n" * 8_186 + " y", "not x " * 1_360, "1 " * 4_000, "x." * 4_090, "aB" * 4_000),
    *('"a" ' * 2_000, "(a" * 4_000, "a::" * 2_700, "at f (a.js:1:1)\n" * 500, "é" * 4_000),
    *('"" lang:go ' * 600 + "x", '"" ' * 20_000 + "lang:go " * 20_000 + "x", "path:a*b " * 900),
    *("/[a-z]+x/ " * 810, '-"xy" ' * 1_300 + "retry", '"a" or /b+/ ' * 680),
    *("x " * 250_000, "\n" * 500_000, "**/" * 160_000),
)
#: Texts of which a list is made that is as long as a request may be.
SHORT = ("a", "**/*", "*" * 60, "[a-z]*" * 20)

#: Fields without which a request is refused at once.
REQUIRED = ("query", "subject", "repository", "name", "path")


def is_text(field):
    return field.cpp_type == FieldDescriptor.CPPTYPE_STRING


def filled(descriptor, field, text):
    """Return a message with the text in a field, or with as many of it as a request may hold."""
    made = descriptor._concrete_class()
    if field.is_repeated:
        getattr(made, field.name).extend([text] * ((MAX_REQUEST_BYTES - 8_000) // (len(text) + 3)))
    else:
        setattr(made, field.name, text)
    return made


def hostile(descriptor):
    """Yield a message for each text in each field for texts."""
    for field in filter(is_text, descriptor.fields):
        for text in SHORT if field.is_repeated else LONG:
            yield filled(descriptor, field, text)


def requests(descriptor):
    """Yield hostile requests, also in the messages that are part of one, with what is required."""
    inner = [field for field in descriptor.fields if field.message_type and not field.is_repeated]
    made = list(hostile(descriptor))
    for field in inner:
        for part in hostile(field.message_type):
            made.append(descriptor._concrete_class())
            getattr(made[-1], field.name).CopyFrom(part)
    for one in made:
        for field in filter(is_text, descriptor.fields):
            if field.name in REQUIRED and not field.is_repeated and not getattr(one, field.name):
                setattr(one, field.name, "retry")
        yield one.SerializeToString()


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    made = Running(tmp_path_factory.mktemp("loop"))
    gc.collect()
    gc.freeze()  # a collection of all that the tests have made takes longer than the bound
    yield made
    made.close()
    gc.unfreeze()
    gc.collect()  # else what the tests left open is never reported
    gc.freeze()


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_no_call_holds_the_event_loop(running, name):
    path, method = METHODS[name]
    with grpc.insecure_channel(running.address) as channel:
        answered(channel, path, method, b"")  # imports what the first call imports
        for request in requests(method.input_type):
            for _ in range(ATTEMPTS):
                before = running.processor_s()
                code, details = answered(channel, path, method, request)
                took_s = running.processor_s() - before
                assert code not in DEFECTS, details
                if took_s < MOST_S:
                    break
            assert took_s < MOST_S, f"{took_s:.2f} s for {request[:80]!r} of {len(request)} bytes"
