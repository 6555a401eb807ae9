"""Which registry a command talks to, and who we are there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path  # noqa: TC003 - Typer reads annotations when it runs
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.adapters.registry.access import RegistryAccess
from penstock.core.errors import UsageError

if TYPE_CHECKING:
    import httpx

_TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class RegistryOptions:
    """A registry by its URL, and how to sign in: secrets are named by their environment variables."""

    url: Annotated[str, typer.Option(help="Where the registry answers.")] = "http://127.0.0.1:8081"
    user: Annotated[str, typer.Option(help="Sign in as this user.")] = ""
    password_env: Annotated[str, typer.Option(help="The environment variable that has the user's password.")] = ""
    token_env: Annotated[str, typer.Option(help="The environment variable that has a token, without a user.")] = ""
    ca_file: Annotated[Path | None, typer.Option(help="Trust certificates of this authority (PEM).")] = None

    def open_client(self) -> httpx.Client:
        """Return a client of the registry. Raises UsageError for options that do not go together."""
        if bool(self.user) != bool(self.password_env) or (self.user and self.token_env):
            message = "it is not clear how to sign in"
            raise UsageError(message, "give --user and --password-env, or --token-env, or none of them")
        access = RegistryAccess(self.url, self.user, self.password_env, self.token_env, self.ca_file)
        return access.open_client(_TIMEOUT_SECONDS)
