"""From one schema of a table to another one: the SQL that a data target needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.core.avro.schemas import table_schema
from penstock.core.errors import PenstockError
from penstock.core.warehouse.alter import plan_migration
from penstock.core.warehouse.dialects import DIALECTS
from penstock.core.warehouse.limits import describe_limits
from penstock.core.warehouse.migration import Around
from penstock.core.warehouse.planner import plan_column_renames, plan_create
from penstock.core.warehouse.target_table import TargetTable
from penstock.schematizer.refusals import Code, RefusedError
from penstock.schematizer.registry.schemas import schema_by_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy.orm import Session

    from penstock.core.tables import TableSchema
    from penstock.core.warehouse.dialect import Dialect


@dataclass(frozen=True, slots=True)
class Migration:
    """What is asked: `before_id` is None for a table that is not there yet.

    `renames` are columns by their old names; None where nobody says whether there
    are any.
    """

    target: str
    before_id: int | None
    after_id: int
    catalog: str = ""
    renames: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Planned:
    """The statements, in their order, and what to know of the result."""

    statements: list[str]
    limits: list[str]


def plan_schema_migration(session: Session, asked: Migration) -> Planned:
    """Plan a migration. Raises RefusedError where a schema is unknown or no table's, or there is no safe way."""
    dialect = DIALECTS[asked.target]
    after = _table(session, asked.after_id)
    before = None if asked.before_id is None else _table(session, asked.before_id)
    try:
        statements = _plan(dialect, asked, before, after)
    except PenstockError as error:
        if isinstance(error, RefusedError):
            raise
        raise RefusedError(Code.INVALID_MIGRATION, error.message, _hint(error)) from error
    return Planned(statements, describe_limits(dialect, after))


def _plan(dialect: Dialect, asked: Migration, before: TableSchema | None, after: TableSchema) -> list[str]:
    if before is None:
        return plan_create(dialect, TargetTable(asked.catalog, after))
    if before.table != after.table:
        message = f"schema {asked.before_id} is of {before.table}, and schema {asked.after_id} of {after.table}"
        raise RefusedError(Code.INVALID_MIGRATION, message, "send two schemas of one table")
    renames = list((asked.renames or {}).items())
    _check_renames(before, after, renames)
    renamed = before.with_columns_renamed(renames)
    target = TargetTable(asked.catalog, before)
    return [
        *(plan_column_renames(dialect, target, renames) if renames else ()),
        *_plan_unseen(
            dialect, TargetTable(asked.catalog, renamed), after, Around(renames_are_told=asked.renames is not None)
        ),
    ]


def _plan_unseen(dialect: Dialect, target: TargetTable, after: TableSchema, around: Around) -> list[str]:
    """Plan a migration of rows that nobody here can look at: what depends on their values is refused."""
    if bool(target.schema.key) != bool(after.key):
        message = f"its primary key was {'added' if after.key else 'dropped'}, which makes it another kind of table"
        raise RefusedError(Code.INVALID_MIGRATION, message, "let a pipeline load it, or begin with an empty table")
    planned = plan_migration(dialect, target, after, around)
    for check in planned.checks:
        if check.column:
            message = f"{after.table}.{check.column}: {check.reason}: it may change stored values"
            raise RefusedError(Code.INVALID_MIGRATION, message, "let a pipeline load it, which looks at them")
    if planned.is_remade and not dialect.definitions_commit:
        return ["BEGIN", *planned.statements, "COMMIT"]
    return [*planned.all_statements]


def _check_renames(before: TableSchema, after: TableSchema, renames: list[tuple[str, str]]) -> None:
    old_names, new_names = ({column.name for column in schema.columns} for schema in (before, after))
    unknown = [f"{old} to {new}" for old, new in renames if old not in old_names or new not in new_names]
    if unknown or len({new for _, new in renames}) < len(renames):
        message = f"these renames do not fit the two schemas: {', '.join(unknown) or 'two columns get one name'}"
        raise RefusedError(
            Code.INVALID_MIGRATION, message, "send names of columns before, and what each is called after"
        )


def _hint(error: PenstockError) -> str:
    if "may be a rename" in error.message:
        return 'send "renames": the columns that got other names, {} if none did'
    return error.hint


def _table(session: Session, schema_id: int) -> TableSchema:
    try:
        return table_schema(schema_by_id(session, schema_id).text)
    except RefusedError:
        raise
    except PenstockError as error:
        message = f"schema {schema_id} is not the schema of a table's values"
        raise RefusedError(Code.INVALID_MIGRATION, message, "send the value_schema_id of a registered table") from error
