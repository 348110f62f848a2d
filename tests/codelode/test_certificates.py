"""A certificate that cannot be used is refused with its file and the remedy."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from codelode.certificates import read_authorities, read_certificate
from codelode.errors import InvalidSettings
from tests.authorities import Authority


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


def read(issued):
    return read_certificate(issued.certificate, issued.key)


def test_reading_a_certificate_gives_its_names_and_validity_period(authority):
    found = read(authority.issue("search.example", "*.search.example", "10.0.0.1"))

    assert found.names == ("search.example", "*.search.example", "10.0.0.1")
    assert 90 < (found.ends - found.begins).days < 92
    assert b"BEGIN CERTIFICATE" in found.chain


@pytest.mark.parametrize("file", ["certificate", "key"])
def test_a_file_that_is_missing_is_named(authority, file):
    issued = authority.issue("search.example")
    path = getattr(issued, file)
    path.unlink()

    with pytest.raises(InvalidSettings, match=f"cannot read {path}: No such file"):
        read(issued)


@pytest.mark.parametrize("file", ["certificate", "key"])
@pytest.mark.parametrize(
    "content",
    [b"", b"hello", b"\xff\xfe", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"],
    ids=["empty", "text", "binary", "damaged"],
)
def test_a_certificate_file_with_other_content_is_named(authority, file, content):
    issued = authority.issue("search.example")
    path = getattr(issued, file)
    path.write_bytes(content)

    with pytest.raises(InvalidSettings, match=f"{path} holds no usable .* in PEM format"):
        read(issued)


def test_the_key_of_another_certificate_is_refused(authority):
    issued = authority.issue("search.example")
    other = authority.issue("search.example", file="other")

    with pytest.raises(InvalidSettings, match=r"other\.key is not the one of the first cert"):
        read_certificate(issued.certificate, other.key)


def test_a_key_with_a_passphrase_is_refused_with_the_command_that_removes_it(authority):
    issued = authority.issue("search.example")
    key = load_pem_private_key(issued.key.read_bytes(), password=None)
    locked = BestAvailableEncryption(b"sesame")
    issued.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, locked))

    with pytest.raises(InvalidSettings, match=f"passphrase: `openssl pkey -in {issued.key}`"):
        read(issued)


@pytest.mark.parametrize(
    ("days", "reason"), [((-9, -1), "expired at"), ((1, 9), "not valid before")]
)
def test_a_certificate_outside_its_validity_period_is_refused(authority, days, reason):
    with pytest.raises(InvalidSettings, match=reason):
        read(authority.issue("search.example", days=days))


def test_the_certificates_of_authorities_are_read(authority):
    assert read_authorities(authority.root) == authority.root.read_bytes()


@pytest.mark.parametrize("content", [None, b"", b"hello", b"\xff"])
def test_a_file_without_authorities_is_named(tmp_path, content):
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(InvalidSettings, match=str(file)):
        read_authorities(file)
