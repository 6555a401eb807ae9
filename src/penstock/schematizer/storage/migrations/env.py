"""Alembic's entry point: run the steps on the connection, and in the transaction, that the caller opened."""

from alembic import context

from penstock.schematizer.storage.usage_models import Refresh

# Every model has the same metadata; this one is of the module that imports the others.
context.configure(connection=context.config.attributes["connection"], target_metadata=Refresh.metadata)
context.run_migrations()
