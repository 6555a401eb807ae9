"""Certificates that tests sign themselves."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Authority:
    """Who signs certificates: `ca.pem` in its directory, and what it has signed."""

    directory: Path

    @property
    def ca(self) -> str:
        return str(self.directory / "ca.pem")

    def sign(self, name: str, alternative: str) -> tuple[str, str]:
        """A certificate and its key for `alternative` (DNS:... or IP:...)."""
        cert, key, request = (self.directory / f"{name}.{kind}" for kind in ("pem", "key", "csr"))
        extensions = self.directory / f"{name}.ext"
        extensions.write_text(f"subjectAltName={alternative}\n")
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-keyout", key, "-out", request)
        signer = ("-CA", self.directory / "ca.pem", "-CAkey", self.directory / "ca.key", "-CAcreateserial")
        openssl("x509", "-req", "-in", request, *signer, "-days", "2", "-extfile", extensions, "-out", cert)
        return str(cert), str(key)


def openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, timeout=60)  # noqa: S607 - PATH's


def authority(directory: Path) -> Authority:
    directory.mkdir()
    files = ("-keyout", directory / "ca.key", "-out", directory / "ca.pem")
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=test", "-days", "2", *files)
    return Authority(directory)
