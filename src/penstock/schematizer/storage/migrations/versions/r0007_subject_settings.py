"""What a subject's config says beside its level: whether schemas are kept in one form.

MySQL commits each statement by itself, so a crash may leave the step done: it
looks first whether it is.
"""

import sqlalchemy as sa
from alembic import op

revision = "0007_subject_settings"
down_revision = "0006_associations"

_COLUMN = "normalize"


def upgrade() -> None:
    """Add the column."""
    if _COLUMN not in {column["name"] for column in sa.inspect(op.get_bind()).get_columns("subjects")}:
        op.add_column("subjects", sa.Column(_COLUMN, sa.Boolean(), nullable=True))


def downgrade() -> None:
    """Drop the column."""
    with op.batch_alter_table("subjects", table_kwargs={"sqlite_autoincrement": True}) as subjects:
        subjects.drop_column(_COLUMN)
