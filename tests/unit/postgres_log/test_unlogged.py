"""Tables that were changed without a row behind it."""

from __future__ import annotations

from dataclasses import replace

from penstock.core.postgres.partitions import Partition, files_number, partitions_number
from penstock.core.postgres.unlogged import unlogged_changes
from penstock.core.tables import Column, IntegerType, TableId, TableSchema

_INT = IntegerType(32, unsigned=False)
_COLUMNS = (
    Column("id", _INT, nullable=False, declaration="integer", number=1),
    Column("n", _INT, nullable=True, number=2),
)
_TABLE = TableSchema(TableId("public", "t"), _COLUMNS, ("id",), partial_rows=True, number=16400)


def _note(*found: TableSchema) -> str:
    return unlogged_changes([_TABLE], found, [each.table for each in found], {}).get(_TABLE.table, "")


def test_a_table_as_it_was_told_of_is_no_news() -> None:
    assert _note(replace(_TABLE, comment="new"), replace(_TABLE, table=TableId("public", "u"), number=1)) == ""


def test_a_table_that_is_gone_or_made_anew_is_named() -> None:
    assert "the source has it no more" in _note()
    assert "the source has it no more" in _note(replace(_TABLE, number=16500))


def test_a_table_that_has_another_name_is_named_with_it() -> None:
    assert "is called public.u" in _note(replace(_TABLE, table=TableId("public", "u")))


def test_a_table_that_the_publication_has_no_more_is_named() -> None:
    assert "publication has it no more" in unlogged_changes([_TABLE], [_TABLE], [], {})[_TABLE.table]


def test_a_table_that_came_back_to_the_publication_is_named_with_what_to_type() -> None:
    told, now = replace(_TABLE, published=17), replace(_TABLE, published=19)

    note = unlogged_changes([told], [now], [told.table], {})[told.table]

    assert "came back" in note
    assert "penstock snapshot FILE TABLE --full-refresh" in note
    assert unlogged_changes([told], [told], [told.table], {}) == {}


def test_a_table_is_named_when_the_publication_itself_was_altered_since_its_rows_were_read() -> None:
    def note(before: int, now: int) -> str:
        told, found = (replace(_TABLE, publication_altered_by=by) for by in (before, now))
        return unlogged_changes([told], [found], [told.table], {}).get(told.table, "")

    assert "publication itself was altered" in note(700, 701)
    assert "penstock snapshot FILE TABLE --full-refresh" in note(700, 701)
    assert note(700, 700) == note(0, 701) == ""
    assert note(700, 701) != note(700, 702)


def test_a_table_whose_partitions_came_or_went_is_named_until_its_rows_are_read_again() -> None:
    made, attached = Partition(16500, 700, is_made_as_one=True), Partition(16390, 701, is_made_as_one=False)
    told = replace(_TABLE, partitions=partitions_number([made]))

    def note(*partitions: Partition) -> str:
        return unlogged_changes([told], [told], [told.table], {told.number: partitions}).get(told.table, "")

    assert "attached, detached or dropped" in note(made, attached)
    assert "penstock snapshot FILE TABLE --full-refresh" in note()
    assert note(made, replace(made, oid=16600)) == ""
    assert unlogged_changes([_TABLE], [_TABLE], [_TABLE.table], {_TABLE.number: [attached]}) == {}


def test_a_table_of_which_a_partition_was_emptied_is_named_until_its_rows_are_read_again() -> None:
    made, own = (Partition(oid, 700, is_made_as_one=True, file=oid) for oid in (16500, 16501))
    told = replace(_TABLE, partitions=partitions_number([made, own]), partition_files=files_number([made, own]))

    def note(*partitions: Partition) -> str:
        return unlogged_changes([told], [told], [told.table], {told.number: partitions}).get(told.table, "")

    assert "a partition of it was emptied (TRUNCATE)" in note(made, replace(own, file=16600))
    assert "penstock snapshot FILE TABLE --full-refresh" in note(made, replace(own, file=16600))
    assert note(made, own) == ""
    again = replace(own, file=16700)
    assert note(made, again) != note(made, replace(own, file=16600))
    assert note(made, again) == note(made, replace(again, altered_by=702))


def test_everything_that_became_of_a_table_is_named() -> None:
    made, added = Partition(16500, 700, is_made_as_one=True, file=16500), Column("m", _INT, nullable=True, number=3)
    told = replace(
        _TABLE,
        partitions=partitions_number([made]),
        partition_files=files_number([made]),
        publication_altered_by=700,
    )
    now = replace(told, columns=(*_COLUMNS, added), publication_altered_by=703)
    attached = Partition(16390, 701, is_made_as_one=False, file=16390)
    parts = [replace(made, file=16600, altered_by=702), attached]
    rotated = Partition(16700, 705, is_made_as_one=True, file=16700)

    note = unlogged_changes([told], [now], [told.table], {told.number: parts})[told.table]

    assert [part.split(" ")[0] for part in note.split("; also, ")] == ["its", "a", "a", "the"]
    assert "(m is added)" in note
    assert "It has 2 of those and of attached ones, the newest by transaction 701" in note
    assert "It has 1 of these, the newest in file 16600" in note
    assert unlogged_changes([told], [now], [told.table], {told.number: [*parts, rotated]})[told.table] == note
    assert "last by transaction 703" in note


def test_a_table_that_became_a_partition_is_named_with_its_root() -> None:
    root = replace(_TABLE, table=TableId("public", "whole"), number=16300)
    parts = {root.number: [Partition(_TABLE.number, 700, is_made_as_one=False)]}

    note = unlogged_changes([_TABLE], [root], [root.table], parts)[_TABLE.table]

    assert "is a partition of public.whole" in note
    assert "penstock snapshot FILE public.whole --full-refresh" in note


def test_columns_that_were_changed_are_named() -> None:
    first, second = _COLUMNS
    columns = (replace(first, declaration="bigint"), replace(second, name="m"), replace(second, name="k", number=3))

    assert "(k is added, n is called m, id is bigint)" in _note(replace(_TABLE, columns=columns))
    assert "(n is dropped)" in _note(replace(_TABLE, columns=(first,)))
