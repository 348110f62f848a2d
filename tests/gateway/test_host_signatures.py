"""Checks of signatures do the same work for each kind of code host."""

from __future__ import annotations

import base64
import hmac
import sys
import time

import pytest

from codelode.sources import HostKind
from gateway.api.rest.host_events import HOSTS

TOKEN = b"whsec_" + base64.b64encode(b"k" * 32)


def digests(work):
    """Return how many HMAC digests the work computes."""
    made = []

    def note(frame, event, called):
        if event == "c_call" and "hmac" in called.__name__:
            made.append(called.__name__)

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return len(made)


@pytest.mark.parametrize("secret", [b"a secret", TOKEN, b"whsec_", b"whsec_a"])
@pytest.mark.parametrize("host", HOSTS.values(), ids=HOSTS)
def test_a_wrong_delivery_to_any_host_costs_one_digest_of_its_body(host, secret):
    expected = digests(lambda: hmac.digest(b"a secret", b"{}", "sha256"))

    assert digests(lambda: host.is_signed(secret, {}, b"{}")) == expected > 0


def test_a_secret_without_a_key_accepts_no_signature():
    at = str(int(time.time()))
    digest = hmac.digest(b"", f"1.{at}.{{}}".encode(), "sha256")
    signature = f"v1,{base64.b64encode(digest).decode()}"
    headers = {"webhook-id": "1", "webhook-timestamp": at, "webhook-signature": signature}

    assert not HOSTS[HostKind.GITLAB].is_signed(b"whsec_", headers, b"{}")
