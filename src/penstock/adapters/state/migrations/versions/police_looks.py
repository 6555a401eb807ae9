"""What the newest look at how topics are kept has found."""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Column, String, Text
from sqlalchemy.dialects import mysql

revision = "police_looks"
down_revision = "table_requests"


def upgrade() -> None:
    """Create the table. Safe to repeat."""
    long_text = mysql.LONGTEXT(charset="utf8mb4", collation="utf8mb4_bin")
    name = mysql.VARCHAR(64, charset="utf8mb4", collation="utf8mb4_bin")
    op.create_table(
        "police_looks",
        Column("pipeline", String(64).with_variant(name, "mysql", "mariadb"), primary_key=True),
        Column("looked_at_ms", BigInteger, nullable=False),
        Column("topics", BigInteger, nullable=False),
        Column("report", Text().with_variant(long_text, "mysql", "mariadb"), nullable=False),
        if_not_exists=True,
    )
