"""Represent the credentials with which git reads from a host: an HTTP header or an ssh identity."""

from __future__ import annotations

import os
import sys
import tempfile
import weakref
from dataclasses import dataclass, field
from typing import IO


@dataclass(frozen=True, slots=True)
class Header:
    """An HTTP header that git sends to the addresses below a URL; it may hold a secret."""

    below: str
    text: str = field(repr=False)


class SshIdentity:
    """A private key and the host keys to accept, in files that live as long as this object.

    If `below` is not empty, git replaces it by `url` at the beginning of addresses. ssh reads keys
    from files only. On Linux the files are in memory, have no path on disk, and vanish with this
    process.
    """

    def __init__(
        self, private_key: str, known_hosts: str, *, below: str = "", url: str = ""
    ) -> None:
        self.below, self.url = below, url
        files = _private_file(private_key), _private_file(known_hosts)
        for file in files:
            weakref.finalize(self, file.close)
        key, hosts = map(_path, files)
        #: With these options and no configuration file, ssh tries this key first, and accepts only
        #: these host keys.
        self.options = (
            f"-oIdentitiesOnly=yes -oIdentityFile={key} -oUserKnownHostsFile={hosts} "
            "-oGlobalKnownHostsFile=/dev/null -oUpdateHostKeys=no -oVerifyHostKeyDNS=no"
        )


def _private_file(text: str) -> IO[bytes]:
    """Return a file that only this user can read."""
    file: IO[bytes]
    if sys.platform == "linux":
        descriptor = os.memfd_create("ssh")
        os.fchmod(descriptor, 0o600)
        file = os.fdopen(descriptor, "wb")
    else:
        file = tempfile.NamedTemporaryFile()  # noqa: SIM115 - closed with the object that it is made for
    file.write(text.encode() + b"\n")  # ssh rejects a key without it
    file.flush()
    return file


def _path(file: IO[bytes]) -> str:
    if sys.platform == "linux":
        return f"/proc/{os.getpid()}/fd/{file.fileno()}"
    return file.name
