"""How many columns of a table an audit has left out.

Only adds, so that a release before it that still runs goes on working.
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Column, inspect

revision = "columns_not_compared"
down_revision = "police_looks"


def upgrade() -> None:
    """Add the column. Safe to repeat."""
    column = Column("not_compared", BigInteger, nullable=False, server_default="0")
    if column.name not in {known["name"] for known in inspect(op.get_bind()).get_columns("audit_results")}:
        op.add_column("audit_results", column)
