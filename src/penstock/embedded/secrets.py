"""Secrets that a home keeps for its own servers, in files that nobody else reads."""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING, Final

import structlog

from penstock.core.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

_log = structlog.get_logger()

_BYTES: Final = 24
_OWNER_ONLY: Final = 0o600
_OWNER_ONLY_DIRECTORY: Final = 0o700


def make_private(directory: Path) -> None:
    """Have a directory that nobody else enters; one of another user's, as volumes are, is taken as it is.

    Raises UsageError where there can be none, or none that we may write to.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _keep_others_out(directory)
    except OSError as error:
        message = f"cannot use the directory {directory}: {error.strerror}"
        hint = "check the config's home: it must be a directory that this user may write to"
        raise UsageError(message, hint) from error


def _keep_others_out(directory: Path) -> None:
    try:
        directory.chmod(_OWNER_ONLY_DIRECTORY)
    except PermissionError:
        if not os.access(directory, os.R_OK | os.W_OK | os.X_OK, effective_ids=True):
            raise
        hint = "give it to this user, or see that nobody else has it; files in it are this user's alone"
        _log.warning("a directory of another user's is used", directory=str(directory), hint=hint)


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
