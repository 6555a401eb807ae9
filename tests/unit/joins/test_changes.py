"""Differences of joined rows become one change for each key of the output."""

from __future__ import annotations

import pyarrow as pa
from tests.unit.joins.joined_streams import table_of

from penstock.core.changes import Op
from penstock.core.joins.changes import changes_in_parts, part_places
from penstock.core.joins.inputs import JoinInput, JoinOutput
from penstock.core.joins.plan import plan_join
from penstock.core.joins.rows import encode_stored
from penstock.core.tables import Column, IntegerType, TableId, TextType

_NUMBER, _TEXT = IntegerType(64, unsigned=False), TextType(20, "utf8mb4")
_COLUMNS = (Column("k", _NUMBER, nullable=False), Column("word", _TEXT, nullable=True))
PLAN = plan_join(
    [
        JoinInput("left", table_of(0, _COLUMNS, ("k",)), ("k",), (), (("word", "left"),)),
        JoinInput("right", table_of(1, _COLUMNS, ("k",)), ("k",), (), (("word", "right"),)),
    ],
    JoinOutput(TableId("joined", "rows"), ("k",)),
)
Joined = tuple[int, str, str]


def differences(*pairs: tuple[Joined | None, Joined | None]) -> pa.Table:
    """Joined rows (k, left, right) before and after, as the kernel gives them."""
    return pa.Table.from_pylist(
        [
            {
                f"{letter}{index}": stored(index, image)
                for letter, image in zip("ba", pair, strict=True)
                for index in (0, 1)
            }
            for pair in pairs
        ],
        schema=pa.schema([(name, pa.binary()) for name in ("b0", "b1", "a0", "a1")]),
    )


def stored(index: int, image: Joined | None) -> bytes | None:
    if image is None:
        return None
    rows = pa.RecordBatch.from_pydict({"k": pa.array([image[0]], pa.int64()), "word": pa.array([image[1 + index]])})
    return encode_stored(PLAN.inputs[index], rows)[0].as_py()


def changes(*pairs: tuple[Joined | None, Joined | None], part_bytes: int = 1 << 20) -> list[tuple[object, ...]]:
    """(op, before, after) of each change that differences make, which come in two tables."""
    found: list[tuple[object, ...]] = []
    table = differences(*pairs)
    for part in changes_in_parts(PLAN, [table.slice(0, 1), table.slice(1)], part_bytes):
        images = [
            [None] * len(part) if image is None else [tuple(row.values()) for row in image.to_pylist()]
            for image in (part.before, part.after)
        ]
        found += [(part.op, *each) for each in zip(*images, strict=True)]
    return found


def test_a_row_that_leaves_one_group_and_comes_up_in_another_is_updated() -> None:
    assert changes(((1, "a", "b"), None), (None, (1, "a", "c"))) == [(Op.UPDATE, (1, "a", "b"), (1, "a", "c"))]


def test_a_row_that_comes_up_as_it_was_is_no_change() -> None:
    assert changes(((1, "a", "b"), None), (None, (1, "a", "b")), (None, (2, "", ""))) == [
        (Op.CREATE, None, (2, "", ""))
    ]


def test_a_row_whose_key_changes_is_deleted_and_created() -> None:
    assert changes(((1, "a", "b"), (2, "a", "b"))) == [
        (Op.DELETE, (1, "a", "b"), None),
        (Op.CREATE, None, (2, "a", "b")),
    ]


def test_keys_that_two_rows_exchange_are_two_updates() -> None:
    assert changes(((1, "a", "b"), (2, "a", "b")), ((2, "c", "d"), (1, "c", "d"))) == [
        (Op.UPDATE, (2, "c", "d"), (2, "a", "b")),
        (Op.UPDATE, (1, "a", "b"), (1, "c", "d")),
    ]


def test_nothing_is_no_change() -> None:
    assert changes() == []


def test_changes_that_are_told_in_parts_are_those_of_the_whole() -> None:
    gone = [((k, "a", "b"), None) for k in range(30)]
    came = [(None, (k, "a", "c")) for k in range(10, 40)]
    pairs = [*gone, *came]

    in_parts = changes(*pairs, part_bytes=100)

    assert in_parts != changes(*pairs)
    assert sorted(map(repr, in_parts)) == sorted(map(repr, changes(*pairs)))
    assert len(in_parts) == 40


def test_joined_rows_are_in_one_part_each_and_those_of_a_key_in_one() -> None:
    table = differences(*[((k, "a", "b"), None) for k in range(30)], *[(None, (k, "a", "c")) for k in range(10, 40)])

    before, after = (part_places(PLAN, table, letter, 7) for letter in "ba")

    assert sorted(place for part in before for place in part) == list(range(30))
    assert sorted(place for part in after for place in part) == list(range(30, 60))
    for old, new in zip(before, after, strict=True):
        assert {place + 20 for place in old if place >= 10} == {place for place in new if place < 50}
