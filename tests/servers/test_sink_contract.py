"""What every kind of target takes, what it refuses, and what is left after a refusal."""

from __future__ import annotations

import itertools
import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.servers.kinds import on_every_target, on_targets
from tests.servers.sink_case import FIRST, INT, SCHEMAS, TABLE, TOPIC, rows_in, schema_change, write_batch

from penstock.core.errors import TableStoppedError
from penstock.core.file_formats import IN_MESSAGE
from penstock.core.tables import Column, IntegerType, TableId, TableSchema, TimestampType

if TYPE_CHECKING:
    from tests.servers.sink_case import Change, Place

    from penstock.core.batches import Batch
    from penstock.ports.warehouse import Value


@on_every_target
def test_the_newest_change_of_each_key_counts_and_deleting_nothing_is_fine(place: Place) -> None:
    sink = place.open()

    loaded = sink.load(TABLE, [
        place.batch(0, [("c", "a", 1), ("u", "a", 2), ("c", "b", 1), ("d", "b", 1), ("d", "never", 0), ("c", "b", 5)]),
        place.batch(6, [("d", "a", 2), ("r", "c", None)]),
    ], SCHEMAS)  # fmt: skip

    assert rows_in(sink) == [("b", 5), ("c", None)]
    assert loaded.rows == 8
    assert abs(loaded.committed_at_ms - time.time() * 1000) < 60_000
    assert sink.positions(TABLE) == {(TOPIC, 0): 8}


@on_every_target
def test_files_in_messages_are_loaded_among_those_of_the_store(place: Place) -> None:
    sink = place.open()
    batches = [
        place.batch(0, [("c", "a", 1), ("c", "b", 1)]),
        place.moved_into_message(place.batch(2, [("u", "a", 2), ("d", "b", 1)])),
        place.batch(4, [("c", "c", 3)]),
        place.moved_into_message(place.batch(5, [("u", "c", None)], format_=IN_MESSAGE)),
    ]

    first = sink.load(TABLE, batches[:3], SCHEMAS)
    last = sink.load(TABLE, batches, SCHEMAS)

    assert (first.rows, last.rows) == (5, 1)
    assert rows_in(sink) == [("a", 2), ("c", None)]
    assert sink.positions(TABLE) == {(TOPIC, 0): 6}


@on_targets("duckdb", "postgres")
@pytest.mark.parametrize(
    "type_",
    [IntegerType(8, unsigned=False), INT, IntegerType(64, unsigned=False), IntegerType(64, unsigned=True)],
    ids=str,
)
def test_few_keys_that_are_numbers_are_found_like_many(place: Place, type_: IntegerType) -> None:
    table = TableSchema(TABLE, (Column("id", type_, nullable=False), Column("qty", INT, nullable=True)), ("id",))
    first = 0 if type_.unsigned else -(1 << type_.bits - 1)
    last = first + (1 << type_.bits) - 1
    keys = [first, *range(1, 121), last]
    batches = [
        write_batch(place, table, 1, 0, [(key, 0, "c") for key in keys]),
        write_batch(place, table, 1, 122, [(first, 1, "u"), (last, None, "d"), (7, 1, "u"), (7, 2, "u"), (8, 0, "d")]),
        write_batch(place, table, 1, 127, [(first, 2, "d"), (first, 3, "c"), (last, 3, "c"), (8, 3, "d")]),
        write_batch(place, table, 1, 131, [(key, 4, "u") for key in range(1, 121)]),
    ]
    sink = place.open()

    def load(batch: Batch) -> dict[int, Value]:
        sink.load(TABLE, [batch], {1: table})
        rows = rows_in(sink, "SELECT id, qty FROM shop.orders")
        found = {int(row[0]): row[1] for row in rows}
        assert len(found) == len(rows)
        return found

    there = load(batches[0])
    assert there == dict.fromkeys(keys, 0)
    there |= {first: 1, 7: 2}
    del there[last], there[8]
    assert load(batches[1]) == there
    there |= {first: 3, last: 3}
    assert load(batches[2]) == there
    assert load(batches[3]) == there | dict.fromkeys(range(1, 121), 4)


@on_every_target
def test_loading_again_changes_nothing(place: Place) -> None:
    batches = [place.batch(0, [("c", "a", 1)]), place.batch(1, [("u", "a", 2)])]
    sink = place.open()
    sink.load(TABLE, batches, SCHEMAS)

    again = sink.load(TABLE, batches, SCHEMAS)

    assert (again.rows, rows_in(sink)) == (0, [("a", 2)])


@on_every_target
def test_keys_that_differ_in_case_accents_or_spaces_are_different_rows(place: Place) -> None:
    keys = ["e", "E", "é", "e\u0301", "e "]
    sink = place.open()

    sink.load(TABLE, [place.batch(0, [("c", key, 1) for key in keys]), place.batch(5, [("d", "E", 1)])], SCHEMAS)

    assert {row[0] for row in rows_in(sink)} == {"e", "é", "e\u0301", "e "}


