"""What a landing zone does not take, and what it says then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.core.commands import shell_word
from penstock.core.errors import FULL_REFRESH, TableStoppedError, UsageError
from penstock.core.warehouse.dialect import quote_name
from penstock.core.warehouse.dialects import SNOWFLAKE
from penstock.links.warehouse.pieces import find_lacking

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from penstock.core.schema_changes import Move
    from penstock.core.tables import TableId, TableSchema
    from penstock.links.warehouse.load_rules import LoadRules

ENDED_WITH_RULE: Final = (
    "the source dropped the table: take it out of the sink's `tables`, so that what landed is merged as it is; "
    "or let the link drop such tables (`dropped_tables: drop`)"
)
"""How a table ends whose messages its rule cannot treat."""


def alone(table: TableId, why: str) -> TableStoppedError:
    """What tells the caller to load tables one by one."""
    return stopped(table, f"it cannot be loaded together with others: {why}", "load it alone")


def not_renamed(moves: Sequence[Move]) -> TableStoppedError:
    """What stops tables of which one gets the rows of another."""
    reason = f"it got the rows of {moves[0].origin}, and a landing zone does not rename tables"
    names = sorted({name for move in moves for name in (move.origin, move.table)})
    drops = " and ".join(f"penstock table FILE {shell_word(name)} drop" for name in names)
    filled = " and ".join(f"penstock snapshot FILE {shell_word(move.table)} --full-refresh" for move in moves)
    hint = f"type: {drops}; then {filled}"
    return TableStoppedError(moves[0].table, "", "the target's table", reason, hint)


def require_whole_inserts(schema: TableSchema, rows: pa.Table) -> None:
    """Raise TableStoppedError for an inserted row that lacks columns: only the source knows their defaults."""
    if lacking := find_lacking(schema, rows).created:
        column = min(lacking)
        reason = "a row was inserted without it, and a landing zone cannot complete inserted rows"
        hint = f"set binlog_row_image=FULL in the source; then {FULL_REFRESH}"
        raise TableStoppedError(str(schema.table), column, "the target's table", reason, hint)


def require_whole_changes(schema: TableSchema, rows: pa.Table) -> None:
    """Raise TableStoppedError for a changed row that lacks columns, of a table with a rule: it would judge NULLs."""
    if lacking := find_lacking(schema, rows).changed:
        column = min(lacking)
        # The schema may be the link's, and another one in the source.
        named = quote_name(SNOWFLAKE, schema.table.name)
        reason = "a change came without its value, and the sink's `tables` filter or convert rows of this table"
        hint = (
            f"let the source log whole rows of its table {named} (PostgreSQL: ALTER TABLE ... REPLICA IDENTITY FULL; "
            "MySQL and MariaDB: binlog_row_image=FULL), or take the table out of the sink's `tables`; "
            f"then {FULL_REFRESH}"
        )
        raise TableStoppedError(str(schema.table), column, "the target's table", reason, hint)


def require_plain(rules: LoadRules) -> None:
    """Raise UsageError for what would not be done to the messages."""
    if rules.columns:
        message = "a landing zone holds messages as they are, and the link has rules for `columns`"
        raise UsageError(
            message,
            "take `columns` out of the link, or give the sink `tables` with `columns`: SQL for the public tables",
        )
    if rules.deletes == "soft":
        message = "a landing zone keeps deleted rows in its landing tables, and the link says `deletes: soft`"
        raise UsageError(message, "take `deletes` out of the link")
    if rules.overflow != "stop":
        message = f"a landing zone holds values as they are, and the link says `overflow: {rules.overflow}`"
        raise UsageError(message, "take `overflow` out of the link")


def stopped(table: TableId, reason: str, hint: str) -> TableStoppedError:
    """What stops a table in the target."""
    return TableStoppedError(str(table), "", "the target's table", reason, hint)
