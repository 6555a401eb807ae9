"""A MySQL or MariaDB server, read by an audit."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from pymysql.constants import ER

from penstock.adapters.mysql.catalog import read_flavour
from penstock.adapters.mysql.connection import ask, connect, error_code, server_of
from penstock.adapters.mysql.printed_rows import read_printed
from penstock.core.audit.dialects import MARIADB, MYSQL
from penstock.core.audit.text_tables import table_of_texts
from penstock.core.errors import PenstockError, UnavailableError, UnfitServerError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    import pymysql

    from penstock.adapters.mysql.connection import MysqlServer
    from penstock.core.audit.dialects import AuditDialect
    from penstock.core.tables import TableId

_QUERY_SECONDS = 3600
_ENDED_BY_SERVER = frozenset({1317, 1969, 3024})
"""ER_QUERY_INTERRUPTED, ER_STATEMENT_TIMEOUT of MariaDB, ER_QUERY_TIMEOUT of MySQL."""
_TOO_LONG_HINT = (
    "raise max_allowed_packet there to more than twice the longest row (its own limit is 1 GiB), "
    "or leave long columns out with `exclude_columns` of the audit"
)
_SESSION = (
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    # No padding of CHAR values, and no other meaning of || and quotes.
    "SET SESSION sql_mode = ''",
    # A row's hash is computed in a subquery: merged into the outer query it would be computed for every sum.
    "SET SESSION optimizer_switch = 'derived_merge=off'",
    # As many warnings are kept as can be, so that none that matters is missing behind others.
    "SET SESSION max_error_count = 65535",
)


class AuditedMysql:
    """A connection whose queries see one snapshot. It implements the port `AuditedDatabase`."""

    def __init__(self, server: MysqlServer) -> None:
        """Connect; raises as `connect` does."""
        self._connection = connect(server, silence_seconds=_QUERY_SECONDS + 60)
        self._dialect = MYSQL if read_flavour(self._connection) == "mysql" else MARIADB
        for statement in _SESSION:
            ask(self._connection, statement)
        self.limit(_QUERY_SECONDS)

    @property
    def dialect(self) -> AuditDialect:
        """See `AuditedDatabase`."""
        return self._dialect

    @property
    def connection(self) -> pymysql.Connection:
        """The connection, for what else is to be read in its transaction."""
        return self._connection

    def limit(self, query_seconds: int) -> None:
        """Have the server end queries that take longer; at most an hour, after which nobody waits for it."""
        is_oracle = self._dialect is MYSQL
        limit = f"max_execution_time = {query_seconds * 1000}" if is_oracle else f"max_statement_time = {query_seconds}"
        ask(self._connection, f"SET SESSION {limit}")

    def renew(self) -> None:
        """See `AuditedDatabase`. No rows are locked; a table that was read is not altered while the snapshot lasts."""
        ask(self._connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")

    def release(self) -> None:
        """See `AuditedSource`."""
        # A connection that is lost holds nothing.
        with suppress(UnavailableError):
            ask(self._connection, "ROLLBACK")

    def fetch(self, query: str) -> Sequence[Sequence[Any]]:
        """See `AuditedDatabase`. Raises UnfitServerError where a value is too long for the server to compute with."""
        with _limits_explained():
            found = ask(self._connection, query)
        self._require_computed()
        return found

    def fetch_texts(self, query: str) -> pa.Table:
        """See `AuditedDatabase`. Raises as `fetch` does."""
        with _limits_explained():
            found = read_printed(self._connection, query)
        self._require_computed()
        return table_of_texts(found.columns)

    def row_bytes(self, table: TableId) -> int:
        """See `AuditedSource`."""
        names = " AND ".join(
            f"{column} = {self._connection.escape(name)}"
            for column, name in (("TABLE_SCHEMA", table.schema), ("TABLE_NAME", table.name))
        )
        query = f"SELECT COALESCE(MAX(AVG_ROW_LENGTH), 0) FROM information_schema.TABLES WHERE {names}"  # noqa: S608 - escaped
        return int(self.fetch(query)[0][0])

    def close(self) -> None:
        """See `AuditedDatabase`; the server ends the transaction."""
        if self._connection.open:
            self._connection.close()

    def _require_computed(self) -> None:
        """Refuse what the last query gave if a text in it was longer than max_allowed_packet: it passed for NULL.

        The server warns of that whatever function it was in, and to ask costs nothing for each row.
        """
        for _, code, said in ask(self._connection, "SHOW WARNINGS"):
            if int(code) == ER.WARN_ALLOWED_PACKET_OVERFLOWED:
                message = f"{server_of(self._connection)} has rows that are too long for it to hash: {said}"
                raise UnfitServerError(message, _TOO_LONG_HINT)


@contextmanager
def _limits_explained() -> Iterator[None]:
    try:
        yield
    except PenstockError as error:
        if error_code(error) not in _ENDED_BY_SERVER:
            raise
        message = f"the server ended an audit's query: {error.message}"
        hint = "give the audit more `query_seconds`, or audit when the server is less busy"
        raise UnavailableError(message, hint) from error
