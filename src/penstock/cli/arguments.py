"""Arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

ConfigFile: TypeAlias = Annotated[
    Path, typer.Argument(metavar="FILE", help="The pipeline's YAML file.", show_default=False)
]
