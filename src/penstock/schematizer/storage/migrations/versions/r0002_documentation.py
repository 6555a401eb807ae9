"""Documentation: categories, docs and rules; elements, notes, history and what is searched.

MySQL commits each statement by itself, so a crash may leave some of the steps
done: each looks first whether it is.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.mysql import LONGTEXT

from penstock.core.avro.schemas import table_schema
from penstock.core.errors import PenstockError
from penstock.schematizer.storage.words import clean, normalise

revision = "0002_documentation"
down_revision = "0001"

_MYSQL = ("mysql", "mariadb")
_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_NAME = sa.String(255).with_variant(sa.String(255, collation="utf8mb4_bin"), *_MYSQL)
_LONG_TEXT = sa.Text().with_variant(LONGTEXT(charset="utf8mb4"), *_MYSQL)
_EXACT_TEXT = sa.Text().with_variant(LONGTEXT(charset="utf8mb4", collation="utf8mb4_bin"), *_MYSQL)
_CREATED = ("elements", "notes", "history", "search_entries")
_INDEXED = (("notes", "schema_id"), ("history", "namespace"))
_ADDED = {
    "namespaces": ("requires_owner", "requires_docs"),
    "sources": ("category", "doc", "comment"),
}


def _table(name: str, *columns: str) -> sa.TableClause:
    return sa.table(name, *(sa.column(column) for column in columns))


_NAMESPACES = _table("namespaces", "id", "name")
_SOURCES = _table("sources", "id", "namespace_id", "table_schema", "table_name", "comment")
_TOPICS = _table("topics", "id", "source_id", "name")
_REGISTRATIONS = _table("table_registrations", "id", "source_id", "value_schema_id")
_SCHEMAS = _table("schemas", "id", "text")
_PLACE = (_NAMESPACES.c.name.label("namespace"), _SOURCES.c.table_schema, _SOURCES.c.table_name)


def upgrade() -> None:
    """Add what is missing, and describe the tables that are registered by what their schemas say."""
    _add_columns()
    for create in (_create_elements, _create_notes, _create_history, _create_search_entries):
        create()
    for table, column in _INDEXED:
        _create_index(table, column)
    _describe_what_is_there()


def downgrade() -> None:
    """Drop what was added."""
    for table in reversed(_CREATED):
        op.drop_table(table)
    for table, columns in _ADDED.items():
        for column in columns:
            op.drop_column(table, column)


def _add_columns() -> None:
    for table in _ADDED:
        present = {column["name"] for column in sa.inspect(op.get_bind()).get_columns(table)}
        for column in (each for each in _new_columns(table) if each.name not in present):
            op.add_column(table, column)


def _new_columns(table: str) -> list[sa.Column[bool] | sa.Column[str]]:
    if table == "namespaces":
        return [sa.Column(name, sa.Boolean(), nullable=False, server_default=sa.false()) for name in _ADDED[table]]
    # MySQL gives long text no default, and rows that are there the empty text by itself.
    default = None if op.get_bind().dialect.name in _MYSQL else ""
    return [
        sa.Column("category", _NAME, nullable=False, server_default=""),
        sa.Column("doc", _LONG_TEXT, nullable=False, server_default=default),
        sa.Column("comment", _LONG_TEXT, nullable=False, server_default=default),
    ]


def _is_there(table: str) -> bool:
    return sa.inspect(op.get_bind()).has_table(table)


def _create_index(table: str, column: str) -> None:
    name = f"ix_{table}_{column}"
    if name not in {index["name"] for index in sa.inspect(op.get_bind()).get_indexes(table)}:
        op.create_index(op.f(name), table, [column], unique=False)


def _create_elements() -> None:
    if _is_there("elements"):
        return
    op.create_table(
        "elements",
        sa.Column("id", _ID, nullable=False),
        sa.Column("source_id", _ID, nullable=False),
        sa.Column("name", _NAME, nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("type", _LONG_TEXT, nullable=False),
        sa.Column("is_key", sa.Boolean(), nullable=False),
        sa.Column("is_present", sa.Boolean(), nullable=False),
        sa.Column("doc", _LONG_TEXT, nullable=False),
        sa.Column("comment", _LONG_TEXT, nullable=False),
        sa.Column("contains_pii", sa.Boolean(), nullable=True),
        sa.ForeignKeyConstraint(["source_id"], ["sources.id"], name=op.f("fk_elements_source_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_elements")),
        sa.UniqueConstraint("source_id", "name", name=op.f("uq_elements_source_id_name")),
        sqlite_autoincrement=True,
    )


def _create_notes() -> None:
    if _is_there("notes"):
        return
    op.create_table(
        "notes",
        sa.Column("id", _ID, nullable=False),
        sa.Column("schema_id", _ID, nullable=False),
        sa.Column("element", _EXACT_TEXT, nullable=False),
        sa.Column("text", _LONG_TEXT, nullable=False),
        sa.Column("author", _NAME, nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["schema_id"], ["schemas.id"], name=op.f("fk_notes_schema_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notes")),
        sqlite_autoincrement=True,
    )


def _create_history() -> None:
    if _is_there("history"):
        return
    op.create_table(
        "history",
        sa.Column("id", _ID, nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("author", _NAME, nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("namespace", _NAME, nullable=False),
        sa.Column("table_schema", _NAME, nullable=False),
        sa.Column("table_name", _NAME, nullable=False),
        sa.Column("element", _EXACT_TEXT, nullable=False),
        sa.Column("note_id", sa.BigInteger(), nullable=True),
        sa.Column("field", sa.String(length=32), nullable=False),
        sa.Column("before", _LONG_TEXT, nullable=False),
        sa.Column("after", _LONG_TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_history")),
        sqlite_autoincrement=True,
    )


def _create_search_entries() -> None:
    if _is_there("search_entries"):
        return
    op.create_table(
        "search_entries",
        sa.Column("id", _ID, nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("entity_id", sa.BigInteger(), nullable=False),
        sa.Column("namespace", _NAME, nullable=False),
        sa.Column("table_schema", _NAME, nullable=False),
        sa.Column("table_name", _NAME, nullable=False),
        sa.Column("name", _LONG_TEXT, nullable=False),
        sa.Column("doc", _LONG_TEXT, nullable=False),
        sa.Column("name_words", _EXACT_TEXT, nullable=False),
        sa.Column("doc_words", _EXACT_TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_search_entries")),
        sa.UniqueConstraint("kind", "entity_id", name=op.f("uq_search_entries_kind_entity_id")),
        sqlite_autoincrement=True,
    )


def _describe_what_is_there() -> None:
    # What a crash left of the first try is made anew; nobody has written there before the upgrade's end.
    for table in ("search_entries", "elements"):
        op.execute(sa.table(table).delete())
    connection = op.get_bind()
    names = sa.select(_NAMESPACES.c.id, _NAMESPACES.c.name).order_by(_NAMESPACES.c.id)
    for row in connection.execute(names).mappings().all():
        _add_entry("namespace", row["id"], (row["name"], "", ""), row["name"], "")
    newest = sa.select(sa.func.max(_REGISTRATIONS.c.id).label("id")).group_by(_REGISTRATIONS.c.source_id)
    registered = (
        sa.select(_REGISTRATIONS.c.source_id, _SCHEMAS.c.text)
        .join_from(_REGISTRATIONS, _SCHEMAS, _SCHEMAS.c.id == _REGISTRATIONS.c.value_schema_id)
        .where(_REGISTRATIONS.c.id.in_(newest))
        .subquery()
    )
    sources = (
        sa.select(*_PLACE, _SOURCES.c.id, registered.c.text)
        .join_from(_SOURCES, _NAMESPACES, _NAMESPACES.c.id == _SOURCES.c.namespace_id)
        .outerjoin(registered, registered.c.source_id == _SOURCES.c.id)
        .order_by(_SOURCES.c.id)
    )
    for row in connection.execute(sources).mappings().all():
        _describe_source(row)
    topics = (
        sa.select(*_PLACE, _TOPICS.c.id, _TOPICS.c.name)
        .join_from(_TOPICS, _SOURCES, _SOURCES.c.id == _TOPICS.c.source_id)
        .join(_NAMESPACES, _NAMESPACES.c.id == _SOURCES.c.namespace_id)
        .order_by(_TOPICS.c.id)
    )
    for row in connection.execute(topics).mappings().all():
        _add_entry("topic", row["id"], (row["namespace"], row["table_schema"], row["table_name"]), row["name"], "")


def _describe_source(row: sa.RowMapping) -> None:
    try:
        table = table_schema(row["text"] or "")
    except PenstockError:
        table = None
    place = (row["namespace"], row["table_schema"], row["table_name"])
    comment = clean(table.comment) if table else ""
    _add_entry("source", row["id"], place, f"{row['table_schema']}.{row['table_name']}", comment)
    if table is None:
        return
    connection = op.get_bind()
    connection.execute(_SOURCES.update().where(_SOURCES.c.id == row["id"]).values(comment=comment))
    elements = _table("elements", "id", *_ELEMENT_COLUMNS)
    for position, column in enumerate(table.columns):
        values = (row["id"], column.name, position, column.declaration, column.name in table.key)
        named = dict(zip(_ELEMENT_COLUMNS, (*values, True, "", clean(column.comment)), strict=True))
        connection.execute(elements.insert().values(named))
        found = sa.select(elements.c.id).where(elements.c.source_id == row["id"], elements.c.name == column.name)
        element_id = connection.execute(found).scalar_one()
        _add_entry("element", element_id, place, column.name, clean(column.comment))


_ELEMENT_COLUMNS = ("source_id", "name", "position", "type", "is_key", "is_present", "doc", "comment")


def _add_entry(kind: str, entity_id: int, place: tuple[str, str, str], name: str, doc: str) -> None:
    names = ("kind", "entity_id", "namespace", "table_schema", "table_name", "name", "doc", "name_words", "doc_words")
    entries = _table("search_entries", *names)
    values = (kind, entity_id, *place, name, doc, normalise(name), normalise(doc))
    op.get_bind().execute(entries.insert().values(dict(zip(names, values, strict=True))))
