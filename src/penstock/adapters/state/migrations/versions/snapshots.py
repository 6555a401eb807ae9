"""What is asked for of snapshots, and how far they are."""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Column, String, Text
from sqlalchemy.dialects import mysql

revision = "snapshots"
down_revision = "heartbeats"


def upgrade() -> None:
    """Create the table. Safe to repeat."""
    name = String(64).with_variant(mysql.VARCHAR(64, charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb")
    text = Text().with_variant(mysql.LONGTEXT(charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb")
    op.create_table(
        "snapshots",
        Column("pipeline", name, primary_key=True),
        Column("snapshot_id", name, primary_key=True),
        *(Column(each, text, nullable=False) for each in ("source", "table_name", "options", "wanted", "status")),
        Column("rows_done", BigInteger, nullable=False),
        Column("rows_expected", BigInteger, nullable=True),
        *(Column(each, BigInteger, nullable=False) for each in ("requested_at_ms", "started_at_ms", "updated_at_ms")),
        *(Column(each, text, nullable=False) for each in ("error", "hint")),
        if_not_exists=True,
    )
