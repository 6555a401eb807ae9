"""For how long a snapshot ran, pauses left out; of those that earlier releases told of, with their pauses.

Only adds, so that a release before it that still runs goes on working.
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Column, inspect

revision = "running_time_of_snapshots"
down_revision = "columns_not_compared"


def upgrade() -> None:
    """Add the column. Safe to repeat."""
    column = Column("ran_ms", BigInteger, nullable=False, server_default="0")
    if column.name not in {known["name"] for known in inspect(op.get_bind()).get_columns("snapshots")}:
        op.add_column("snapshots", column)
    op.execute("UPDATE snapshots SET ran_ms = updated_at_ms - started_at_ms WHERE started_at_ms > 0 AND ran_ms = 0")
