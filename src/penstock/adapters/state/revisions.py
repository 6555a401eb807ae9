"""The revisions of the state database's tables, as Alembic knows and applies them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory

if TYPE_CHECKING:
    from sqlalchemy import Connection


def migrations() -> Config:
    """Where Alembic finds the revisions."""
    config = Config()
    # A per cent sign would begin an interpolation.
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    return config


def known_revisions() -> frozenset[str]:
    """Every revision that this release can begin at."""
    return frozenset(revision.revision for revision in ScriptDirectory.from_config(migrations()).walk_revisions())


def upgrade(connection: Connection) -> None:
    """Apply the migrations that the database lacks, in the order of their revisions."""
    config = migrations()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
