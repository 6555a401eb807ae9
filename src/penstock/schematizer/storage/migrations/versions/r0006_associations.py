"""Associations: which subject a topic goes by.

MySQL commits each statement by itself, so a crash may leave some of the steps
done: each looks first whether it is.
"""

import sqlalchemy as sa
from alembic import op

revision = "0006_associations"
down_revision = "0005_protobuf"

_MYSQL = ("mysql", "mariadb")
_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_NAME = sa.String(255).with_variant(sa.String(255, collation="utf8mb4_bin"), *_MYSQL)
_TABLE = "associations"
_OF_SUBJECT = "ix_associations_subject_id"


def upgrade() -> None:
    """Add the table."""
    inspector = sa.inspect(op.get_bind())
    if not inspector.has_table(_TABLE):
        _create_associations()
    if _OF_SUBJECT not in {index["name"] for index in sa.inspect(op.get_bind()).get_indexes(_TABLE)}:
        op.create_index(op.f(_OF_SUBJECT), _TABLE, ["subject_id"], unique=False)


def downgrade() -> None:
    """Drop the table."""
    op.drop_table(_TABLE)


def _create_associations() -> None:
    op.create_table(
        _TABLE,
        sa.Column("id", _ID, nullable=False),
        sa.Column("guid", sa.String(36), nullable=False),
        sa.Column("resource_namespace", _NAME, nullable=False),
        sa.Column("resource_name", _NAME, nullable=False),
        sa.Column("resource_id", _NAME, nullable=False),
        sa.Column("resource_type", sa.String(16), nullable=False),
        sa.Column("association_type", sa.String(16), nullable=False),
        sa.Column("subject_id", _ID, nullable=False),
        sa.Column("lifecycle", sa.String(16), nullable=False),
        sa.Column("frozen", sa.Boolean(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["subject_id"], ["subjects.id"], name=op.f("fk_associations_subject_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_associations")),
        sa.UniqueConstraint(
            "resource_id",
            "resource_type",
            "association_type",
            name=op.f("uq_associations_resource_id_resource_type_association_type"),
        ),
        sa.UniqueConstraint(
            "resource_name",
            "resource_namespace",
            "resource_type",
            "association_type",
            name=op.f("uq_associations_resource"),
        ),
        sqlite_autoincrement=True,
    )
