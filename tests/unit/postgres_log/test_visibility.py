"""Which transactions of the log a snapshot of PostgreSQL sees."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.positions import WalPosition
from penstock.core.postgres.visibility import VisibleTransactions

_XIDS = 1 << 32


def test_a_snapshot_sees_what_had_ended_before_it_and_nothing_else() -> None:
    visible = VisibleTransactions.parse("100:105:100,103")

    assert [xid for xid in range(98, 107) if visible.has(xid)] == [98, 99, 101, 102, 104]


def test_a_snapshot_without_open_transactions_sees_all_before_its_end() -> None:
    assert VisibleTransactions.parse("7:7:").has(6)
    assert not VisibleTransactions.parse("7:7:").has(7)


@given(st.integers(3, 1 << 40), st.integers(-100_000, 100_000))
def test_numbers_that_wrap_around_keep_their_order(xmax: int, ahead: int) -> None:
    visible = VisibleTransactions.parse(f"{xmax}:{xmax}:")

    assert visible.has((xmax + ahead) % _XIDS) == (ahead < 0)


def test_rows_that_are_read_again_stand_before_a_commit_that_begins_at_the_boundary() -> None:
    boundary = WalPosition(0x1_0000_0000)

    assert boundary.refresh_place.order < boundary.order
    assert boundary.refresh_place.file == "wal.000000"
