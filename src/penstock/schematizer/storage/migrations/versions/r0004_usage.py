"""Who uses topics: refreshes, data targets, producers and consumers, meta attributes; and more facts of topics.

MySQL commits each statement by itself, so a crash may leave some of the steps
done: each looks first whether it is.
"""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.mysql import LONGTEXT

revision = "0004_usage"
down_revision = "0003_confluent_face"

_MYSQL = ("mysql", "mariadb")
_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_NAME = sa.String(255).with_variant(sa.String(255, collation="utf8mb4_bin"), *_MYSQL)
_LONG_TEXT = sa.Text().with_variant(LONGTEXT(charset="utf8mb4"), *_MYSQL)
_STATUSES = sa.table("subject_versions", sa.column("status"))
_CREATED = ("refreshes", "data_targets", "consumer_groups", "data_sources", "clients", "client_uses", "meta_attributes")
_INDEXES = {
    "refreshes": (("status", "priority"), ("source_id",)),
    "consumer_groups": (("data_target_id",),),
    "data_sources": (("scope", "entity_id"),),
    "client_uses": (("topic_id",), ("schema_id",)),
    "meta_attributes": (("schema_id",),),
}


def upgrade() -> None:
    """Add what is missing, and call the state of schemas that count by its new name."""
    for table, columns in _new_columns().items():
        present = {column["name"] for column in sa.inspect(op.get_bind()).get_columns(table)}
        for column in columns:
            if column.name not in present:
                op.add_column(table, column)
    op.execute(_STATUSES.update().where(_STATUSES.c.status == "enabled").values(status="read_and_write"))
    for table in _CREATED:
        if not sa.inspect(op.get_bind()).has_table(table):
            _create(table)
    for table, indexes in _INDEXES.items():
        there = {index["name"] for index in sa.inspect(op.get_bind()).get_indexes(table)}
        for indexed in indexes:
            name = f"ix_{table}_{'_'.join(indexed)}"
            if name not in there:
                op.create_index(op.f(name), table, list(indexed), unique=False)


def downgrade() -> None:
    """Drop what was added. A schema that was read only counts again in full."""
    for table in reversed(_CREATED):
        op.drop_table(table)
    read = _STATUSES.c.status.in_(["read_and_write", "read_only"])
    op.execute(_STATUSES.update().where(read).values(status="enabled"))
    for table, columns in _new_columns().items():
        for column in columns:
            op.drop_column(table, column.name)


def _new_columns() -> dict[str, Sequence[sa.Column[Any]]]:
    return {
        "topics": (
            sa.Column("compacted", sa.Boolean(), nullable=True),
            sa.Column("cluster_type", sa.String(32), nullable=False, server_default=""),
            sa.Column("base_schema_id", sa.BigInteger(), nullable=True),
        ),
        "history": (sa.Column("entity", _NAME, nullable=False, server_default=""),),
    }


def _create(table: str) -> None:
    op.create_table(
        table,
        sa.Column("id", _ID, nullable=False),
        *{**_refresh_and_target_columns(), **_client_and_meta_attribute_columns()}[table],
        sa.PrimaryKeyConstraint("id", name=op.f(f"pk_{table}")),
        sqlite_autoincrement=True,
    )


def _refresh_and_target_columns() -> dict[str, Sequence[sa.Column[Any] | sa.Constraint]]:
    return {
        "refreshes": (
            sa.Column("source_id", _ID, nullable=False),
            sa.Column("status", sa.String(16), nullable=False),
            sa.Column("priority", sa.Integer(), nullable=False),
            sa.Column("rows_done", sa.BigInteger(), nullable=False),
            sa.Column("rows_total", sa.BigInteger(), nullable=True),
            sa.Column("offset", _LONG_TEXT, nullable=False),
            sa.Column("batch_rows", sa.Integer(), nullable=False),
            sa.Column("rows_per_second_max", sa.Integer(), nullable=True),
            sa.Column("filter_condition", _LONG_TEXT, nullable=False),
            _time("created_at_ms"),
            _time("updated_at_ms"),
            sa.Column("started_at_ms", sa.BigInteger(), nullable=True),
            sa.Column("ended_at_ms", sa.BigInteger(), nullable=True),
            _reference("refreshes", "source_id", "sources"),
        ),
        "data_targets": (
            sa.Column("name", _NAME, nullable=False),
            sa.Column("type", sa.String(32), nullable=False),
            sa.Column("destination", _LONG_TEXT, nullable=False),
            _time("created_at_ms"),
            _unique("data_targets", "name"),
        ),
        "consumer_groups": (
            sa.Column("name", _NAME, nullable=False),
            sa.Column("data_target_id", _ID, nullable=False),
            _time("created_at_ms"),
            _reference("consumer_groups", "data_target_id", "data_targets"),
            _unique("consumer_groups", "name"),
        ),
        "data_sources": (
            sa.Column("consumer_group_id", _ID, nullable=False),
            sa.Column("scope", sa.String(16), nullable=False),
            sa.Column("entity_id", sa.BigInteger(), nullable=False),
            _time("created_at_ms"),
            _reference("data_sources", "consumer_group_id", "consumer_groups"),
            _unique("data_sources", "consumer_group_id", "scope", "entity_id"),
        ),
    }


def _client_and_meta_attribute_columns() -> dict[str, Sequence[sa.Column[Any] | sa.Constraint]]:
    return {
        "clients": (
            sa.Column("role", sa.String(16), nullable=False),
            sa.Column("name", _NAME, nullable=False),
            sa.Column("team", _NAME, nullable=False),
            sa.Column("owner_email", _NAME, nullable=False),
            sa.Column("expected_frequency_seconds", sa.Integer(), nullable=True),
            _time("created_at_ms"),
            _unique("clients", "role", "name"),
        ),
        "client_uses": (
            sa.Column("client_id", _ID, nullable=False),
            sa.Column("topic_id", _ID, nullable=False),
            sa.Column("schema_id", _ID, nullable=True),
            _time("first_seen_at_ms"),
            _time("last_seen_at_ms"),
            _reference("client_uses", "client_id", "clients"),
            _reference("client_uses", "topic_id", "topics"),
            _reference("client_uses", "schema_id", "schemas"),
            _unique("client_uses", "client_id", "topic_id"),
        ),
        "meta_attributes": (
            sa.Column("scope", sa.String(16), nullable=False),
            sa.Column("entity_id", sa.BigInteger(), nullable=False),
            sa.Column("schema_id", _ID, nullable=False),
            _time("created_at_ms"),
            _reference("meta_attributes", "schema_id", "schemas"),
            _unique("meta_attributes", "scope", "entity_id", "schema_id"),
        ),
    }


def _time(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.BigInteger(), nullable=False)


def _reference(table: str, column: str, to: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint([column], [f"{to}.id"], name=op.f(f"fk_{table}_{column}"))


def _unique(table: str, *columns: str) -> sa.UniqueConstraint:
    return sa.UniqueConstraint(*columns, name=op.f(f"uq_{table}_{'_'.join(columns)}"))
