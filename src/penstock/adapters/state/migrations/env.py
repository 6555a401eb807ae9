"""Alembic runs this module: migrate on the connection that `penstock.adapters.state.migrate` hands over."""

from __future__ import annotations

from alembic import context

from penstock.adapters.state.migrate import VERSION_TABLE
from penstock.adapters.state.tables import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    version_table=VERSION_TABLE,
)
with context.begin_transaction():
    context.run_migrations()
