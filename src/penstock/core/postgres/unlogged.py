"""What became of tables without a row behind it: the log tells of a table ahead of its next row, and never of DROP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.core.commands import shell_word
from penstock.core.errors import FULL_REFRESH, READ_AGAIN
from penstock.core.postgres.evolution import CAME_BACK, came_back
from penstock.core.postgres.partitions import have_changed, told_apart, were_rewritten

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Iterator, Mapping

    from penstock.core.postgres.partitions import Partition
    from penstock.core.tables import TableId, TableSchema

# What may be let be says what was seen: should it happen again, the note is another one.
_PUBLICATION_ALTERED: Final = (
    "the publication itself was altered since the table's rows were read (ALTER PUBLICATION ... SET (...), OWNER TO, "
    "RENAME TO), last by transaction {seen}. If it was without some kinds of changes for a while, targets lack these; "
    "if not, let this be"
)
_PARTITIONS_CHANGED: Final = (
    "a partition of it was attached, detached or dropped since its rows were read, which is not in the log: targets "
    "lack the rows that came with it, or keep those that went. If that is meant, let this be. It has {seen}"
)
_PARTITION_REWRITTEN: Final = (
    "a partition of it was emptied (TRUNCATE) or written anew (VACUUM FULL, CLUSTER, ALTER) since its rows were read. "
    "TRUNCATE of a partition is not in the log: targets keep the rows that it had. If it was none, let this be. It has "
    "{seen}"
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
            found_here = [_change(schema, now, published, roots.get(schema.number))]
            if now is not None:
                found_here += _may_lack(schema, now, partitions.get(schema.number, ()))
            notes[schema.table] = "; also, ".join(note for note in found_here if note)
    return {table: note for table, note in notes.items() if note}


def _may_lack(told: TableSchema, now: TableSchema, partitions: Collection[Partition]) -> Iterator[str]:
    """Say what no changed row brings to light: until a refresh, nobody knows whether targets have what they should."""
    if told.partitions and have_changed(told.partitions, partitions):
        counted = told_apart(told.partitions, partitions)
        newest = max((each.attached_by for each in counted), default=0)
        seen = f"{len(counted)} of those and of attached ones, the newest by transaction {newest}"
        yield f"{_PARTITIONS_CHANGED.format(seen=seen)}. {FULL_REFRESH}"
    if told.partition_files and were_rewritten(told.partition_files, partitions):
        others = [each for each in partitions if not each.has_first_file]
        newest = max((each.file for each in others), default=0)
        seen = f"{len(others)} of these, the newest in file {newest}"
        yield f"{_PARTITION_REWRITTEN.format(seen=seen)}. {FULL_REFRESH}"
    before, after = told.publication_altered_by, now.publication_altered_by
    if before and after and before != after:
        yield f"{_PUBLICATION_ALTERED.format(seen=after)}. {FULL_REFRESH}"


def _gone(root: TableId | None) -> str:
    if root is None:
        return (
            "the source has it no more, or made it UNLOGGED. One that was dropped ends here a minute or two later, or "
            "when the capture has come so far, where Kafka has transactions; until then, and without, targets keep its "
            "rows"
        )
    return (
        f"it is a partition of {root} in the source now, which gets its new rows, and not those of before. Type: "
        f"penstock snapshot FILE {shell_word(root)} --full-refresh; then drop this one in targets"
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
