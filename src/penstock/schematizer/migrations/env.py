"""Alembic's entry point: run the steps on the connection, and in the transaction, that the caller opened."""

from alembic import context

from penstock.schematizer.models import Model

context.configure(connection=context.config.attributes["connection"], target_metadata=Model.metadata)
context.run_migrations()
