"""The first tables: checkpoints, dumps and progress.

Written out, not taken from `tables`: a migration must go on doing what it did
when the tables there have moved on.
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Column, Double, String, Text
from sqlalchemy.dialects import mysql

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the tables. Safe to repeat: MySQL commits each CREATE alone, so a crash may leave some behind."""
    _create("global_event_state", _name("source", 64), *_position(), _integer("records_offset"))
    _create("data_event_checkpoint", _name("source", 64), _name("topic_partition", 300), _integer("last_offset"))
    _create("mysql_dumps", _name("source", 64), *_position(), _text("dump"))
    _create(
        "link_progress",
        _name("link", 160),
        _text("position"),
        _text("state"),
        Column("lag_seconds", Double, nullable=True),
        Column("lag_bytes", BigInteger, nullable=True),
        _text("error"),
        _text("hint"),
    )
    _create(
        "table_progress",
        _name("link", 160),
        _name("table_name", 200),
        _integer("carried_rows"),
        _integer("last_timestamp_ms"),
        _text("error"),
        _text("hint"),
    )


def _create(table: str, *columns: Column[str] | Column[int] | Column[float]) -> None:
    op.create_table(table, _name("pipeline", 64), *columns, _integer("updated_at_ms"), if_not_exists=True)


def _position() -> tuple[Column[str] | Column[int], ...]:
    return _text("log_file"), _integer("log_offset"), _integer("rows_from"), _text("gtids")


def _name(name: str, characters_max: int) -> Column[str]:
    exact = mysql.VARCHAR(characters_max, charset="utf8mb4", collation="utf8mb4_bin")
    return Column(name, String(characters_max).with_variant(exact, "mysql", "mariadb"), primary_key=True)


def _text(name: str) -> Column[str]:
    exact = mysql.LONGTEXT(charset="utf8mb4", collation="utf8mb4_bin")
    return Column(name, Text().with_variant(exact, "mysql", "mariadb"), nullable=False)


def _integer(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False)
