"""How a table is read: in pieces as time allows, and by its rows where most of them differ."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from penstock.adapters.duckdb.audited import AuditedDuckdb
from penstock.core.audit.dialects import DUCKDB
from penstock.core.audit.redshift import REDSHIFT
from penstock.core.audit.side import AuditColumn, AuditSide
from penstock.core.audit.snowflake import SNOWFLAKE
from penstock.links.audit import compare as compare_module
from penstock.links.audit import scan
from penstock.links.audit.compare import Bounds, compare
from penstock.links.audit.pace import Pace
from penstock.links.audit.pair import Pair
from penstock.links.audit.scan import Took, next_count
from penstock.links.audit.signatures import read_both

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import pyarrow as pa

ROWS = 4000
SIZE = 200
COLUMNS = (AuditColumn("id", "integer"), AuditColumn("name", "text"))
SIDE = AuditSide(DUCKDB, "t", COLUMNS, COLUMNS[:1], "integer")


class Asked(AuditedDuckdb):
    """A DuckDB file that remembers what it was asked for."""

    def __init__(self, path: Path, change: str) -> None:
        with duckdb.connect(str(path)) as connection:
            connection.execute(f"CREATE TABLE t AS SELECT id, 'name ' || id AS name FROM range({ROWS}) AS r(id)")
            connection.execute(change)
        super().__init__(path, path.with_suffix(".nobody"))
        self.signatures = 0
        self.row_counts: list[int] = []

    def fetch(self, query: str) -> Sequence[Sequence[Any]]:
        self.signatures += "GROUP BY p" in query
        return super().fetch(query)

    def fetch_texts(self, query: str) -> pa.Table:
        found = super().fetch_texts(query)
        self.row_counts.append(found.num_rows)
        return found


def open_pair(home: Path, change: str, pace: Pace | None = None) -> tuple[Pair, Asked]:
    source, target = Asked(home / "mine", "SELECT 1"), Asked(home / "theirs", change)
    return Pair(source, target, SIDE, SIDE, pace or Pace()), target


@pytest.mark.parametrize(
    ("change", "signatures", "rows"),
    [
        ("SELECT 1", 3, 0),
        ("UPDATE t SET name = '' WHERE id % 10 = 3", 1, 10),
        ("UPDATE t SET name = '' WHERE id < 50 OR id = 3999", 3, 1),
        ("UPDATE t SET name = '' WHERE id < 401", 2, 3),  # The third was under way.
        ("UPDATE t SET name = '' WHERE id >= 1000", 2, 8),
        ("DELETE FROM t WHERE id >= 1000", 2, 8),
    ],
    ids=["equal", "a tenth, spread", "a few", "the beginning", "the end", "cut off"],
)
def test_rows_are_read_without_their_sums_where_most_differ_and_what_is_found_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, signatures: int, rows: int
) -> None:
    monkeypatch.setattr(scan, "ROWS_AT_ONCE", 2 * SIZE)
    pair, target = open_pair(tmp_path, change)

    found = compare(pair, Bounds(partition_size=SIZE))

    asked = target.signatures, len(target.row_counts)
    whole = read_both(pair, SIZE, None)
    unequal = {number: both for number, both in whole.items() if not both[0].equals(both[1])}
    assert found.unequal.keys() == unequal.keys()
    assert all(a.equals(b) for each in unequal for a, b in zip(found.unequal[each], unequal[each], strict=True))
    assert found.equal == len(whole) - len(unequal)
    with duckdb.connect(str(tmp_path / "mine"), read_only=True) as connection:
        connection.execute(f"ATTACH '{tmp_path / 'theirs'}' AS other (READ_ONLY)")
        wrong = connection.execute(
            "SELECT id FROM t LEFT JOIN other.t AS o USING (id) WHERE t.name <> o.name OR o.id IS NULL"
        )
        assert sorted(int(each.key[0] or "") for each in found.suspects) == sorted(id_ for (id_,) in wrong.fetchall())
    assert asked == (signatures, rows)


def test_no_more_rows_are_read_than_may_be_looked_at_and_the_rest_is_known_to_be_unequal(tmp_path: Path) -> None:
    pair, _ = open_pair(tmp_path, "UPDATE t SET name = ''")

    found = compare(pair, Bounds(partition_size=SIZE, suspects_max=500))

    assert {each.partition for each in found.suspects} == {0, 1, 2, 3}
    assert found.not_narrowed == set(range(4, 20))
    assert (found.equal, len(found.unequal), len(found.suspects)) == (0, 20, 800)


@pytest.mark.parametrize(
    "key",
    # A slice of keys would hold one row or two; of the second, from the 1001st on.
    ["id * 40_000", "CASE WHEN id > 1000 THEN 2000 * (id - 999) ELSE id END"],
    ids=["all", "the end"],
)
def test_few_queries_are_enough_for_keys_that_are_far_apart(tmp_path: Path, key: str) -> None:
    pair, target = open_pair(tmp_path, "UPDATE t SET name = ''")
    for file in ("mine", "theirs"):
        with duckdb.connect(str(tmp_path / file)) as connection:
            connection.execute(f"CREATE OR REPLACE TABLE t AS SELECT {key} AS id, name FROM t")

    found = compare(pair, Bounds(partition_size=1000))

    assert len(found.suspects) == ROWS
    assert target.signatures + len(target.row_counts) <= 30


@pytest.mark.parametrize("first", [0, 2000], ids=["all", "the end"])
def test_keys_that_are_there_many_times_are_read_by_the_rows_of_their_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    monkeypatch.setattr(scan, "ROWS_AT_ONCE", 400)
    monkeypatch.setattr(compare_module, "ROWS_AT_ONCE", 400)
    pair, target = open_pair(tmp_path, "UPDATE t SET name = ''")
    for file in ("mine", "theirs"):
        with duckdb.connect(str(tmp_path / file)) as connection:
            connection.execute(f"INSERT INTO t SELECT id, name FROM t, range(39) WHERE id >= {first}")

    found = compare(pair, Bounds(partition_size=SIZE))

    assert len(found.suspects) == ROWS
    # A part, which is half a partition; or a slice of which that was not known, and the one that was under way.
    assert max(target.row_counts) == (16_000 if first else 4000)
    assert target.row_counts.count(16_000) <= 2


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_table_is_read_by_one_query_where_either_database_has_a_price_for_each(tmp_path: Path, side: str) -> None:
    pair, target = open_pair(tmp_path, "UPDATE t SET name = '' WHERE id % 10 = 3")
    priced = replace(SIDE, dialect=replace(DUCKDB, reads_whole=True))
    pair = replace(pair, source_side=priced) if side == "source" else replace(pair, target_side=priced)

    found = compare(pair, Bounds(partition_size=SIZE))

    assert (target.signatures, len(found.suspects)) == (1, ROWS // 10)
    assert SNOWFLAKE.reads_whole
    assert REDSHIFT.reads_whole


def test_a_slow_target_does_not_count_for_how_long_the_source_takes(tmp_path: Path) -> None:
    class Slow(Asked):
        def fetch(self, query: str) -> Sequence[Sequence[Any]]:
            time.sleep(1.0)
            return super().fetch(query)

    pair, _ = open_pair(tmp_path, "SELECT 1")
    pair = replace(pair, target=Slow(tmp_path / "slow", "SELECT 1"))

    read_both(pair, SIZE, [0, 1], SIZE)

    assert 0 < pair.spent.seconds < 0.9


def sizes(partitions: int, seconds_max: float, seconds_of: Callable[[int], float]) -> list[int]:
    """How many partitions are asked for, query by query."""
    asked: list[int] = []
    count, before = 2, None
    while sum(asked) < partitions:
        took = Took(count, seconds_of(count))
        asked.append(count)
        count, before = next_count(took, before, seconds_max), took
    return asked


@pytest.mark.parametrize("seconds", [3.0, 4.0, 5.0, 6.0, 9.0, 12.0])
def test_queries_that_take_as_long_for_few_partitions_as_for_many_are_soon_large(seconds: float) -> None:
    assert len(sizes(4096, 20, lambda _: seconds)) <= 14


@pytest.mark.parametrize("each", [0.01, 0.3, 1.0, 2.4, 6.0])
@pytest.mark.parametrize("fixed", [0.0, 0.5, 3.0])
def test_no_query_comes_near_the_longest_that_may_be_where_each_partition_takes_its_time(
    each: float, fixed: float
) -> None:
    asked = sizes(4096, 20, lambda count: fixed + count * each)

    assert max(fixed + count * each for count in asked) <= 16
    assert len(asked) <= 12 + 3 * 4096 * each / (5 - fixed)


@pytest.mark.parametrize(
    ("count", "seconds", "allowed", "expected"),
    [(2, 0.01, 3600, 16), (100, 10, 20, 50), (100, 10, 4000, 800), (7, 50, 1, 1), (3, 0.001, 1, 24)],
)
def test_as_many_partitions_are_asked_for_as_a_quarter_of_the_time_is_enough_for(
    count: int, seconds: float, allowed: float, expected: int
) -> None:
    assert next_count(Took(count, seconds), None, allowed) == expected
