"""Rows that are looked at again while their source is written to and their target is behind it."""

from __future__ import annotations

import random
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from penstock.adapters.duckdb.texts import texts_of
from penstock.core.audit.dialects import DUCKDB
from penstock.core.audit.side import AuditColumn, AuditSide
from penstock.core.audit.suspects import Suspects
from penstock.links.audit import settle as settling
from penstock.links.audit.pair import Pair
from penstock.links.audit.settle import LookedAt, settle

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from penstock.core.audit.dialects import AuditDialect

COLUMNS = (AuditColumn("id", "integer"), AuditColumn("n", "integer"))
SIDE = AuditSide(DUCKDB, "t", COLUMNS, COLUMNS[:1], "integer")
ROWS = 30


class Table:
    """A database with one table of numbers, to which something happens whenever it is looked at anew."""

    def __init__(self, stack: ExitStack, happens: Callable[[], None]) -> None:
        self._connection = stack.enter_context(closing(duckdb.connect(":memory:")))
        self._connection.execute(f"CREATE TABLE t AS SELECT id, 0 AS n FROM range({ROWS}) AS r(id)")
        self._happens = happens

    @property
    def dialect(self) -> AuditDialect:
        return DUCKDB

    def renew(self) -> None:
        self._happens()

    def fetch(self, query: str) -> Sequence[Sequence[Any]]:
        return self._connection.execute(query).fetchall()

    def fetch_texts(self, query: str) -> pa.Table:
        return texts_of(self._connection.sql(query))

    def write(self, id_: int, n: int | None) -> None:
        """Give a row a value, or delete it."""
        self._connection.execute("DELETE FROM t WHERE id = ?", [id_])
        if n is not None:
            self._connection.execute("INSERT INTO t VALUES (?, ?)", [id_, n])

    def close(self) -> None:
        """The stack does."""


class World:
    """A source that is written to before each look, and a target that lags, but never behind what is awaited."""

    def __init__(self, stack: ExitStack, seed: int, hot: Sequence[int]) -> None:
        self.rng = random.Random(seed)  # noqa: S311 - not for secrets
        self.source = Table(stack, self._write_hot)
        self.target = Table(stack, self._carry)
        self.lost: set[int] = set()
        self._hot = hot
        self._log: list[tuple[int, int | None]] = []
        self._carried = self._awaited = 0

    def settle(self, suspects: Sequence[int]) -> LookedAt:
        pair = Pair(self.source, self.target, SIDE, replace(SIDE))
        return settle(pair, Suspects.of_keys((str(id_),) for id_ in suspects), lambda: "")

    def write(self, id_: int, n: int | None) -> None:
        self.source.write(id_, n)
        self._log.append((id_, n))

    def _write_hot(self) -> None:
        """Change every hot row, and have the target pass this place before it is looked at next."""
        for id_ in self._hot:
            self.write(id_, self.rng.choice([None, len(self._log), len(self._log) + 1]))
        self._awaited = len(self._log)

    def _carry(self) -> None:
        """Carry what is awaited and some of what comes behind it, but for rows whose changes are lost."""
        more = self.rng.choice([0, 0, 1, len(self._hot)])
        for id_, n in self._log[self._carried : self._awaited + more]:
            if id_ not in self.lost:
                self.target.write(id_, n)
        self._carried = max(self._carried, min(len(self._log), self._awaited + more))


@pytest.fixture(autouse=True, params=["by their sums", "row by row"])
def _without_pauses(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows are read row by row, many by their sums first."""
    monkeypatch.setattr(settling, "_PAUSE_SECONDS", 0.0)
    if request.param == "by their sums":
        monkeypatch.setattr(settling, "_SUMMED_MIN", 1)


def test_the_source_lets_go_of_its_snapshot_before_the_target_is_waited_for() -> None:
    with ExitStack() as stack:
        happened: list[str] = []
        source, target = (Table(stack, partial(happened.append, f"the {name}")) for name in ("source", "target"))
        target.write(7, 1)
        pair = Pair(source, target, SIDE, SIDE, release=partial(happened.append, "let go"))

        def await_target() -> str:
            happened.append("waited")
            return ""

        looked = settle(pair, Suspects.of_keys([("7",)]), await_target)

    assert len(looked.wrong) == 1
    assert happened == ["let go", "waited", "the target", "the source"] * 4


@pytest.mark.parametrize("seed", range(3))
def test_rows_that_change_between_all_looks_are_found_equal_at_a_place_and_only_those_that_are_wrong_are_named(
    seed: int,
) -> None:
    with ExitStack() as stack:
        world = World(stack, seed, range(10))
        world.target.write(20, 7)
        world.target.write(21, None)
        world.lost = {22}
        world.write(22, 5)

        found = world.settle(range(ROWS))

    assert {each.key for each in found.wrong} == {("20",), ("21",), ("22",)}
    assert not list(found.in_flight)


def test_a_row_that_changes_all_the_time_and_never_comes_is_not_called_equal() -> None:
    with ExitStack() as stack:
        world = World(stack, 1, [3])
        world.lost = {3}
        world.target.write(3, -1)

        found = world.settle([3])

    assert [each.key for each in (*found.wrong, *found.in_flight)] == [("3",)]


def test_what_is_only_known_by_its_key_is_not_taken_for_a_row_that_was_seen_to_be_gone() -> None:
    with ExitStack() as stack:
        world = World(stack, 1, [])
        world.target.write(3, None)

        found = world.settle([3])

    assert [each.key for each in found.wrong] == [("3",)]
