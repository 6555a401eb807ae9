"""What became of tables without a row behind it: the log tells of a table ahead of its next row, and never of DROP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.errors import FULL_REFRESH, READ_AGAIN
from penstock.core.postgres.evolution import CAME_BACK, came_back

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from penstock.core.tables import TableId, TableSchema


def unlogged_changes(
    told: Iterable[TableSchema], found: Iterable[TableSchema], published: Container[TableId]
) -> Mapping[TableId, str]:
    """Return what to know of the tables that were `told` of and are not so among those that the source has now."""
    here = {schema.number: schema for schema in found}
    notes = {schema.table: _change(schema, here.get(schema.number), published) for schema in told if schema.number}
    return {table: note for table, note in notes.items() if note}


def _change(told: TableSchema, now: TableSchema | None, published: Container[TableId]) -> str:
    if now is None:
        return (
            "the source has it no more, or does not show it to the user; DROP TABLE is not in the log, so "
            "targets keep the rows that it had: drop it there if that is meant"
        )
    if now.table != told.table:
        return f"it is called {now.table} in the source now; it is renamed here with its next changed row"
    if now.table not in published:
        return (
            "the publication has it no more, so its changes are not in the log: add it to the publication, then "
            f"{READ_AGAIN}"
        )
    if came_back(told, now):
        return f"{CAME_BACK}: it stops at its next changed row. {FULL_REFRESH}"
    old, new = ({column.number: column for column in schema.columns} for schema in (told, now))
    changed = [
        *(f"{old[number].name} is dropped" for number in old if number not in new),
        *(f"{new[number].name} is added" for number in new if number not in old),
        *(f"{old[n].name} is called {new[n].name}" for n in old if n in new and old[n].name != new[n].name),
        *(
            f"{new[n].name} is {new[n].declaration}"
            for n in old
            if n in new and old[n].declaration != new[n].declaration
        ),
    ]
    if not changed:
        return ""
    return f"its columns were changed in the source ({', '.join(changed)}); that is carried with its next changed row"
