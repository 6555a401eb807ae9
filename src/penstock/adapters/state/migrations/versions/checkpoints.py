"""Checkpoints of links that publish without transactions.

Written out, not taken from `tables`, as in `first_tables`.
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Column, String, Text
from sqlalchemy.dialects import mysql

revision = "checkpoints"
down_revision = "0001"


def upgrade() -> None:
    """Create the tables. Safe to repeat."""
    _create("published_records", Column("turn", BigInteger, nullable=False), _text("record"), _text("ahead"))
    _create("published_topics", _name("topic", 249), _text("topic_id"), _text("ends"))


def _create(table: str, *columns: Column[str] | Column[int]) -> None:
    updated = Column("updated_at_ms", BigInteger, nullable=False)
    op.create_table(table, _name("pipeline", 64), _name("link", 160), *columns, updated, if_not_exists=True)


def _name(name: str, characters_max: int) -> Column[str]:
    exact = mysql.VARCHAR(characters_max, charset="utf8mb4", collation="utf8mb4_bin")
    return Column(name, String(characters_max).with_variant(exact, "mysql", "mariadb"), primary_key=True)


def _text(name: str) -> Column[str]:
    exact = mysql.LONGTEXT(charset="utf8mb4", collation="utf8mb4_bin")
    return Column(name, Text().with_variant(exact, "mysql", "mariadb"), nullable=False)
