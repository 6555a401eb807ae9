"""The newest heartbeat before each source's position.

Written out, not taken from `tables`: a migration must go on doing what it did
when the tables there have moved on.
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Column, inspect

revision = "heartbeats"
down_revision = "pipeline_identity"

_TABLE = "global_event_state"


def upgrade() -> None:
    """Add the columns. Safe to repeat: MySQL commits each ALTER alone, so a crash may leave one behind."""
    there = {column["name"] for column in inspect(op.get_bind()).get_columns(_TABLE)}
    for name in ("heartbeat_serial", "heartbeat_timestamp_ms"):
        if name not in there:
            op.add_column(_TABLE, Column(name, BigInteger, nullable=True))
