"""The first entities: namespaces, sources, topics, schemas, subjects and registrations."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.mysql import LONGTEXT

revision = "0001"
down_revision = None

_MYSQL = ("mysql", "mariadb")
_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_NAME = sa.String(255).with_variant(sa.String(255, collation="utf8mb4_bin"), *_MYSQL)
_LONG_TEXT = sa.Text().with_variant(LONGTEXT(charset="utf8mb4"), *_MYSQL)


def upgrade() -> None:
    """Create every table."""
    _create_namespaces()
    _create_schemas()
    _create_settings()
    _create_sources()
    _create_topics()
    _create_subjects()
    _create_table_registrations()
    _create_subject_versions()


def downgrade() -> None:
    """Drop every table."""
    for table in (
        "subject_versions",
        "table_registrations",
        "subjects",
        "topics",
        "sources",
        "settings",
        "schemas",
        "namespaces",
    ):
        op.drop_table(table)


def _create_namespaces() -> None:
    op.create_table(
        "namespaces",
        sa.Column("id", _ID, nullable=False),
        sa.Column("name", _NAME, nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_namespaces")),
        sa.UniqueConstraint("name", name=op.f("uq_namespaces_name")),
        sqlite_autoincrement=True,
    )


def _create_schemas() -> None:
    op.create_table(
        "schemas",
        sa.Column("id", _ID, nullable=False),
        sa.Column("fingerprint", _NAME, nullable=False),
        sa.Column("text", _LONG_TEXT, nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_schemas")),
        sa.UniqueConstraint("fingerprint", name=op.f("uq_schemas_fingerprint")),
        sqlite_autoincrement=True,
    )


def _create_settings() -> None:
    op.create_table(
        "settings",
        sa.Column("name", _NAME, nullable=False),
        sa.Column("value", _LONG_TEXT, nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_settings")),
    )


def _create_sources() -> None:
    op.create_table(
        "sources",
        sa.Column("id", _ID, nullable=False),
        sa.Column("namespace_id", _ID, nullable=False),
        sa.Column("table_schema", _NAME, nullable=False),
        sa.Column("table_name", _NAME, nullable=False),
        sa.Column("owner_email", _NAME, nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["namespace_id"], ["namespaces.id"], name=op.f("fk_sources_namespace_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sources")),
        sa.UniqueConstraint(
            "namespace_id", "table_schema", "table_name", name=op.f("uq_sources_namespace_id_table_schema_table_name")
        ),
        sqlite_autoincrement=True,
    )


def _create_topics() -> None:
    op.create_table(
        "topics",
        sa.Column("id", _ID, nullable=False),
        sa.Column("name", _NAME, nullable=False),
        sa.Column("collision_name", _NAME, nullable=False),
        sa.Column("source_id", _ID, nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("follows_id", _ID, nullable=True),
        sa.Column("key_schema_id", _ID, nullable=True),
        sa.Column("key_fields", sa.JSON(), nullable=False),
        sa.Column("opened_because", sa.JSON(), nullable=False),
        sa.Column("contains_pii", sa.Boolean(), nullable=False),
        sa.Column("partitions", sa.SmallInteger(), nullable=True),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["follows_id"], ["topics.id"], name=op.f("fk_topics_follows_id")),
        sa.ForeignKeyConstraint(["key_schema_id"], ["schemas.id"], name=op.f("fk_topics_key_schema_id")),
        sa.ForeignKeyConstraint(["source_id"], ["sources.id"], name=op.f("fk_topics_source_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_topics")),
        sa.UniqueConstraint("collision_name", name=op.f("uq_topics_collision_name")),
        sa.UniqueConstraint("name", name=op.f("uq_topics_name")),
        sa.UniqueConstraint("source_id", "ordinal", name=op.f("uq_topics_source_id_ordinal")),
        sqlite_autoincrement=True,
    )


def _create_subjects() -> None:
    op.create_table(
        "subjects",
        sa.Column("id", _ID, nullable=False),
        sa.Column("name", _NAME, nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("topic_id", _ID, nullable=True),
        sa.Column("compatibility", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(["topic_id"], ["topics.id"], name=op.f("fk_subjects_topic_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_subjects")),
        sa.UniqueConstraint("name", name=op.f("uq_subjects_name")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_subjects_topic_id"), "subjects", ["topic_id"], unique=False)


def _create_table_registrations() -> None:
    op.create_table(
        "table_registrations",
        sa.Column("id", _ID, nullable=False),
        sa.Column("source_id", _ID, nullable=False),
        sa.Column("topic_id", _ID, nullable=False),
        sa.Column("value_schema_id", _ID, nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["source_id"], ["sources.id"], name=op.f("fk_table_registrations_source_id")),
        sa.ForeignKeyConstraint(["topic_id"], ["topics.id"], name=op.f("fk_table_registrations_topic_id")),
        sa.ForeignKeyConstraint(
            ["value_schema_id"], ["schemas.id"], name=op.f("fk_table_registrations_value_schema_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_table_registrations")),
        sa.UniqueConstraint(
            "topic_id", "value_schema_id", name=op.f("uq_table_registrations_topic_id_value_schema_id")
        ),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_table_registrations_source_id"), "table_registrations", ["source_id"], unique=False)


def _create_subject_versions() -> None:
    op.create_table(
        "subject_versions",
        sa.Column("id", _ID, nullable=False),
        sa.Column("subject_id", _ID, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("schema_id", _ID, nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["schema_id"], ["schemas.id"], name=op.f("fk_subject_versions_schema_id")),
        sa.ForeignKeyConstraint(["subject_id"], ["subjects.id"], name=op.f("fk_subject_versions_subject_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_subject_versions")),
        sa.UniqueConstraint("subject_id", "schema_id", name=op.f("uq_subject_versions_subject_id_schema_id")),
        sa.UniqueConstraint("subject_id", "version", name=op.f("uq_subject_versions_subject_id_version")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_subject_versions_schema_id"), "subject_versions", ["schema_id"], unique=False)
