"""What `penstock status` needs to know of lag: since when, how much, and when a table stopped.

Only adds, so that a release before it that still runs goes on working.
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Column, String, Text, inspect
from sqlalchemy.dialects import mysql

revision = "lag_and_standing"
down_revision = "checkpoints"


def upgrade() -> None:
    """Add the columns. Safe to repeat: MySQL commits each ALTER alone, so a crash may leave some behind."""
    exact = mysql.LONGTEXT(charset="utf8mb4", collation="utf8mb4_bin")
    _add("global_event_state", Column("prepared", Text().with_variant(exact, "mysql", "mariadb"), nullable=True))
    _add("link_progress", Column("behind_since_ms", BigInteger, nullable=True))
    _add("link_progress", Column("lag_messages", BigInteger, nullable=True))
    _add("link_progress", Column("moved_at_ms", BigInteger, nullable=False, server_default="0"))
    _add("table_progress", Column("behind_since_ms", BigInteger, nullable=True))
    _add("table_progress", Column("stopped_at_ms", BigInteger, nullable=False, server_default="0"))
    op.create_table(
        "link_place",
        _name("pipeline", 64),
        _name("link", 160),
        Column("next_offset", BigInteger, nullable=False),
        Column("updated_at_ms", BigInteger, nullable=False),
        if_not_exists=True,
    )


def _add(table: str, column: Column[str] | Column[int]) -> None:
    if column.name not in {known["name"] for known in inspect(op.get_bind()).get_columns(table)}:
        op.add_column(table, column)


def _name(name: str, characters_max: int) -> Column[str]:
    exact = mysql.VARCHAR(characters_max, charset="utf8mb4", collation="utf8mb4_bin")
    return Column(name, String(characters_max).with_variant(exact, "mysql", "mariadb"), primary_key=True)
