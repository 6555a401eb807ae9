"""Whether others see yet what the log has told of: a moment later, or much later with a synchronous standby."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from penstock.core.errors import UnavailableError
from penstock.core.postgres.visibility import VisibleTransactions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    import psycopg

    from penstock.ports.relations import UnseenCommits

_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 0.02
# Whoever does not see what others wait for gets no row.
_WAITING: Final = (
    "SELECT backend_xid::text::bigint FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND backend_xid IS NOT NULL"
)


def sees_all(connection: psycopg.Connection, xids: Iterable[int]) -> bool:
    """Whether the connection's snapshot sees these transactions, which the log has told of. Raises psycopg.Error."""
    return all(map(_visible(connection).has, xids))


def forget_seen(connection: psycopg.Connection, xids: Collection[int], unseen: UnseenCommits) -> bool:
    """As `sees_all`, of some that are `unseen`; those that the snapshot sees are so no more."""
    seen = list(filter(_visible(connection).has, xids))
    unseen.forget(seen)
    return len(seen) == len(xids)


def waiting_commits(connection: psycopg.Connection) -> Sequence[int]:
    """The transactions that are in the log already, and wait for a synchronous standby. Raises psycopg.Error."""
    return [xid for (xid,) in connection.execute(_WAITING).fetchall()]


def _visible(connection: psycopg.Connection) -> VisibleTransactions:
    row = connection.execute("SELECT txid_current_snapshot()::text").fetchone()
    return VisibleTransactions.parse(row[0] if row else "")


def wait_until_seen(is_seen: Callable[[], bool]) -> None:
    """Ask until the answer is yes. Raises UnavailableError after ten seconds."""
    deadline = time.monotonic() + _SECONDS
    while not is_seen():
        if time.monotonic() > deadline:
            message = "transactions that are in the log are not to be seen by others yet"
            raise UnavailableError(message, "they may wait for a synchronous standby: see that it answers")
        time.sleep(_PAUSE_SECONDS)
