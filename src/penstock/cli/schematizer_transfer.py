"""`penstock schematizer import` and `export`: from, and to, any registry that Confluent's clients can use."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path  # noqa: TC003 - Typer reads annotations when it runs
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.option_groups import grouped
from penstock.cli.registry_options import RegistryOptions

if TYPE_CHECKING:
    import httpx


@dataclass(frozen=True, slots=True)
class OtherOptions:
    """How to sign in to the other registry."""

    other_user: Annotated[str, typer.Option(help="Sign in there as this user.")] = ""
    other_password_env: Annotated[str, typer.Option(help="The environment variable that has its password.")] = ""
    other_token_env: Annotated[str, typer.Option(help="The environment variable that has a token.")] = ""
    other_ca_file: Annotated[Path | None, typer.Option(help="Trust certificates of this authority (PEM).")] = None

    def open_client(self, url: str) -> httpx.Client:
        """Return a client of the other registry."""
        given = (self.other_user, self.other_password_env, self.other_token_env, self.other_ca_file)
        return RegistryOptions(url, *given).open_client()


@grouped
def import_registry(
    source: Annotated[str, typer.Option("--from", metavar="URL", help="The registry to take everything from.")],
    registry: RegistryOptions,
    other: OtherOptions,
) -> None:
    """Take over all that another registry has: ids, versions, references, deletions, levels and modes.

    Begun again after an interruption, it goes on. Afterwards every id is compared.
    """
    with other.open_client(source) as theirs, registry.open_client() as ours:
        _transfer(theirs, ours)


@grouped
def export_registry(
    target: Annotated[str, typer.Option("--to", metavar="URL", help="The registry to write everything to.")],
    registry: RegistryOptions,
    other: OtherOptions,
) -> None:
    """Write all that this registry has to another one, as import does the other way."""
    with other.open_client(target) as theirs, registry.open_client() as ours:
        _transfer(ours, theirs)


def _transfer(source: httpx.Client, target: httpx.Client) -> None:
    from penstock.schematizer.remote_registry import RemoteRegistry  # noqa: PLC0415 - --help need not wait for it
    from penstock.schematizer.transfer import transfer  # noqa: PLC0415 - --help need not wait for it

    done = transfer(RemoteRegistry(source), RemoteRegistry(target))
    typer.echo(f"{done.written} versions written, {done.there} were there; {done.verified} ids answer the same")
