"""Two tables compared by signatures of partitions and their parts: every row that differs is found, and no other."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import duckdb
import pytest

from penstock.adapters.duckdb.audited import AuditedDuckdb
from penstock.core.audit.dialects import DUCKDB
from penstock.core.audit.findings import score_of
from penstock.core.audit.scores import Score
from penstock.core.audit.side import AuditColumn, AuditSide, Cut
from penstock.core.audit.suspects import Suspects
from penstock.core.audit.table_plan import TablePlan
from penstock.core.errors import UnavailableError
from penstock.links.audit.compare import Bounds, compare
from penstock.links.audit.pace import Pace
from penstock.links.audit.pair import Pair
from penstock.links.audit.table import Databases, audit_table

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 3000
COLUMNS = (AuditColumn("id", "integer"), AuditColumn("name", "text"))


@pytest.mark.parametrize("cut", ["integer", "hash"])
@pytest.mark.parametrize("count", [0, 1, 40, 1500])
@pytest.mark.parametrize("size", [1280, 2999], ids=["in parts", "a prime, which has none"])
def test_rows_that_differ_are_found_whatever_their_number_and_the_cut(
    tmp_path: Path, size: int, cut: Cut, count: int
) -> None:
    rng = random.Random(count)  # noqa: S311 - not for secrets
    changed = rng.sample(range(-ROWS // 2, ROWS // 2), count)
    gone, other = changed[: count // 3], changed[count // 3 :]
    pair = Pair(_open(tmp_path, "mine"), _open(tmp_path, "theirs", gone, other), _side(cut), _side(cut))

    found = compare(pair, Bounds(partition_size=size))

    assert sorted(int(each.key[0] or "") for each in found.suspects) == sorted(changed)
    assert {each.partition for each in found.suspects} == set(found.unequal)
    assert (found.source_rows, found.target_rows) == (ROWS, ROWS - len(gone))
    assert bool(found.unequal) == bool(count)


def test_only_partitions_whose_rows_nobody_looked_at_are_asked_for_minhash_values(tmp_path: Path) -> None:
    changed = list(range(-ROWS // 2, ROWS // 2, 5))
    pair = Pair(_open(tmp_path, "mine"), _open(tmp_path, "theirs", [], changed), _side("integer"), _side("integer"))

    few = compare(pair, Bounds(partition_size=5, suspects_max=1))
    all_ = compare(pair, Bounds(partition_size=5))

    assert few.not_narrowed
    assert {each for each, (mine, theirs) in few.unequal.items() if mine.minima and theirs.minima} == few.not_narrowed
    assert not any(mine.minima or theirs.minima for mine, theirs in all_.unequal.values())
    score, unequal = score_of(all_, all_.suspects, Suspects.of(()), 16)
    assert unequal == len(all_.unequal)
    assert score.score == score.lower == pytest.approx(4 / 6)


def test_rows_with_the_same_key_and_without_one_are_found_too(tmp_path: Path) -> None:
    mine, theirs = _open(tmp_path, "mine"), _open(tmp_path, "theirs")
    with duckdb.connect(str(tmp_path / "theirs")) as connection:
        connection.execute("INSERT INTO t VALUES (7, 'name 7'), (NULL, 'nobody')")

    found = compare(Pair(mine, theirs, _side("integer"), _side("integer")), Bounds(partition_size=1280))

    assert {each.key: (len(each.source), len(each.target)) for each in found.suspects} == {
        ("7",): (16, 32),
        (None,): (0, 16),
    }


def test_a_paced_audit_finds_the_same_some_partitions_a_second(tmp_path: Path) -> None:
    changed = [-1200, 0, 1400]
    whole = Pair(_open(tmp_path, "mine"), _open(tmp_path, "theirs", [], changed), _side("integer"), _side("integer"))
    paced = replace(whole, pace=Pace(partitions_per_second=4))
    bounds = Bounds(partition_size=500)

    began = time.monotonic()
    found = compare(paced, bounds)

    # Of 6 partitions 4 are read in the first second, 2 in the next one.
    assert time.monotonic() - began >= 2
    assert found == compare(whole, bounds)


@pytest.mark.parametrize("cut", ["integer", "hash"])
def test_nothing_is_asked_once_the_time_is_over(tmp_path: Path, cut: Cut) -> None:
    sides = (_open(tmp_path, "mine"), _open(tmp_path, "theirs"))
    pair = Pair(*sides, _side(cut), _side(cut), Pace(ends_at=time.monotonic()))

    with pytest.raises(UnavailableError, match="time was over"):
        compare(pair, Bounds())


def test_floats_within_the_tolerance_are_equal_and_texts_are_not(tmp_path: Path) -> None:
    columns = (AuditColumn("id", "integer"), AuditColumn("x", "float"), AuditColumn("name", "text"))
    side = AuditSide(DUCKDB, "t", columns, columns[:1], "integer")
    twice = 2 * ", (6, 7.0000001, 'a')"
    rows = {
        "mine": "(1, 1.0, 'a'), (2, 100.0, 'a'), (3, 5.0, 'a'), (4, NULL, 'a'), (5, 0.1, 'a'), (6, 7.0, 'a')",
        "theirs": f"(1, 1.0000001, 'a'), (2, 101.0, 'a'), (3, 5.0000001, 'b'), (4, 0.0, 'a'), (5, 0.1, 'a'){twice}",
    }
    for name, values in rows.items():
        with duckdb.connect(str(tmp_path / name)) as connection:
            connection.execute(f"CREATE TABLE t AS SELECT * FROM (VALUES {values}) AS r(id, x, name)")
            connection.execute("ALTER TABLE t ALTER x TYPE DOUBLE")
    mine, theirs = (AuditedDuckdb(tmp_path / name, tmp_path / "nobody.json") for name in rows)

    exact, tolerant = (
        audit_table(
            "s.t", Databases(mine, theirs), TablePlan(side, side), Bounds(float_tolerance=tolerance), lambda: ""
        )
        for tolerance in (0.0, 1e-6)
    )

    assert [row.key for row in exact.rows] == [("1",), ("2",), ("3",), ("4",), ("6",)]
    assert [row.key for row in tolerant.rows] == [("2",), ("3",), ("4",), ("6",)]
    assert tolerant.rows[0].columns == {"x": ("100.0", "101.0")}
    # Of 13 rows that either side has, 2 are alike; a key that is there twice is wrong, whatever its floats are.
    assert (tolerant.score, tolerant.wrong_rows) == (Score(2 / 11, 2 / 11, 2 / 11), 4)


def _open(home: Path, name: str, gone: list[int] | None = None, other: list[int] | None = None) -> AuditedDuckdb:
    with duckdb.connect(str(home / name)) as connection:
        numbers = f"range(-{ROWS // 2}, {ROWS // 2}) AS r(id)"
        connection.execute(f"CREATE TABLE t AS SELECT id, 'name ' || id AS name FROM {numbers}")
        connection.execute("DELETE FROM t WHERE id IN (SELECT unnest(?))", [gone or []])
        connection.execute("UPDATE t SET name = 'another' WHERE id IN (SELECT unnest(?))", [other or []])
    return AuditedDuckdb(home / name, home / "nobody.json")


def _side(cut: Cut) -> AuditSide:
    return AuditSide(DUCKDB, "t", COLUMNS, COLUMNS[:1], cut)
