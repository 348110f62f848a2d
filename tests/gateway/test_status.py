import inspect

import grpc
import pytest

from codelode import errors
from gateway.api.rpc import status

ALL = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, errors.CodelodeError) and kind is not errors.CodelodeError
]


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_every_branch_of_the_error_tree_has_a_code(kind):
    error = kind("field", "message") if kind is errors.InvalidQuery else kind("message")

    assert status.code(error) not in (grpc.StatusCode.OK, grpc.StatusCode.INTERNAL)


def test_the_status_code_of_an_error_takes_precedence_over_those_of_its_parents():
    assert status.code(errors.TimedOut("")) is grpc.StatusCode.DEADLINE_EXCEEDED
    assert status.code(errors.Busy("")) is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert status.code(errors.Unauthenticated("")) is grpc.StatusCode.UNAUTHENTICATED
    assert status.code(errors.NotIndexed("")) is grpc.StatusCode.NOT_FOUND
