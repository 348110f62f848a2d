"""The channel to a gateway: its options, and the token that every call carries."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import grpc

_OPTIONS = (
    ("grpc.max_receive_message_length", 16 << 20),  # 200 hits of large chunks
    # A proxy for the outside world is no way to a gateway, least of all to one on loopback.
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # A watch has no deadline, so a gateway that vanished without a word shows by its silence.
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
)


def opened(address: str, *, token: str) -> grpc.Channel:
    """A channel that connects on the first call; with a token, every call carries it."""
    channel = grpc.insecure_channel(address, options=_OPTIONS)
    return grpc.intercept_channel(channel, _Bearer(token)) if token else channel


class _Details(
    namedtuple(
        "_Details",
        ("method", "timeout", "metadata", "credentials", "wait_for_ready", "compression"),
    ),
    grpc.ClientCallDetails,
):
    """What gRPC wants back of a call whose metadata changed."""


class _Bearer(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor):
    def __init__(self, token: str) -> None:
        self._header = ("authorization", f"Bearer {token}")

    def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        return continuation(self._with_token(details), request)

    def intercept_unary_stream(self, continuation: Any, details: Any, request: Any) -> Any:
        return continuation(self._with_token(details), request)

    def _with_token(self, details: Any) -> _Details:
        return _Details(
            details.method,
            details.timeout,
            (*(details.metadata or ()), self._header),
            details.credentials,
            details.wait_for_ready,
            details.compression,
        )
