"""Check the ssh keys that the sources file names, with clearer errors than those of ssh."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codelode.errors import InvalidSettings

if TYPE_CHECKING:
    from codelode.sources import Secret

#: Markers that a line may have before the names of the host.
_MARKERS = ("@cert-authority", "@revoked")


def wrong_host_key(known_hosts: str) -> str:
    """Return what is wrong with the lines of a known_hosts file; empty: nothing."""
    rows = [line.split() for line in known_hosts.splitlines()]
    for number, row in enumerate(rows, 1):
        if not row or row[0].startswith("#"):
            continue
        if not _is_public_key(row[2 if row[0] in _MARKERS else 1 :]):
            return f"line {number} of known_hosts holds no host with a key that can be read"
    return "" if any(rows) else "known_hosts is empty"


def check_private_key(secret: Secret, text: str) -> None:
    """Raise InvalidSettings, which names its place, unless it is a key without a passphrase."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization

    raw = f"{text}\n".encode()
    is_openssh = b"BEGIN OPENSSH" in raw
    load = serialization.load_ssh_private_key if is_openssh else serialization.load_pem_private_key
    try:
        load(raw, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):  # messages may quote the key
        raise InvalidSettings(
            f"{secret.place} holds no private ssh key without a passphrase: make one with "
            "`ssh-keygen -t ed25519 -N '' -f FILE`, and register FILE.pub at the host"
        ) from None


def _is_public_key(fields: list[str]) -> bool:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_ssh_public_key

    try:
        load_ssh_public_key(" ".join(fields[:2]).encode())
    except (ValueError, UnsupportedAlgorithm):
        return False
    return True
