"""Which tables a server has no more, asked of the very server whose log is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.adapters.postgres.source.connection import connected
from penstock.adapters.postgres.source.identity import read_identity, write_mark
from penstock.core.errors import UnavailableError
from penstock.core.positions import WalPosition
from penstock.ports.relations import Gone

if TYPE_CHECKING:
    from collections.abc import Collection

    from penstock.adapters.postgres.connection import PostgresServer


def find_gone(server: PostgresServer, numbers: Collection[int], identity: str) -> Gone:
    """Return which of the numbers (OIDs) no table has any more.

    Raises UnavailableError where a server answers that has another `identity`, or is a standby.
    """
    with connected(server) as connection:
        rows = connection.execute("SELECT oid::bigint FROM pg_class WHERE oid = ANY(%s::oid[])", (list(numbers),))
        found = frozenset(numbers) - {oid for (oid,) in rows.fetchall()}
        if not found:
            return Gone(found, WalPosition(0))
        # Behind the question: whatever that saw is committed before this place.
        high = write_mark(connection)
        if read_identity(connection) != identity:
            message = f"{server} is not the server whose log is read"
            raise UnavailableError(message, "it is asked again in a minute")
    return Gone(found, high)
