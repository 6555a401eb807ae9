"""`penstock schematizer backup` and `restore`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from penstock.cli.database_options import DatabaseOptions  # noqa: TC001 - Typer reads annotations
from penstock.cli.option_groups import grouped

BackupFile: TypeAlias = Annotated[Path, typer.Argument(metavar="FILE", help="The backup.", show_default=False)]


@grouped
def backup(file: BackupFile, database: DatabaseOptions) -> None:
    """Write all that a registry has to FILE, as it is at one moment; services may go on meanwhile."""
    from penstock.schematizer.storage.backup import backup as write  # noqa: PLC0415 - --help need not wait for it

    _tell(f"{file} has", write(database.read_url(), file))


@grouped
def restore(
    file: BackupFile,
    database: DatabaseOptions,
    *,
    replace: Annotated[bool, typer.Option("--replace", help="Delete what the database has.")] = False,
) -> None:
    """Fill an empty database, of any kind, from FILE: all of it, or nothing. No service may run on it meanwhile."""
    from penstock.schematizer.storage.backup import restore as read  # noqa: PLC0415 - --help need not wait for it

    _tell("the database has", read(database.read_url(), file, replace=replace))


def _tell(what: str, rows: dict[str, int]) -> None:
    told = ", ".join(f"{count} {table}" for table, count in rows.items() if count)
    typer.echo(f"{what} {told or 'nothing in it'}")
