"""What audits found."""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Column, Double, String, Text
from sqlalchemy.dialects import mysql

revision = "audit_results"
down_revision = "samples_and_servers"


def upgrade() -> None:
    """Create the table. Safe to repeat."""
    op.create_table(
        "audit_results",
        _name("pipeline", 64),
        _name("audit", 160),
        _name("table_name", 200),
        Column("began_at_ms", BigInteger, primary_key=True, autoincrement=False),
        _text("state"),
        *(Column(each, Double, nullable=True) for each in ("score", "lower", "upper")),
        Column("threshold", Double, nullable=False),
        *(Column(each, BigInteger, nullable=False) for each in ("is_below", "partitions", "unequal")),
        *(Column(each, BigInteger, nullable=False) for each in ("row_count", "wrong_rows")),
        Column("seconds", Double, nullable=False),
        _text("why"),
        if_not_exists=True,
    )


def _text(name: str) -> Column[str]:
    exact = mysql.LONGTEXT(charset="utf8mb4", collation="utf8mb4_bin")
    return Column(name, Text().with_variant(exact, "mysql", "mariadb"), nullable=False)


def _name(name: str, characters_max: int) -> Column[str]:
    exact = mysql.VARCHAR(characters_max, charset="utf8mb4", collation="utf8mb4_bin")
    return Column(name, String(characters_max).with_variant(exact, "mysql", "mariadb"), primary_key=True)