@on_every_target
def test_progress_is_kept_per_pipeline_and_source_and_survives(place: Place) -> None:
    sink, other = place.open(), place.open("another")
    sink.finish(17)
    other.finish(4)
    sink.finish(18)
    sink.close()
    other.close()

    sink, other = place.open(), place.open("another")

    assert (sink.batch_offset(), other.batch_offset(), place.open("third").batch_offset()) == (18, 4, 0)
    assert sink.positions(TABLE) == {}


@on_every_target
def test_a_target_knows_which_tables_it_has(place: Place) -> None:
    sink, other = place.open(), TableId("shop", "other")
    at_first = set(sink.absent([TABLE, other]))

    sink.load(TABLE, [place.batch(0, [("c", "a", 1)])], SCHEMAS)

    assert (at_first, set(sink.absent([TABLE, other]))) == ({TABLE, other}, {other})


@on_every_target
def test_a_hole_is_refused_and_leaves_everything_as_it_was(place: Place) -> None:
    sink = place.open()
    sink.load(TABLE, [place.batch(0, [("c", "a", 1)])], SCHEMAS)

    with pytest.raises(TableStoppedError, match="starts at offset 3"):
        sink.load(TABLE, [place.batch(1, [("c", "b", 1)]), place.batch(3, [("c", "c", 1)])], SCHEMAS)

    assert rows_in(sink) == [("a", 1)]
    assert sink.positions(TABLE) == {(TOPIC, 0): 1}


@on_every_target
@pytest.mark.parametrize("spoil", ["rows", "bytes", "schema", "gone"])
def test_a_file_that_is_not_what_its_batch_says_is_refused_whole(place: Place, spoil: str) -> None:
    good, bad = place.batch(0, [("c", "a", 1)]), place.batch(1, [("c", "b", 1)])
    if spoil == "rows":
        bad = replace(bad, rows=2)
    elif spoil == "bytes":
        place.objects.put(bad.path, b"PAR1 not really PAR1")
    elif spoil == "schema":
        place.objects.put(bad.path, place.objects.get(place.batch(1, [("c", "b", None)], schema_id=3).path))
    else:
        bad = replace(bad, path="nowhere.parquet")
    sink = place.open()

    with pytest.raises(TableStoppedError, match=rf"shop\.orders stopped at {re.escape(bad.path)}"):
        sink.load(TABLE, [schema_change(1), good, bad], SCHEMAS)

    # Where definitions commit by themselves the empty table is there.
    assert place.tables() == (["shop.orders"] if place.defines_ahead else [])
    assert sink.positions(TABLE) == {}


@on_every_target
def test_a_later_topic_takes_over_and_an_older_one_that_comes_late_undoes_nothing(place: Place) -> None:
    later = place.batch(0, [("u", "a", 2**40)], schema_id=2, topic=f"{TOPIC}.2")
    sink = place.open()

    sink.load(TABLE, [place.batch(0, [("c", "a", 1), ("c", "b", 1)]), later], SCHEMAS)
    sink.load(TABLE, [schema_change(1), place.batch(2, [("u", "b", 9)])], SCHEMAS)

    assert rows_in(sink) == [("a", 2**40), ("b", 9)]
    assert place.columns()["qty"] == ("NUMBER" if place.defines_ahead else "BIGINT")
    assert sink.positions(TABLE) == {(TOPIC, 0): 3, (f"{TOPIC}.2", 0): 1}


@on_every_target
def test_rows_older_than_a_column_take_the_default_it_came_with_however_late_they_are(place: Place) -> None:
    came, changed = (
        replace(FIRST, columns=(*FIRST.columns, Column("size", INT, nullable=True, default=default)))
        for default in ("4", "9")
    )
    schemas = {1: FIRST, 4: came, 5: changed}
    sink = place.open()
    sink.load(TABLE, [place.batch(0, [("c", "a", 1)]), schema_change(4), schema_change(5)], schemas)

    sink.load(TABLE, [place.batch(1, [("c", "b", 1)])], schemas)

    assert rows_in(sink) == [("a", 1, 4), ("b", 1, 4)]


@on_every_target
def test_a_schema_change_makes_the_table_and_an_empty_table_can_become_any_other(place: Place) -> None:
    sink = place.open()
    sink.load(TABLE, [schema_change(1)], SCHEMAS)
    assert list(place.columns()) == ["id", "qty"]

    sink.load(TABLE, [schema_change(3)], SCHEMAS)

    assert list(place.columns()) == ["id", "title"]
    assert sink.positions(TABLE) == {}


@on_every_target
def test_a_column_that_goes_as_another_comes_takes_its_values_along(place: Place) -> None:
    sink = place.open()
    sink.load(TABLE, [place.batch(0, [("c", "a", 1)])], SCHEMAS)

    sink.load(TABLE, [schema_change(3)], SCHEMAS)

    assert rows_in(sink, "SELECT id FROM shop.orders WHERE title IS NULL") == [("a",)]


