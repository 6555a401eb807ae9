"""Which stage a wrong row is named with, and which columns a stage can be compared in."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.audit.findings import LastMessage
from penstock.core.audit.stage_columns import folded_schema, has_key, held_columns, lay_out, left_out
from penstock.core.audit.stages import STAGES, StageLook, find_first_wrong
from penstock.core.tables import (
    Column,
    DecimalType,
    IntegerType,
    TableId,
    TableSchema,
    TextType,
    VectorType,
)

INT, BIG = IntegerType(32, unsigned=False), IntegerType(64, unsigned=False)
NUMBERS = st.frozensets(st.integers(0, 9))


def keys(numbers: frozenset[int]) -> frozenset[tuple[str | None, ...]]:
    return frozenset((str(number),) for number in numbers)


@given(NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS)
def test_a_row_is_named_with_the_first_stage_that_is_wrong_and_every_one_before_it_that_cannot_tell(
    in_topic: frozenset[int],
    in_files: frozenset[int],
    in_landing: frozenset[int],
    in_target: frozenset[int],
    not_in_topic: frozenset[int],
    not_in_files: frozenset[int],
) -> None:
    looks = {
        "topic": StageLook(keys(in_topic - not_in_topic), keys(not_in_topic)),
        "files": StageLook(keys(in_files - not_in_files), keys(not_in_files)),
        "landing": StageLook(keys(in_landing)),
    }
    everywhere = sorted(keys(frozenset(range(10))))

    found = find_first_wrong(everywhere, looks, keys(in_target), {})  # type: ignore[arg-type]  # names of stages

    wrong = {
        "topic": in_topic - not_in_topic,
        "files": in_files - not_in_files,
        "landing": in_landing,
        "target": in_target,
    }
    unknown = {"topic": not_in_topic, "files": not_in_files, "landing": frozenset[int](), "target": frozenset[int]()}
    assert {row.key for row in found} == keys(frozenset().union(*wrong.values()))
    for row in found:
        number = int(row.key[0] or "")
        first = next(stage for stage in STAGES if number in wrong[stage])
        before = STAGES[: STAGES.index(first)]
        assert row.first_wrong == first
        assert row.unknown_in == tuple(stage for stage in before if number in unknown[stage])


def test_a_row_has_the_newest_message_of_its_key() -> None:
    message = LastMessage("t", 0, 7, "binlog.000001:4", "u")

    (row,) = find_first_wrong([("1",)], {}, {("1",)}, {("1",): message})

    assert (row.first_wrong, row.message) == ("target", message)


def test_columns_that_a_living_row_was_not_written_with_are_left_out_and_others_take_their_values() -> None:
    now = table(("id", BIG), ("name", TextType(60, "utf8mb4")), ("later", INT), ("price", DecimalType(10, 1)))
    then = table(("ID", INT), ("name", TextType(40, "utf8mb4")), ("price", DecimalType(10, 2)))
    rows = pa.table({"ID": pa.array([1], pa.int32()), "name": ["x"], "price": pa.array([None], pa.decimal128(10, 2))})
    ours = [
        pa.array([value], type_)
        for value, type_ in zip(("c", 1, "t", 0, "", 5), folded_schema(now).types[4:], strict=True)
    ]

    laid = lay_out(now, then, rows, ours).to_pylist()[0]

    assert set(left_out(now, [now, then])) == {"later", "price"}
    assert left_out(now, [now]) == {}
    assert (laid["id"], laid["name"], laid["later"], laid["price"]) == (1, "x", None, None)


def test_what_no_database_of_stages_holds_is_left_out_with_a_reason() -> None:
    schema = table(("id", INT), ("wide", DecimalType(42, 2)), ("place", VectorType(3)))

    assert [column.name for column in held_columns(schema)] == ["id"]
    assert "too long" in left_out(schema, [])["wide"]


def test_changes_with_another_key_are_told_from_those_with_a_wider_one() -> None:
    now = table(("id", BIG), ("other", INT))

    assert has_key(now, table(("Id", INT), key="Id"))
    assert not has_key(now, table(("id", BIG), ("other", INT), key="other"))
    assert not has_key(now, table(("id", TextType(9, "utf8mb4"))))


def table(*columns: tuple[str, IntegerType | TextType | DecimalType | VectorType], key: str = "") -> TableSchema:
    made = tuple(Column(name, type_, nullable=True) for name, type_ in columns)
    return TableSchema(TableId("s", "t"), made, (key or columns[0][0],))
