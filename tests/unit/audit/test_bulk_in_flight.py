"""A table in which more rows are in flight than an audit looks at is not said to be wrong."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from penstock.adapters.duckdb.texts import texts_of
from penstock.core.audit.dialects import DUCKDB
from penstock.core.audit.side import AuditColumn, AuditSide
from penstock.core.audit.table_plan import TablePlan
from penstock.links.audit.compare import Bounds
from penstock.links.audit.table import Databases, audit_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from penstock.core.audit.dialects import AuditDialect
    from penstock.core.audit.findings import TableFindings

ROWS = 1000
LOOKED_AT = 100
COLUMNS = (AuditColumn("id", "integer"), AuditColumn("n", "integer"))
SIDE = AuditSide(DUCKDB, "t", COLUMNS, COLUMNS[:1], "integer")


class Table:
    """A database with one table, to which something may happen whenever it is looked at anew."""

    def __init__(self, stack: ExitStack, happens: Callable[[Table], None] = lambda _: None) -> None:
        self._connection = stack.enter_context(closing(duckdb.connect(":memory:")))
        self._connection.execute(f"CREATE TABLE t AS SELECT id, 0 AS n FROM range({ROWS}) AS r(id)")
        self._happens = happens

    @property
    def dialect(self) -> AuditDialect:
        return DUCKDB

    def renew(self) -> None:
        self._happens(self)

    def fetch(self, query: str) -> Sequence[Sequence[Any]]:
        return self._connection.execute(query).fetchall()

    def fetch_texts(self, query: str) -> pa.Table:
        return texts_of(self._connection.sql(query))

    def update(self, n: str, where: str = "TRUE") -> None:
        self._connection.execute(f"UPDATE t SET n = {n} WHERE {where}")

    def close(self) -> None:
        """The stack does."""


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def test_a_table_whose_every_row_changed_between_the_two_first_reads_is_equal(stack: ExitStack) -> None:
    source, target = Table(stack, lambda table: table.update("1")), Table(stack)
    target.update("1")

    found = _audit(source, target)

    assert (found.state, found.why, found.not_narrowed) == ("equal", "", 0)
    assert found.score is not None
    assert found.score.lower == 1


def test_a_row_that_is_wrong_behind_a_change_of_all_rows_is_named(stack: ExitStack) -> None:
    source, target = Table(stack, lambda table: table.update("1")), Table(stack)
    target.update("CASE WHEN id = 990 THEN 7 ELSE 1 END")

    found = _audit(source, target)

    assert (found.state, [row.key for row in found.rows], found.not_narrowed) == ("different", [("990",)], 0)


def test_a_table_whose_every_row_changes_all_the_while_lags(stack: ExitStack) -> None:
    target = Table(stack)

    def change(source: Table) -> None:
        source.update("n + 1")
        target.update("n + 1")

    target.update("1")

    found = _audit(Table(stack, change), target)

    assert (found.state, found.score, found.wrong_rows) == ("lagging", None, 0)
    assert "more rows changed while it was compared than are looked at" in found.why


def test_a_target_that_is_behind_then_is_said_to_lag(stack: ExitStack) -> None:
    target = Table(stack)
    target.update("1")
    behind = iter([""])

    found = _audit(Table(stack, lambda table: table.update("1")), target, lambda: next(behind, "it is behind"))

    assert (found.state, found.why, found.score) == ("lagging", "it is behind", None)


@pytest.mark.parametrize("where", ["TRUE", "id % 5 < 2"])
def test_a_table_of_which_more_rows_are_wrong_than_are_looked_at_is_different_at_once(
    stack: ExitStack, where: str
) -> None:
    renewed: list[Table] = []
    source, target = Table(stack, renewed.append), Table(stack)
    target.update("1", where)

    found = _audit(source, target)

    assert (found.state, found.why) == ("different", "")
    assert found.wrong_rows >= LOOKED_AT
    assert found.not_narrowed > 0
    # As often as rows are looked at.
    assert len(renewed) == 3


def _audit(source: Table, target: Table, await_target: Callable[[], str] = lambda: "") -> TableFindings:
    bounds = Bounds(partition_size=50, suspects_max=LOOKED_AT)
    return audit_table("t", Databases(source, target), TablePlan(SIDE, SIDE), bounds, await_target)
