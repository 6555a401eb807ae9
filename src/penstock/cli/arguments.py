"""Arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

_META: Final = "penstock.file"


def _remember(context: typer.Context, file: Path | None) -> Path | None:
    context.meta[_META] = file
    return file


def file_of(context: typer.Context) -> str:
    """The pipeline's file that the command of `context`, or of one below it, was given; else the word for it."""
    return str(context.meta.get(_META) or "FILE")


_FILE = typer.Argument(metavar="FILE", help="The pipeline's YAML file.", show_default=False, callback=_remember)
ConfigFile: TypeAlias = Annotated[Path, _FILE]
OptionalConfigFile: TypeAlias = Annotated[Path | None, _FILE]
