"""The property by whose value a subject's schemas are grouped: only those of one group are compared.

MySQL commits each statement by itself, so a crash may leave the step done: it
looks first whether it is.
"""

import sqlalchemy as sa
from alembic import op

revision = "0008_compatibility_groups"
down_revision = "0007_subject_settings"

_COLUMN = "compatibility_group"
_NAME = sa.String(255).with_variant(sa.String(255, collation="utf8mb4_bin"), "mysql", "mariadb")


def upgrade() -> None:
    """Add the column."""
    if _COLUMN not in {column["name"] for column in sa.inspect(op.get_bind()).get_columns("subjects")}:
        op.add_column("subjects", sa.Column(_COLUMN, _NAME, nullable=True))


def downgrade() -> None:
    """Drop the column."""
    with op.batch_alter_table("subjects", table_kwargs={"sqlite_autoincrement": True}) as subjects:
        subjects.drop_column(_COLUMN)
