"""The ids of schemas that were deleted for ever, and what they stood for.

MySQL commits each statement by itself, so a crash may leave the step done: it
looks first whether it is.
"""

import sqlalchemy as sa
from alembic import op

revision = "0009_deleted_schemas"
down_revision = "0008_compatibility_groups"

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_NAME = sa.String(255).with_variant(sa.String(255, collation="utf8mb4_bin"), "mysql", "mariadb")
_TABLE = "deleted_schemas"


def upgrade() -> None:
    """Make the table."""
    if not sa.inspect(op.get_bind()).has_table(_TABLE):
        op.create_table(
            _TABLE,
            sa.Column("id", _ID, nullable=False),
            sa.Column("schema_id", sa.BigInteger(), nullable=False),
            sa.Column("fingerprint", _NAME, nullable=False),
            sa.PrimaryKeyConstraint("id", name=op.f("pk_deleted_schemas")),
            sa.UniqueConstraint("schema_id", name=op.f("uq_deleted_schemas_schema_id")),
            sqlite_autoincrement=True,
        )


def downgrade() -> None:
    """Drop the table."""
    op.drop_table(_TABLE)
