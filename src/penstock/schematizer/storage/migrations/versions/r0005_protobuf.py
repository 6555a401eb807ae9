"""Protobuf: descriptors of the texts that were compiled.

MySQL commits each statement by itself, so a crash may leave the step done: it
looks first whether it is.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.mysql import LONGTEXT

revision = "0005_protobuf"
down_revision = "0004_usage"

_MYSQL = ("mysql", "mariadb")
_NAME = sa.String(255).with_variant(sa.String(255, collation="utf8mb4_bin"), *_MYSQL)
_LONG_TEXT = sa.Text().with_variant(LONGTEXT(charset="utf8mb4"), *_MYSQL)


def upgrade() -> None:
    """Make the table."""
    if not sa.inspect(op.get_bind()).has_table("protobuf_files"):
        op.create_table(
            "protobuf_files",
            sa.Column("digest", _NAME, nullable=False),
            sa.Column("descriptor", _LONG_TEXT, nullable=False),
            sa.PrimaryKeyConstraint("digest", name=op.f("pk_protobuf_files")),
        )


def downgrade() -> None:
    """Drop the table; what it has can be compiled again."""
    op.drop_table("protobuf_files")
