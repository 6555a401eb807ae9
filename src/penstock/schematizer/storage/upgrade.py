"""Brings the tables of the registry's database up to date."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from penstock.schematizer.storage.execution_options import FOR_WRITING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy.engine import Connection, Engine


def upgrade(engine: Engine, revision: str) -> None:
    """Run the migrations that are missing up to `revision`; of several services that start at once, one does it."""
    config = _migrations()
    with (
        engine.connect().execution_options(**{FOR_WRITING: True}) as connection,
        connection.begin(),
        _upgrade_lock(connection),
    ):
        config.attributes["connection"] = connection
        command.upgrade(config, revision)


def current_revision(connection: Connection) -> str | None:
    """Return the revision of a database's tables, None where there is no registry."""
    return MigrationContext.configure(connection).get_current_revision()


def known_revisions() -> frozenset[str]:
    """Return every revision that this release can work with, the newest too."""
    return frozenset(each.revision for each in ScriptDirectory.from_config(_migrations()).walk_revisions())


def _migrations() -> Config:
    config = Config()
    config.set_main_option("script_location", "penstock.schematizer.storage:migrations")
    config.set_main_option("path_separator", "os")
    return config


@contextmanager
def _upgrade_lock(connection: Connection) -> Iterator[None]:
    """Keep others from upgrading meanwhile. SQLite's BEGIN IMMEDIATE has done so already."""
    match connection.dialect.name:
        case "postgresql":
            connection.exec_driver_sql("SELECT pg_advisory_xact_lock(hashtext('penstock schematizer'))")
            yield
        case "mysql" | "mariadb":
            # Each statement that makes a table commits there, so the lock cannot be the transaction's.
            connection.exec_driver_sql("SELECT GET_LOCK('penstock schematizer', 60)")
            try:
                yield
            finally:
                connection.exec_driver_sql("SELECT RELEASE_LOCK('penstock schematizer')")
        case _:
            yield
