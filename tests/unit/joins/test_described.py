"""Messages that are older, or newer, than the columns that a join knows are read as SQL shows their rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.joins.joined_streams import table_of

from penstock.core.arrow_types import arrow_schema
from penstock.core.avro.schemas import value_schema
from penstock.core.errors import PenstockError, UnavailableError
from penstock.core.joins.described import Described, described
from penstock.core.joins.events import DELETE, UPSERT, Changed, row_events
from penstock.core.joins.inputs import JoinInput, JoinOutput
from penstock.core.joins.plan import plan_join
from penstock.core.joins.rows import decode_stored
from penstock.core.schema_changes import SchemaChange, SchemaChangeKind
from penstock.core.tables import (
    BytesType,
    Column,
    EnumType,
    IntegerType,
    PrintedType,
    TableId,
    TableSchema,
    TextType,
    TimeType,
)
from penstock.links.joins.columns import InputColumns, widened
from penstock.links.joins.decode import JoinDecoder
from penstock.links.joins.spec import JoinJob, JoinStream

INT, TEXT = IntegerType(32, unsigned=False), TextType(20, "utf8mb4")
ID = Column("id", INT, nullable=False)
STARS = Column("stars", INT, nullable=True)
STATUS = Column("status", TEXT, nullable=True, default="open")
FIRST = (ID, STARS)
NO_KEY = pa.nulls(1, pa.binary())


@dataclass(frozen=True)
class Life:
    """The columns that a table had, with what its statements renamed; statement n stands at (1, 100 * n, 0).

    Equal columns are one schema, as in the registry.
    """

    versions: tuple[tuple[tuple[Column, ...], tuple[tuple[str, str], ...]], ...]
    begins: tuple[int, ...] = ()

    def table(self, number: int) -> TableSchema:
        return table_of(0, self.versions[number][0], ("id",))

    def schema_id(self, number: int) -> int:
        texts = [value_schema(self.table(each)) for each in range(len(self.versions))]
        return texts.index(texts[number])

    def schema(self, schema_id: int) -> str:
        return value_schema(self.table(schema_id))

    def stream(self, planned: int, known: int | None = None) -> JoinStream:
        told = [
            Described((1, 100 * number, 0), self.schema_id(number), renames, number in self.begins)
            for number, (_, renames) in enumerate(self.versions[:known])
        ]
        place = TableId("shop", "t0")
        return JoinStream("db", place, "db.shop.t0", self.schema_id(planned), "", (((0, 0),),), tuple(told))

    def events(self, rows: list[tuple[int, dict[str, Any]]], planned: int, **said: Any) -> list[dict[str, Any] | None]:  # noqa: ANN401 - what a file says
        """What a join of the version `planned` keeps of rows of versions, all of one schema; None for none."""
        given = JoinInput("db.shop.t0", self.table(planned), said.pop("join_keys", ("id",)), **said)
        keys = [given.table.column(name) for name in given.join_keys]
        others = tuple(replace(key, name=f"key{number}", nullable=False) for number, key in enumerate(keys))
        names = tuple(key.name for key in others)
        other = JoinInput("other", table_of(1, others, names), names, names)
        plan = plan_join([given, other], JoinOutput(TableId("joined", "rows"), ("id",)))
        (schema_id,) = {self.schema_id(number) for number, _ in rows}
        schema = arrow_schema(self.table(schema_id))
        batch = pa.RecordBatch.from_pylist([row for _, row in rows], schema=schema)
        orders = np.array([(1, 100 * number + 1, 0) for number, _ in rows], np.int64)
        columns = InputColumns(plan.inputs[0], self.stream(planned), self.schema)
        found: list[dict[str, Any] | None] = []
        for part, piece, _ in columns.pieces(schema_id, batch, orders):
            count = piece.num_rows
            changed = Changed(piece, np.zeros(count, np.bool_), 0, np.arange(count), orders[part])
            events = row_events(plan, 0, changed)
            names = [column.name for column in plan.inputs[0].stored.columns]
            for op, row in zip(events.column("op").to_pylist(), events.column("row"), strict=True):
                if op == DELETE:
                    found.append(None)
                    continue
                assert op == UPSERT
                values = decode_stored(plan.inputs[0], pa.array([row.as_py()], pa.binary()))
                found.append({name: value[0].as_py() for name, value in zip(names, values, strict=True)})
        return found


def life(*versions: tuple[Column, ...] | tuple[tuple[Column, ...], tuple[tuple[str, str], ...]]) -> Life:
    pairs = [each if each and isinstance(each[0], tuple) else (each, ()) for each in versions]
    return Life(tuple(pairs))


def test_rows_that_are_older_than_a_column_have_its_default() -> None:
    table = life(FIRST, (*FIRST, STATUS))

    assert table.events([(0, {"id": 1, "stars": 3})], 1) == [{"id": 1, "stars": 3, "status": "open"}]


def test_it_is_the_default_that_the_column_came_with() -> None:
    closed = replace(STATUS, default="closed", type=TextType(40, "utf8mb4"))
    table = life(FIRST, (*FIRST, STATUS), (*FIRST, closed))

    assert table.events([(0, {"id": 1, "stars": 3})], 2) == [{"id": 1, "stars": 3, "status": "open"}]


def test_what_the_source_filled_rows_with_goes_before_the_default() -> None:
    table = life(FIRST, (*FIRST, replace(STATUS, default_is_expression=True, filled="then")))

    assert table.events([(0, {"id": 1, "stars": 3})], 1) == [{"id": 1, "stars": 3, "status": "then"}]


def test_a_column_without_a_default_is_null_in_older_rows() -> None:
    table = life(FIRST, (*FIRST, replace(STATUS, default=None)))

    assert table.events([(0, {"id": 1, "stars": 3})], 1) == [{"id": 1, "stars": 3, "status": None}]


def test_older_rows_meet_a_condition_on_a_column_that_came_later() -> None:
    table = life(FIRST, (*FIRST, STATUS))

    found = table.events([(0, {"id": 1, "stars": 3})], 1, where="status = 'open'", exclude=("status",))

    assert found == [{"id": 1, "stars": 3}]


def test_a_column_that_came_as_not_null_has_its_default_in_older_rows() -> None:
    table = life(FIRST, (*FIRST, Column("n", INT, nullable=False, default="5")))

    assert table.events([(0, {"id": 1, "stars": 3})], 1) == [{"id": 1, "stars": 3, "n": 5}]


def test_a_value_that_nobody_knows_stops_the_join_with_what_to_do() -> None:
    table = life(FIRST, (*FIRST, Column("raw", BytesType(9, fixed=False), nullable=False, default="0x01")))

    with pytest.raises(PenstockError, match="rows are older than its column raw, and their value there is not known"):
        table.events([(0, {"id": 1, "stars": 3})], 1)
    assert table.events([(0, {"id": 1, "stars": 3})], 1, exclude=("raw",)) == [{"id": 1, "stars": 3}]


def test_rows_that_are_older_than_their_join_key_join_by_its_default_or_with_nothing() -> None:
    owner = Column("owner_id", INT, nullable=True, default="7")
    by_default = life(FIRST, (*FIRST, owner)).events([(0, {"id": 1, "stars": 3})], 1, join_keys=("owner_id",))
    with_nothing = life(FIRST, (*FIRST, replace(owner, default=None)))

    assert by_default == [{"id": 1, "stars": 3, "owner_id": 7}]
    assert with_nothing.events([(0, {"id": 1, "stars": 3})], 1, join_keys=("owner_id",)) == [None]


RATING = replace(STARS, name="rating")
RENAMED = life(FIRST, ((ID, RATING), (("stars", "rating"),)))


def test_a_column_is_found_by_its_name_of_then() -> None:
    assert RENAMED.events([(0, {"id": 1, "stars": 3})], 1) == [{"id": 1, "rating": 3}]


def test_a_column_that_is_renamed_while_a_join_goes_on_keeps_its_values() -> None:
    assert RENAMED.events([(1, {"id": 1, "rating": 3})], 0) == [{"id": 1, "stars": 3}]
    assert RENAMED.events([(1, {"id": 1, "rating": 3})], 0, where="stars = 3") == [{"id": 1, "stars": 3}]


LEFT, RIGHT = Column("l", INT, nullable=True), Column("r", INT, nullable=True)
SWAP = (("l", "r"), ("r", "l"))
SWAPPED = life((ID, LEFT, RIGHT), ((ID, RIGHT, LEFT), SWAP))


def test_a_column_that_is_wider_by_now_is_known_by_its_name_in_the_plan() -> None:
    wider = replace(RATING, type=IntegerType(32, unsigned=False))
    table = life((ID, replace(STARS, type=IntegerType(8, unsigned=False))), ((ID, wider), (("stars", "rating"),)))

    job = decoder_of(table, 2).job
    described_too = replace(job.streams[1], described=(Described((1, 0, 0), 0),))

    now = widened(replace(job, streams=(job.streams[0], described_too)), table.schema)

    assert [(column.name, column.type) for column in now.plan.output.columns] == [("id", INT), ("stars", INT)]


def test_columns_that_exchange_their_names_keep_their_values() -> None:
    assert SWAPPED.events([(0, {"id": 1, "l": 2, "r": 3})], 1) == [{"id": 1, "l": 3, "r": 2}]
    assert SWAPPED.events([(1, {"id": 1, "l": 2, "r": 3})], 0) == [{"id": 1, "l": 3, "r": 2}]


def test_a_column_that_takes_the_name_of_another_one_is_not_that_one() -> None:
    table = life(FIRST, ((ID, RATING), (("stars", "rating"),)), (ID, RATING, replace(STARS, default="9")))

    assert table.events([(0, {"id": 1, "stars": 3})], 2) == [{"id": 1, "stars": 9, "rating": 3}]
    assert table.events([(2, {"id": 1, "stars": 8, "rating": 3})], 0) == [{"id": 1, "stars": 3}]


def test_a_column_whose_name_another_one_gets_as_it_goes_is_not_that_one() -> None:
    table = life((ID, RIGHT, LEFT), ((ID, LEFT), (("r", "l"),)))

    assert table.events([(0, {"id": 1, "r": 3, "l": 2})], 1) == [{"id": 1, "l": 3}]
    assert table.events([(1, {"id": 1, "l": 3})], 0) == [{"id": 1, "r": 3, "l": None}]


def test_a_column_that_was_dropped_and_added_again_comes_without_its_old_values() -> None:
    table = life(FIRST, (ID,), FIRST)
    rows = [(0, {"id": 1, "stars": 3}), (2, {"id": 2, "stars": 4}), (0, {"id": 3, "stars": 5})]

    assert table.schema_id(0) == table.schema_id(2)
    assert table.events(rows, 2) == [{"id": 1, "stars": None}, {"id": 2, "stars": 4}, {"id": 3, "stars": None}]


def test_a_dropped_column_is_null_from_there_on_whatever_gets_its_name() -> None:
    other = replace(STARS, default="1")
    table = life(FIRST, (ID,), (ID, other))

    assert table.events([(1, {"id": 1})], 0) == [{"id": 1, "stars": None}]
    assert table.events([(2, {"id": 1, "stars": 4})], 0) == [{"id": 1, "stars": None}]


def test_a_column_whose_value_was_computed_is_null_until_its_rows_are_read_anew() -> None:
    table = life(FIRST, (*FIRST, replace(STATUS, default="uuid()", default_is_expression=True)))

    assert table.events([(0, {"id": 1, "stars": 3})], 1) == [{"id": 1, "stars": 3, "status": None}]


def test_a_dropped_column_that_must_not_be_null_stops_the_join() -> None:
    table = life((ID, replace(STARS, nullable=False)), (ID,))

    with pytest.raises(PenstockError, match="its rows lack stars, which could not be null"):
        table.events([(1, {"id": 1})], 0)
    assert table.events([(1, {"id": 1})], 0, exclude=("stars",)) == [{"id": 1}]


def test_rows_before_a_table_that_begins_anew_do_not_stop_the_join() -> None:
    raw = Column("raw", BytesType(9, fixed=False), nullable=True, default="0x01")
    table = replace(life(FIRST, (*FIRST, raw)), begins=(1,))

    assert table.events([(0, {"id": 1, "stars": 3})], 1) == [{"id": 1, "stars": 3, "raw": None}]


TIME = Column("t", TimeType(0), nullable=True)
NUMBER = replace(TIME, type=IntegerType(64, unsigned=False))


@pytest.mark.parametrize(("before", "after"), [(TIME, NUMBER), (NUMBER, TIME)], ids=["was a time", "was a number"])
@pytest.mark.parametrize("said", [{}, {"where": "t IS NULL", "exclude": ("t",)}, {"join_keys": ("t",)}])
def test_a_column_that_comes_back_with_another_meaning_of_its_bytes_stops_the_join(
    before: Column, after: Column, said: dict[str, Any]
) -> None:
    table = replace(life((ID, before), (ID, after)), begins=(1,))
    value = timedelta(0, 1) if after is TIME else 7

    with pytest.raises(PenstockError, match=r"its column t was (times|whole numbers), and rows have"):
        table.events([(1, {"id": 1, "t": value})], 0, **dict(said))
    # What was before a table that begins anew is gone.
    assert len(table.events([(0, {"id": 1, "t": None})], 1, **dict(said))) == 1


def test_a_key_that_is_printed_otherwise_than_text_is_another_one() -> None:
    code = Column("code", TEXT, nullable=False)
    table = life((ID, code), (ID, replace(code, type=PrintedType("uuid", 0))))

    with pytest.raises(PenstockError, match="its column code was text, and rows have uuid there"):
        table.events([(1, {"id": 1, "code": "7"})], 0, join_keys=("code",))
    assert table.events([(1, {"id": 1, "code": "7"})], 0) == [{"id": 1, "code": "7"}]


def test_narrower_and_wider_columns_are_read() -> None:
    label, small = Column("label", EnumType(("a", "b")), nullable=True), IntegerType(16, unsigned=True)
    table = life((ID, STARS, label), (ID, replace(STARS, type=small), replace(label, type=TEXT)))

    assert table.events([(1, {"id": 1, "stars": 3, "label": "c"})], 0) == [{"id": 1, "stars": 3, "label": "c"}]
    assert table.events([(0, {"id": 1, "stars": 3, "label": "a"})], 1) == [{"id": 1, "stars": 3, "label": "a"}]


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (SchemaChangeKind.SCHEMA, Described((1, 5, 0), 7, (("a", "b"),))),
        (SchemaChangeKind.CREATE, Described((1, 5, 0), 7, (("a", "b"),), begins=True)),
        # No join goes on behind it, and its messages must not wait to be announced.
        (SchemaChangeKind.RENAME, Described((1, 5, 0), 7, (("a", "b"),))),
        (SchemaChangeKind.TRUNCATE, None),
        (SchemaChangeKind.DROP, None),
    ],
)
def test_events_of_these_kinds_say_what_columns_a_table_has(kind: SchemaChangeKind, says: Described | None) -> None:
    event = SchemaChange("db", TableId("shop", "t0"), "db.shop.t0", "", 1, 7, 1, (1, 5, 0), kind)

    assert described(replace(event, column_renames=(("a", "b"),))) == says


def decoder_of(table: Life, known: int) -> JoinDecoder:
    given = JoinInput("db.shop.t0", table.table(0), ("id",))
    other = JoinInput("other", table_of(1, (ID,), ("id",)), ("id",), ("id",))
    plan = plan_join([given, other], JoinOutput(TableId("joined", "rows"), ("id",)))
    second = JoinStream("db", TableId("shop", "t1"), "other", 0, timelines=(((0, 0),),))
    return JoinDecoder(JoinJob("joined", plan, (table.stream(0, known), second), "schemas"), table.schema)


def told(table: Life, number: int, kind: SchemaChangeKind = SchemaChangeKind.SCHEMA) -> pa.BinaryArray:
    place, renames = TableId("shop", "t0"), table.versions[number][1]
    event = SchemaChange("db", place, "db.shop.t0", "", 1, table.schema_id(number), 1, (1, 100 * number, 0), kind)
    return pa.array([replace(event, column_renames=renames).to_json()], pa.binary())


def test_columns_that_are_announced_while_a_join_goes_on_have_it_opened_again() -> None:
    anew = pytest.raises(UnavailableError, match=r"the columns of db.shop.t0 changed")

    with anew:
        list(decoder_of(RENAMED, 1).decode("schemas", 0, np.array([7]), told(RENAMED, 1), NO_KEY))
    assert list(decoder_of(RENAMED, 2).decode("schemas", 0, np.array([7]), told(RENAMED, 1), NO_KEY)) == []


def test_what_is_announced_again_or_leaves_columns_as_they_are_does_not() -> None:
    same = life(FIRST, FIRST)
    decoder = decoder_of(same, 1)

    assert list(decoder.decode("schemas", 0, np.array([7]), told(same, 1), NO_KEY)) == []
    assert len(list(decoder.decode("schemas", 0, np.array([8]), told(same, 1, SchemaChangeKind.TRUNCATE), NO_KEY))) == 1


def test_a_message_whose_columns_were_not_announced_yet_waits() -> None:
    given = JoinInput("db.shop.t0", RENAMED.table(0), ("id",))
    plan = plan_join([given, replace(given, name="b", exclude=("id", "stars"))], JoinOutput(TableId("j", "r"), ("id",)))
    columns = InputColumns(plan.inputs[0], RENAMED.stream(0, 1), RENAMED.schema)
    rows = pa.RecordBatch.from_pylist([{"id": 1, "rating": 3}], schema=arrow_schema(RENAMED.table(1)))

    with pytest.raises(UnavailableError, match="the join reads its schemas again"):
        list(columns.pieces(1, rows, np.array([(1, 101, 0)], np.int64)))
