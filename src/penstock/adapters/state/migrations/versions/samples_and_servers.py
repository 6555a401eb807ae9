"""What the live page and metrics need: failures of links, embedded servers, and samples of the last hour.

Only adds, so that a release before it that still runs goes on working.
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Column, Double, String, Text, inspect, text
from sqlalchemy.dialects import mysql

revision = "samples_and_servers"
down_revision = "snapshots"

_TABLE = "link_progress"


def upgrade() -> None:
    """Add columns and tables. Safe to repeat: MySQL commits each ALTER alone, so a crash may leave some behind."""
    there = {column["name"] for column in inspect(op.get_bind()).get_columns(_TABLE)}
    for column in (
        _count("running_since_ms"),
        _count("failures"),
        _count("failed_at_ms"),
        _text("failure", nullable=True),
        Column("dead_letters", BigInteger, nullable=True),
    ):
        if column.name not in there:
            op.add_column(_TABLE, column)
    op.create_table(
        "link_samples",
        _name("pipeline", 64),
        _name("link", 160),
        Column("slot", BigInteger, primary_key=True, autoincrement=False),
        Column("at_ms", BigInteger, nullable=False),
        Column("carried_rows", BigInteger, nullable=False),
        Column("lag_seconds", Double, nullable=True),
        if_not_exists=True,
    )
    op.create_table(
        "server_condition",
        _name("pipeline", 64),
        _name("server", 64),
        _text("state"),
        Column("since_ms", BigInteger, nullable=False),
        Column("restarts", BigInteger, nullable=False),
        if_not_exists=True,
    )
    # Dead letters were a note on a table of this name; they have a column now.
    op.execute(text("DELETE FROM table_progress WHERE table_name = 'dead letters'"))


def _count(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False, server_default="0")


def _text(name: str, *, nullable: bool = False) -> Column[str]:
    exact = mysql.LONGTEXT(charset="utf8mb4", collation="utf8mb4_bin")
    return Column(name, Text().with_variant(exact, "mysql", "mariadb"), nullable=nullable)


def _name(name: str, characters_max: int) -> Column[str]:
    exact = mysql.VARCHAR(characters_max, charset="utf8mb4", collation="utf8mb4_bin")
    return Column(name, String(characters_max).with_variant(exact, "mysql", "mariadb"), primary_key=True)
