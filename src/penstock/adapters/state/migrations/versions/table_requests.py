"""What people ask for of tables, and the changes that were passed over."""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Column, String, Text
from sqlalchemy.dialects import mysql

revision = "table_requests"
down_revision = "audit_results"


def upgrade() -> None:
    """Create the tables. Safe to repeat."""
    text = Text().with_variant(mysql.LONGTEXT(charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb")
    op.create_table(
        "table_requests",
        _name("pipeline", 64),
        _name("link", 160),
        _name("table_name", 200),
        *(Column(each, text, nullable=False) for each in ("request_id", "action", "asked_by", "stage", "told")),
        *(Column(each, BigInteger, nullable=False) for each in ("asked_at_ms", "ended_at_ms")),
        if_not_exists=True,
    )
    op.create_table(
        "skipped_changes",
        _name("pipeline", 64),
        _name("link", 160),
        _name("topic", 249),
        *(
            Column(each, BigInteger, primary_key=True, autoincrement=False)
            for each in ("topic_partition", "topic_offset")
        ),
        *(Column(each, text, nullable=False) for each in ("table_name", "changed_row", "reason", "request_id")),
        Column("skipped_at_ms", BigInteger, nullable=False),
        if_not_exists=True,
    )


def _name(name: str, characters_max: int) -> Column[str]:
    exact = mysql.VARCHAR(characters_max, charset="utf8mb4", collation="utf8mb4_bin")
    return Column(name, String(characters_max).with_variant(exact, "mysql", "mariadb"), primary_key=True)
