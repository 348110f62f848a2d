"""Read certificates and keys from PEM files, with errors that name the file and the remedy."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from codelode.errors import InvalidSettings

if TYPE_CHECKING:
    from cryptography import x509


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate with its chain and its key, in PEM."""

    chain: bytes
    key: bytes
    names: tuple[str, ...]  # the host names and addresses that it is valid for
    begins: datetime
    ends: datetime


def read_certificate(chain_file: Path, key_file: Path) -> Certificate:
    """Return the certificate, which must be valid now, and its key.

    Raises InvalidSettings if a file cannot be read or used, or if the key is of another
    certificate.
    """
    chain, key = _read(chain_file), _read(key_file)
    leaf = _leaf(chain, chain_file)
    if _public(key, key_file) != _bytes_of(leaf.public_key()):
        raise InvalidSettings(
            f"the key in {key_file} is not the one of the first certificate in {chain_file}: "
            "replace both files together, and put the certificate of the server itself first"
        )
    begins, ends = leaf.not_valid_before_utc, leaf.not_valid_after_utc
    _check_time(chain_file, begins, ends)
    return Certificate(chain, key, _names(leaf), begins, ends)


def authorities_for(url: str) -> ssl.SSLContext | bool:
    """Return what httpx takes as `verify` for a server: True trusts the usual authorities.

    A plain http client needs no TLS context, but httpx makes one, which takes 30 ms of processor
    time. All http clients of a process therefore share one.
    """
    return _of_http() if url.lower().startswith("http:") else True


@cache
def _of_http() -> ssl.SSLContext:
    import httpx

    return httpx.create_ssl_context(trust_env=False)


def read_authorities(file: Path) -> bytes:
    """Return the PEM certificates in the file. Raises InvalidSettings if there are none."""
    content = _read(file)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=content.decode())
    except (ssl.SSLError, ValueError) as exc:
        raise InvalidSettings(
            f"{file} holds no usable certificates of authorities in PEM format ({exc})"
        ) from exc
    return content


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as exc:
        raise InvalidSettings(f"cannot read {file}: {exc.strerror}") from exc


def _leaf(chain: bytes, file: Path) -> x509.Certificate:
    """Return the first certificate. The others must be readable too."""
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificates(chain)[0]
    except ValueError as exc:
        raise InvalidSettings(f"{file} holds no usable certificate in PEM format ({exc})") from exc


def _public(key: bytes, file: Path) -> bytes:
    """Return the public part of a private key."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        return _bytes_of(load_pem_private_key(key, password=None).public_key())
    except TypeError as exc:
        raise InvalidSettings(
            f"the key in {file} has a passphrase: `openssl pkey -in {file}` removes it"
        ) from exc
    except (ValueError, UnsupportedAlgorithm) as exc:
        raise InvalidSettings(f"{file} holds no usable private key in PEM format ({exc})") from exc


def _bytes_of(key: object) -> bytes:
    """Return the encoding of a public key, which is equal for equal keys."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    found: bytes = key.public_bytes(  # type: ignore[attr-defined]  # every kind of key has it
        Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    )
    return found


def _check_time(file: Path, begins: datetime, ends: datetime) -> None:
    now = datetime.now(UTC)
    if ends <= now:
        raise InvalidSettings(f"the certificate in {file} expired at {ends:%Y-%m-%d %H:%M} UTC")
    if begins > now:
        raise InvalidSettings(
            f"the certificate in {file} is not valid before {begins:%Y-%m-%d %H:%M} UTC; is the "
            "clock of this machine right?"
        )


def _names(leaf: x509.Certificate) -> tuple[str, ...]:
    from cryptography import x509

    try:
        found = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    addresses = map(str, found.get_values_for_type(x509.IPAddress))
    return (*found.get_values_for_type(x509.DNSName), *addresses)
