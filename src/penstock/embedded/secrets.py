"""Secrets that a home keeps for its own servers, in files that nobody else reads."""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_BYTES: Final = 24
_OWNER_ONLY: Final = 0o600
_OWNER_ONLY_DIRECTORY: Final = 0o700


def make_private(directory: Path) -> None:
    """Have a directory that nobody else enters."""
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(_OWNER_ONLY_DIRECTORY)


def kept_secret(file: Path) -> str:
    """Return the secret in `file`, a random one that is written there at the first call."""
    try:
        return file.read_text()
    except FileNotFoundError:
        secret = secrets.token_urlsafe(_BYTES)
        write_private(file, secret)
        return secret


def write_private(file: Path, text: str) -> None:
    """Write a file that nobody else reads, whole or not at all."""
    passing = file.with_name(f"{file.name}.passing")
    passing.unlink(missing_ok=True)
    with os.fdopen(os.open(passing, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY), "w") as opened:
        opened.write(text)
    passing.replace(file)
