"""Certificate authorities that are made for a test, and the files with their certificates."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme


class Authority:
    """An authority with its own root, which writes certificates into a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._ca = trustme.CA()
        self.root = folder / "root.pem"
        self._ca.cert_pem.write_to_path(str(self.root))

    def issue(
        self,
        *names: str,
        file: str = "tls",
        days: tuple[float, float] = (-1, 90),
        common_name: str | None = None,
    ) -> Issued:
        """Write a certificate for the names, valid between `days` from now, over an older one."""
        now = datetime.now(UTC)
        begins, ends = (now + timedelta(days=day) for day in days)
        made = self._ca.issue_cert(
            *names, common_name=common_name, not_before=begins, not_after=ends
        )
        issued = Issued(self._folder / f"{file}.crt", self._folder / f"{file}.key")
        _replace(issued.certificate, b"".join(one.bytes() for one in made.cert_chain_pems))
        _replace(issued.key, made.private_key_pem.bytes())
        return issued


class Issued:
    """The files of a certificate and its key."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self.certificate, self.key = certificate, key

    @property
    def settings(self) -> dict[str, str]:
        return {"tls_certificate": str(self.certificate), "tls_key": str(self.key)}


def _replace(path: Path, content: bytes) -> None:
    draft = path.with_suffix(".draft")
    draft.write_bytes(content)
    draft.replace(path)
