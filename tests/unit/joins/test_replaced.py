"""A join that takes another one's place publishes what differs, and no more."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from tests.unit.joins.joined_streams import Streams, random_inputs, random_plan

from penstock.core.arrow_types import arrow_schema
from penstock.core.avro.schemas import value_schema
from penstock.core.changes import Op
from penstock.core.joins.algebra import JoinState
from penstock.core.joins.inputs import JoinInput, JoinOutput
from penstock.core.joins.plan import plan_join
from penstock.core.joins.replaced import JoinedRows, can_take_the_place, replacing_changes
from penstock.core.joins.rows import encode_stored
from penstock.core.joins.upgrade import stays_in_topic
from penstock.core.tables import Column, EnumType, IntegerType, TableId, TableSchema, TextType

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.core.joins.changes import OutputRows
    from penstock.core.joins.plan import JoinPlan

Rows = dict[tuple[object, ...], dict[str, Any]]
NUMBER, TEXT = IntegerType(32, unsigned=False), TextType(20, "utf8mb4")
OWNER = TableSchema(
    TableId("shop", "owner"),
    (
        Column("id", NUMBER, nullable=False),
        Column("name", TEXT, nullable=True),
        Column("rank", NUMBER, nullable=False),
        Column("kind", EnumType(("a", "b")), nullable=False),
    ),
    ("id",),
)
SHOP = TableSchema(
    TableId("shop", "shop"),
    (Column("shop_id", NUMBER, nullable=False), Column("owner_id", NUMBER, nullable=True)),
    ("shop_id",),
)


def plan_of(*exclude: str, is_optional: bool = True) -> JoinPlan:
    """Shops with their owners, without some fields of these."""
    inputs = [
        JoinInput("shop", SHOP, ("owner_id",)),
        JoinInput("owner", OWNER, ("id",), exclude, (("id", "owner_id"),), is_optional=is_optional),
    ]
    return plan_join(inputs, JoinOutput(TableId("joined", "shops"), ("shop_id",)))


def plan_join_with_other_key() -> JoinPlan:
    """Shops with those that have the same number as their owner: several, maybe."""
    inputs = [
        JoinInput("shop", SHOP, ("owner_id",)),
        JoinInput("others", SHOP, ("owner_id",), (), (("shop_id", "other_id"),)),
    ]
    return plan_join(inputs, JoinOutput(TableId("joined", "shops"), ("shop_id", "other_id")))


def apply(rows: Rows, key: tuple[str, ...], changes: Iterable[OutputRows]) -> Rows:
    """Rows as changes leave them; a row that goes must be there."""
    found = dict(rows)
    for each in changes:
        image = each.before if each.op is Op.DELETE else each.after
        for row in [] if image is None else image.to_pylist():
            at = tuple(row[name] for name in key)
            if each.op is Op.DELETE:
                assert at in found
                del found[at]
            else:
                assert found.get(at) != row
                found[at] = row
    return found


def joined(streams: Streams) -> JoinedRows:
    """What a state of all that was read has."""
    plan = streams.plan
    return JoinedRows(plan, [JoinState(len(plan.inputs), plan.optional).apply(streams.everything())])


def by_sql(streams: Streams) -> Rows:
    """What SQL makes of it."""
    with duckdb.connect() as connection:
        rows = streams.join(connection)
    return {tuple(row[name] for name in streams.plan.output.key): row for row in rows}


@pytest.mark.parametrize("seed", range(3))
def test_what_was_published_becomes_what_sql_makes_of_the_tables(seed: int) -> None:
    rng = Random(seed)  # noqa: S311 - what it makes is no secret
    inputs = random_inputs(rng)
    new = random_plan(rng, inputs)
    more = ("word", "hidden") if seed % 2 else ()
    others = [replace(each, exclude=(*each.exclude, *more)) for each in inputs]
    old = plan_join(others, JoinOutput(TableId("joined", "rows"), new.output.key)) if new.is_declared_key else new
    streams = Streams(rng, inputs, old)
    for _ in range(40):
        streams.change()
    streams.read_some(0.7)
    before = joined(streams)
    published = {key: {c.name: row.get(c.name) for c in new.output.columns} for key, row in by_sql(streams).items()}
    streams.plan = new
    for _ in range(15):
        streams.change()
    streams.read_some(1.0)
    after, expected = joined(streams), by_sql(streams)

    assert can_take_the_place(old, new)
    for part_bytes in (1 << 20, 2000):
        assert apply(published, new.output.key, replacing_changes(before, after, part_bytes)) == expected
        assert apply({}, new.output.key, replacing_changes(None, after, part_bytes)) == expected
    assert list(replacing_changes(after, after, 1 << 20)) == []


def test_a_field_that_is_never_null_has_every_row_published_and_zero_where_a_row_goes() -> None:
    old, new = plan_of("name", "rank", "kind", is_optional=False), plan_of("name", is_optional=False)
    there = [row_of(old, 1, 7), row_of(old, 2, 7)]
    before = JoinedRows(old, [pa.concat_tables(there)])
    after = JoinedRows(new, [row_of(new, 1, 7)])

    gone, there_now = replacing_changes(before, after, 1 << 20)

    assert gone.op is Op.DELETE
    assert gone.before is not None
    assert gone.before.to_pylist() == [{"shop_id": 2, "owner_id": 7, "rank": 0, "kind": ""}]
    assert there_now.op is Op.READ
    assert there_now.after is not None
    assert there_now.after.to_pylist() == [{"shop_id": 1, "owner_id": 7, "rank": 3, "kind": "a"}]


def test_a_field_that_was_there_before_and_comes_back_has_every_row_published() -> None:
    old, new = plan_of("name"), plan_of()
    before, after = (JoinedRows(plan, [row_of(plan, 1, 7)]) for plan in (old, new))

    assert list(replacing_changes(before, after, 1 << 20, {"rank"})) == []
    (told,) = replacing_changes(before, after, 1 << 20, {"rank", "name"})

    assert told.after is not None
    assert [row["name"] for row in told.after.to_pylist()] == [None]


@pytest.mark.parametrize(
    ("new", "stays"),
    [
        (plan_of("rank", "kind", is_optional=False), True),
        (plan_of("name", "kind", is_optional=False), False),
        (plan_join_with_other_key(), False),
    ],
    ids=["a field that may be null", "a field that is never null", "another key"],
)
def test_an_output_stays_in_its_topic_as_the_registry_says(new: JoinPlan, *, stays: bool) -> None:
    old = plan_of("name", "rank", "kind", is_optional=False)

    assert stays_in_topic(new.output, [value_schema(old.output)]) is stays


def row_of(plan: JoinPlan, shop: int, owner: int) -> pa.Table:
    """The joined row of a shop and its owner."""
    shops = pa.RecordBatch.from_pylist([{"shop_id": shop, "owner_id": owner}], schema=arrow_schema(SHOP))
    owners = [{"id": owner, "name": None, "rank": 3, "kind": "a"}]
    rows = [shops, pa.RecordBatch.from_pylist(owners, schema=arrow_schema(OWNER))]
    before = {f"b{i}": pa.nulls(1, pa.binary()) for i in range(2)}
    return pa.table(before | {f"a{i}": encode_stored(plan.inputs[i], each) for i, each in enumerate(rows)})


@pytest.mark.parametrize(
    ("old", "new", "can"),
    [
        (plan_of("name", "rank", "kind"), plan_of(), True),
        (plan_of(), plan_of("name", "rank", "kind"), True),
        (plan_of(is_optional=False), plan_of(is_optional=True), True),
        (plan_of(is_optional=True), plan_of(is_optional=False), False),
        (plan_of(), plan_join_with_other_key(), False),
    ],
    ids=["more fields", "fewer fields", "can be null now", "is never null now", "another key"],
)
def test_rows_stay_where_the_key_is_the_same_and_they_are_not_in_the_way(
    old: JoinPlan, new: JoinPlan, *, can: bool
) -> None:
    assert can_take_the_place(old, new) is can
