"""Which database a registry keeps its schemas in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from penstock.config.secrets import secret
from penstock.core.errors import UsageError

_DEFAULT = "sqlite:///.penstock/schematizer/schematizer.db"


@dataclass(frozen=True, slots=True)
class DatabaseOptions:
    """The database, by its URL or by the environment variable that has it."""

    url: Annotated[
        str, typer.Option(help=f"Database: sqlite:///FILE, postgresql://..., mysql://...; else {_DEFAULT}.")
    ] = ""
    url_env: Annotated[
        str, typer.Option(help="The environment variable that has the URL: a password is not for a command line.")
    ] = ""

    def read_url(self) -> str:
        """Return the URL. Raises UsageError where it is not clear which."""
        if self.url and self.url_env:
            message = "--url and --url-env both say where the database is"
            raise UsageError(message, "give one of them")
        return secret(self.url_env) if self.url_env else self.url or _DEFAULT
