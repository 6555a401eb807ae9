"""What became of tables without a row behind it: the log tells of a table ahead of its next row, and never of DROP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.core.errors import FULL_REFRESH, READ_AGAIN
from penstock.core.postgres.evolution import CAME_BACK, came_back
from penstock.core.postgres.partitions import have_changed, were_rewritten

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Mapping

    from penstock.core.postgres.partitions import Partition
    from penstock.core.tables import TableId, TableSchema

_PUBLICATION_ALTERED: Final = (
    "the publication itself was altered since the table's rows were read (ALTER PUBLICATION ... SET (...), OWNER TO, "
    "RENAME TO). If it was without some kinds of changes for a while, targets lack these; if not, let this be"
)
_PARTITIONS_CHANGED: Final = (
    "a partition of it was attached, detached or dropped since its rows were read, which is not in the log: targets "
    "lack the rows that came with it, or keep those that went"
)

_PARTITION_REWRITTEN: Final = (
    "a partition of it was emptied (TRUNCATE) or written anew (VACUUM FULL, CLUSTER, ALTER) since its rows were read. "
    "TRUNCATE of a partition is not in the log: targets keep the rows that it had. If it was none, let this be"
)


def unlogged_changes(
    told: Iterable[TableSchema],
    found: Iterable[TableSchema],
    published: Container[TableId],
    partitions: Mapping[int, Collection[Partition]],
) -> Mapping[TableId, str]:
    """Return what to know of the tables that were `told` of and are not so among those that the source has now.

    `partitions` are those of partitioned tables, by the number of the table.
    """
    here = {schema.number: schema for schema in found}
    roots = {each.oid: here[number].table for number, parts in partitions.items() for each in parts if number in here}
    notes = {}
    for schema in told:
        if schema.number:
            now = here.get(schema.number)
            notes[schema.table] = (
                _change(schema, now, published, roots.get(schema.number))
                or _moved(schema, partitions.get(schema.number, ()))
                or _altered(schema, now)
            )
    return {table: note for table, note in notes.items() if note}


def _moved(told: TableSchema, partitions: Collection[Partition]) -> str:
    if told.partitions and have_changed(told.partitions, partitions):
        return f"{_PARTITIONS_CHANGED}. {FULL_REFRESH}"
    if told.partition_files and were_rewritten(told.partition_files, partitions):
        return f"{_PARTITION_REWRITTEN}. {FULL_REFRESH}"
    return ""


def _altered(told: TableSchema, now: TableSchema | None) -> str:
    """Say that nobody knows what the publication left out: it is whole now, and was when the rows were read."""
    before, after = told.publication_altered_by, now.publication_altered_by if now else 0
    return f"{_PUBLICATION_ALTERED}. {FULL_REFRESH}" if before and after and before != after else ""


def _gone(root: TableId | None) -> str:
    if root is None:
        return (
            "the source has it no more, or does not show it to the user; DROP TABLE is not in the log, so "
            "targets keep the rows that it had: drop it there if that is meant"
        )
    return (
        f"it is a partition of {root} in the source now, which gets its new rows, and not those of before. Type: "
        f"penstock snapshot FILE {root} --full-refresh; then drop this one in targets"
    )


def _change(told: TableSchema, now: TableSchema | None, published: Container[TableId], root: TableId | None) -> str:
    if now is None:
        return _gone(root)
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
