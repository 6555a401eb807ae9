"""Whose rows a state database holds."""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Column, String, Text
from sqlalchemy.dialects import mysql

revision = "pipeline_identity"
down_revision = "lag_and_standing"


def upgrade() -> None:
    """Create the table. Safe to repeat."""
    name = String(64).with_variant(mysql.VARCHAR(64, charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb")
    text = Text().with_variant(mysql.LONGTEXT(charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb")
    op.create_table(
        "pipeline_identity",
        Column("pipeline", name, primary_key=True),
        Column("kafka_cluster", text, nullable=False),
        Column("sources", text, nullable=False),
        Column("updated_at_ms", BigInteger, nullable=False),
        if_not_exists=True,
    )
