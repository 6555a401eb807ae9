"""What Confluent's clients keep: types of schemas, references, metadata, rules, modes and deleted versions.

MySQL commits each statement by itself, so a crash may leave some of the steps
done: each looks first whether it is.
"""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.mysql import LONGTEXT

revision = "0003_confluent_face"
down_revision = "0002_documentation"

_MYSQL = ("mysql", "mariadb")
_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_NAME = sa.String(255).with_variant(sa.String(255, collation="utf8mb4_bin"), *_MYSQL)
_LONG_TEXT = sa.Text().with_variant(LONGTEXT(charset="utf8mb4"), *_MYSQL)
_SAME_SCHEMA_ONCE = "uq_subject_versions_subject_id_schema_id"
_FINGERPRINT_INDEX = "ix_schemas_text_fingerprint"


def upgrade() -> None:
    """Widen the tables; what is there is Avro, and its text is all that it is."""
    _add_columns("schemas", _new_columns_of_schemas())
    _add_columns("subjects", [sa.Column("mode", sa.String(32), nullable=False, server_default="")])
    fingerprints = sa.table("schemas", sa.column("fingerprint"), sa.column("text_fingerprint"))
    old = fingerprints.c.text_fingerprint == ""
    op.execute(sa.update(fingerprints).where(old).values(text_fingerprint=fingerprints.c.fingerprint))
    inspector = sa.inspect(op.get_bind())
    if _FINGERPRINT_INDEX not in {index["name"] for index in inspector.get_indexes("schemas")}:
        op.create_index(op.f(_FINGERPRINT_INDEX), "schemas", ["text_fingerprint"], unique=False)
    if _SAME_SCHEMA_ONCE in {unique["name"] for unique in inspector.get_unique_constraints("subject_versions")}:
        with op.batch_alter_table("subject_versions", table_kwargs={"sqlite_autoincrement": True}) as versions:
            versions.drop_constraint(op.f(_SAME_SCHEMA_ONCE), type_="unique")
    if not inspector.has_table("schema_references"):
        _create_schema_references()


def _new_columns_of_schemas() -> Sequence[sa.Column[Any]]:
    return [
        sa.Column("type", sa.String(16), nullable=False, server_default="AVRO"),
        sa.Column("text_fingerprint", _NAME, nullable=False, server_default=""),
        sa.Column("metadata_json", sa.JSON(), nullable=True),
        sa.Column("rule_set_json", sa.JSON(), nullable=True),
    ]


def _add_columns(table: str, columns: Sequence[sa.Column[Any]]) -> None:
    present = {column["name"] for column in sa.inspect(op.get_bind()).get_columns(table)}
    for column in columns:
        if column.name not in present:
            op.add_column(table, column)


def downgrade() -> None:
    """Narrow the tables again. Fails where a schema came back to a subject after it was deleted there."""
    op.drop_table("schema_references")
    with op.batch_alter_table("subject_versions", table_kwargs={"sqlite_autoincrement": True}) as versions:
        versions.create_unique_constraint(op.f(_SAME_SCHEMA_ONCE), ["subject_id", "schema_id"])
    op.drop_column("subjects", "mode")
    op.drop_index(op.f(_FINGERPRINT_INDEX), "schemas")
    for column in ("rule_set_json", "metadata_json", "text_fingerprint", "type"):
        op.drop_column("schemas", column)


def _create_schema_references() -> None:
    op.create_table(
        "schema_references",
        sa.Column("id", _ID, nullable=False),
        sa.Column("schema_id", _ID, nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("name", _LONG_TEXT, nullable=False),
        sa.Column("version_id", _ID, nullable=False),
        sa.ForeignKeyConstraint(["schema_id"], ["schemas.id"], name=op.f("fk_schema_references_schema_id")),
        sa.ForeignKeyConstraint(["version_id"], ["subject_versions.id"], name=op.f("fk_schema_references_version_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_schema_references")),
        sa.UniqueConstraint("schema_id", "ordinal", name=op.f("uq_schema_references_schema_id_ordinal")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_schema_references_version_id"), "schema_references", ["version_id"], unique=False)
