"""What may change in a join's file without its state being made again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.unit.joins.test_plan import BUSINESS, BUSINESSES, REVIEW, REVIEWS, plan

from penstock.core.avro.schemas import value_schema
from penstock.core.errors import UsageError
from penstock.core.joins.rows import decode_stored, encode_stored, find_seen
from penstock.core.joins.upgrade import MadeJoin, column_renames, fit_plan, made_join, stays_in_topic, widen_plan
from penstock.core.tables import IntegerType, TextType

if TYPE_CHECKING:
    from penstock.core.joins.inputs import JoinInput
    from penstock.core.joins.plan import JoinPlan
    from penstock.core.tables import Column, ColumnType

TABLES = [REVIEW, BUSINESS]


def test_the_same_file_is_the_same_plan() -> None:
    assert fit_plan(plan(), TABLES, made_join(plan())) == plan()


def test_a_field_that_is_dropped_is_kept_and_not_shown() -> None:
    fewer = plan(other=replace(BUSINESSES, exclude=("address", "name", "city")))

    fitted = fit_plan(fewer, TABLES, made_join(plan()))

    assert [column.name for column in fitted.output.columns] == ["biz_id", "stars", "review_id"]
    assert [column.name for column in fitted.inputs[1].stored.columns] == ["city"]
    assert fitted.keeps_more
    # The next start has the same file, and a state that was fitted before.
    assert fit_plan(fewer, TABLES, made_join(fitted)).digest == fitted.digest


def test_a_changed_alias_is_told_as_another_name() -> None:
    aliases = (*BUSINESSES.aliases, ("city", "town"))

    fitted = fit_plan(plan(other=replace(BUSINESSES, aliases=aliases)), TABLES, made_join(plan()))

    assert fitted.inputs == plan().inputs
    assert column_renames(fitted, made_join(plan())) == (("city", "town"),)


LEFT = replace(REVIEWS, exclude=("content",), is_optional=True)
"""Its key is in the output twice, as it is and as `review_id_key`, which is never null."""


def left(first: JoinInput = BUSINESSES, other: JoinInput = LEFT) -> JoinPlan:
    return plan(first, other, ("business_id", "review_id"))


@pytest.mark.parametrize(
    ("changed", "renames"),
    [
        (left(other=replace(LEFT, aliases=(("stars", "points"),))), (("stars", "points"),)),
        (left(other=replace(LEFT, exclude=("content", "stars"))), ()),
        (left(first=replace(BUSINESSES, exclude=("address", "name", "city"))), ()),
        (replace(left(), output=replace(left().output, comment="Another")), ()),
        (
            left(other=replace(LEFT, aliases=(("review_id", "id"),))),
            (("review_id", "id"), ("review_id_key", "id_key")),
        ),
    ],
    ids=["alias", "field less", "other field less", "doc", "alias of both"],
)
def test_a_field_and_what_stands_in_for_it_in_the_key_are_two(
    changed: JoinPlan, renames: tuple[tuple[str, str], ...]
) -> None:
    fitted = fit_plan(changed, [BUSINESS, REVIEW], made_join(left()))

    assert column_renames(fitted, made_join(left())) == renames


def test_what_is_excluded_does_not_come_back_though_a_field_stands_in_for_it() -> None:
    # A declared key names a field of the output, so this join has none.
    first, other = replace(LEFT, exclude=("content", "review_id")), BUSINESSES
    fewer, more = (plan(other, each, ("city",)) for each in (first, LEFT))
    assert fewer.output.key == more.output.key == ("biz_id", "review_id_key")

    with pytest.raises(UsageError, match="review_id was not in the output"):
        fit_plan(more, [BUSINESS, REVIEW], made_join(fewer))

    assert column_renames(fit_plan(fewer, [BUSINESS, REVIEW], made_join(more)), made_join(more)) == ()


def test_what_is_needed_to_make_rows_whole_stays_when_a_field_is_dropped() -> None:
    partial = replace(BUSINESSES, table=replace(BUSINESS, partial_rows=True))
    fewer = replace(partial, exclude=("address", "name", "city"))

    fitted = fit_plan(plan(other=fewer), [REVIEW, partial.table], made_join(plan(other=partial)))

    assert fitted.inputs == plan(other=partial).inputs
    assert [column.name for column in fitted.inputs[1].needed] == ["business_id", "city"]


def test_a_state_of_whole_rows_is_none_of_rows_that_may_lack_columns() -> None:
    partial = replace(BUSINESSES, table=replace(BUSINESS, partial_rows=True))

    with pytest.raises(UsageError, match="its inputs, their join keys, keys, types or conditions are others"):
        fit_plan(plan(other=partial), [REVIEW, partial.table], made_join(plan()))
    assert plan(other=partial).digest != plan().digest


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (plan(other=replace(BUSINESSES, exclude=("address",))), "name was not in the output"),
        (plan(first=replace(REVIEWS, join_keys=("stars",), exclude=("content", "biz_id"))), "join keys"),
        (plan(other=replace(BUSINESSES, is_optional=True)), "conditions are others"),
    ],
)
def test_what_the_state_cannot_do_names_the_command_that_rebuilds(changed: object, reason: str) -> None:
    with pytest.raises(UsageError) as refused:
        fit_plan(changed, TABLES, made_join(plan()))  # type: ignore[arg-type]

    assert reason in refused.value.message
    assert "penstock joinery rebuild FILE JOIN" in refused.value.hint


def test_what_is_kept_is_written_and_read() -> None:
    made = made_join(plan())

    assert MadeJoin.from_mapping(made.to_mapping()) == made


SMALL, WIDE = IntegerType(16, unsigned=False), IntegerType(32, unsigned=False)


def since(*versions: dict[str, ColumnType]) -> list[list[dict[str, Column]]]:
    """The columns of both inputs, with other types of some of them in each version."""
    return [
        [
            {column.name: replace(column, type=types.get(column.name, column.type)) for column in table.columns}
            for types in versions
        ]
        for table in (SMALL_REVIEW, BUSINESS)
    ]


SMALL_REVIEW = replace(
    REVIEW, columns=tuple(replace(c, type=SMALL) if c.name == "stars" else c for c in REVIEW.columns)
)
BEGUN = plan(replace(REVIEWS, table=SMALL_REVIEW, where="stars > 3"))


def test_a_wider_column_is_wider_in_the_state_in_conditions_and_in_the_output() -> None:
    wider = widen_plan(BEGUN, since({"stars": WIDE, "city": TextType(300, "utf8mb4")}, {"stars": SMALL}))

    found = {column.name: column.type for column in wider.output.columns}
    assert (found["stars"], found["city"]) == (WIDE, TextType(300, "utf8mb4"))
    rows = pa.table({"review_id": [1], "biz_id": [7], "stars": pa.array([70000], pa.int32())}).to_batches()[0]
    assert find_seen(wider.inputs[0], rows).tolist() == [True]
    (_, _, stars) = decode_stored(wider.inputs[0], encode_stored(wider.inputs[0], rows))
    assert stars.to_pylist() == [70000]
    # What was kept before is read on, and the next start finds the same join.
    kept = encode_stored(BEGUN.inputs[0], rows.set_column(2, "stars", pa.array([7], pa.int16())))
    assert [column.to_pylist() for column in decode_stored(wider.inputs[0], kept)] == [[1], [7], [7]]
    assert wider.digest != BEGUN.digest
    assert made_join(wider).fields == made_join(BEGUN).fields
    assert stays_in_topic(wider.output, [value_schema(BEGUN.output)])


@pytest.mark.parametrize(
    "types",
    [
        {"city": TextType(10, "utf8mb4")},
        {"stars": IntegerType(64, unsigned=False)},
        {"stars": IntegerType(8, unsigned=False)},
    ],
    ids=["narrower", "other bytes", "narrower number"],
)
def test_what_is_not_wider_with_the_same_bytes_stays_as_it_was(types: dict[str, ColumnType]) -> None:
    assert widen_plan(BEGUN, since(types)) == BEGUN


def test_columns_that_are_gone_stay_as_they_were() -> None:
    assert widen_plan(BEGUN, [[{}], []]) == BEGUN