@on_every_target
def test_a_change_that_the_target_cannot_follow_stops_the_table_and_loses_nothing(place: Place) -> None:
    sink = place.open()
    sink.load(TABLE, [place.batch(0, [("c", "a", 1)])], SCHEMAS)

    with pytest.raises(TableStoppedError, match="which may change stored values"):
        sink.load(TABLE, [place.batch(1, [("u", "a", 2)]), schema_change(4, 2)], SCHEMAS)

    # Where definitions commit by themselves, what came before this one is committed, too.
    loaded = 1 if place.defines_ahead else 0
    assert rows_in(sink) == [("a", 1 + loaded)]
    assert sink.load(TABLE, [place.batch(1, [("u", "a", 2)])], SCHEMAS).rows == 1 - loaded


def test_a_default_that_only_the_source_knows_stops_the_table(place: Place) -> None:
    computed = Column("at", TimestampType(0), nullable=False, default="now()", default_is_expression=True)
    after = replace(FIRST, columns=(*FIRST.columns, computed))
    sink = place.open()
    sink.load(TABLE, [place.batch(0, [("c", "a", 1)])], SCHEMAS)

    with pytest.raises(TableStoppedError, match=r"shop\.orders\.at stopped .* now\(\) is computed by the source"):
        sink.load(TABLE, [schema_change(4, 1)], {4: after})


def test_a_table_of_the_same_name_that_is_not_ours_is_left_alone(place: Place) -> None:
    sink, other = place.open(), place.open("another")
    other.load(TABLE, [place.batch(0, [("c", "theirs", 1)])], SCHEMAS)

    with pytest.raises(TableStoppedError, match="a table of this name that Penstock did not make"):
        sink.load(TABLE, [schema_change(1)], SCHEMAS)

    assert rows_in(sink) == [("theirs", 1)]


@on_every_target
def test_a_table_that_somebody_dropped_is_not_begun_anew_unasked(place: Place) -> None:
    sink = place.open()
    sink.load(TABLE, [place.batch(0, [("c", "a", 1)])], SCHEMAS)
    place.do("DROP TABLE shop.orders")

    with pytest.raises(TableStoppedError, match="somebody dropped it"):
        sink.load(TABLE, [place.batch(1, [("c", "b", 1)])], SCHEMAS)


@pytest.mark.parametrize("files", range(1, 9))
def test_into_however_many_files_changes_are_cut_they_make_the_same_rows(place: Place, files: int) -> None:
    changes: list[Change] = [("c", key, 0) for key in "abcd"]
    changes += [(op, key, n) for n in range(1, 5) for op, key in (("u", "a"), ("d", "b"), ("c", "b"), ("u", "c"))]
    changes += [("d", "c", 4), ("d", "never", 0), ("u", "d", None)]
    cuts = [len(changes) * n // files for n in range(files + 1)]
    batches = [place.batch(start, changes[start:end]) for start, end in itertools.pairwise(cuts)]
    sink = place.open()

    assert sink.load(TABLE, batches, SCHEMAS).rows == len(changes)
    found = [rows_in(sink)]
    assert sink.load(TABLE, batches, SCHEMAS).rows == 0

    assert [*found, rows_in(sink)] == [[("a", 4), ("b", 4), ("d", None)]] * 2
    assert sink.positions(TABLE) == {(TOPIC, 0): len(changes)}


@pytest.mark.nightly
def test_a_thousand_files_are_one_load(place: Place) -> None:
    batches = [place.batch(n * 3, [("c", f"{n:04}-{m}", n) for m in range(3)]) for n in range(1000)]
    sink = place.open()

    assert sink.load(TABLE, batches, SCHEMAS).rows == 3000
    assert rows_in(sink, "SELECT count(*), sum(qty) FROM shop.orders") == [(3000, 3 * sum(range(1000)))]


@pytest.mark.nightly
@on_targets("duckdb", "postgres")
def test_sources_that_share_a_target_take_turns(place: Place) -> None:
    if place.defines_ahead:
        pytest.skip("the stand-in's own catalog takes one definition at a time, and fails the others")

    def load(source: str) -> None:
        mine = replace(FIRST, table=TableId("shop", source))
        sink = place.open(source)
        for batch in batches:
            sink.load(mine.table, [replace(batch, table=mine.table)], {1: mine})
            sink.finish(batch.end_offset)
        sink.close()

    batches = [place.batch(n, [("c", str(n), n)]) for n in range(20)]
    sources = [f"source{n}" for n in range(3)]
    with ThreadPoolExecutor(3) as threads:
        list(threads.map(load, sources))

    sink = place.open()
    for source in sources:
        assert rows_in(sink, f"SELECT count(*) FROM shop.{source}") == [(20,)]
        assert place.open(source).batch_offset() == 20
