"""A session with Snowflake, by its connector, and its errors as ours."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol

from penstock.adapters.snowflake.copies import Copies
from penstock.adapters.snowflake.errors import explain
from penstock.adapters.snowflake.turns import prepare_turns
from penstock.core.errors import PenstockError, UsageError
from penstock.core.extras import how_to_install
from penstock.core.tables import TableId
from penstock.core.warehouse.dialect import quote_name
from penstock.core.warehouse.dialects import SNOWFLAKE
from penstock.core.warehouse.landing_tasks import MERGE_PARAMETERS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from types import ModuleType

    from penstock.adapters.snowflake.account import SnowflakeAccount
    from penstock.core.warehouse.dialect import Dialect
    from penstock.ports.warehouse import Value

SESSION: Final[Mapping[str, str | int | bool]] = {
    "TIMEZONE": "UTC",
    **MERGE_PARAMETERS,
    "BINARY_INPUT_FORMAT": "HEX",
    "TRANSACTION_ABORT_ON_ERROR": False,
    # A second run of a MERGE with two rows of a key would else take either of them.
    "ERROR_ON_NONDETERMINISTIC_MERGE": True,
    "LOCK_TIMEOUT": 60,
    "STATEMENT_TIMEOUT_IN_SECONDS": 3600,
    # What a run that was killed left under way must not be committed behind what the next one does.
    "ABORT_DETACHED_QUERY": True,
    "QUERY_TAG": "penstock",
}
"""What statements depend on, whatever the account or the user sets."""
_LOGIN_SECONDS = 30
_NETWORK_SECONDS = 120


class Cursor(Protocol):
    """A cursor of the connector, as far as it is used here."""

    def execute(self, command: str, params: Sequence[Value] | None = None) -> object:
        """Run one statement."""
        ...

    def fetchall(self) -> list[tuple[Value, ...]]:
        """Return its rows."""
        ...

    def fetchmany(self, size: int) -> list[tuple[object, ...]]:
        """Return some of its rows."""
        ...

    @property
    def description(self) -> Sequence[Sequence[object]]:
        """Its columns, whose names come first."""
        ...


class SnowflakeDatabase:
    """A connection to a database of Snowflake. It implements the port `LandingDatabase`."""

    def __init__(self, account: SnowflakeAccount) -> None:
        """Connect; raises UsageError without the connector, UnavailableError and SinkError as `_explain` says."""
        self._account = account
        self._copies: Copies | None = None
        self._turns: dict[str, str] = {}
        self._driver = _driver()
        given = {
            "account": account.account,
            "host": account.host,
            "user": account.user,
            "password": account.password,
            "private_key_file": account.private_key_file,
            "role": account.role,
        }
        try:
            self._connection = self._driver.connect(
                **{name: value for name, value in given.items() if value is not None},
                port=account.port,
                protocol=account.protocol,
                database=account.database,
                warehouse=account.virtual_warehouse,
                paramstyle="qmark",
                autocommit=True,
                login_timeout=_LOGIN_SECONDS,
                network_timeout=_NETWORK_SECONDS,
                session_parameters=dict(SESSION),
                application="Penstock",
            )
        except self._driver.errors.Error as error:
            raise self._explain(error) from error

    @property
    def dialect(self) -> Dialect:
        """See `StateDatabase`."""
        return SNOWFLAKE

    @property
    def catalog(self) -> str:
        """See `StateDatabase`: the session is in one database."""
        return ""

    def run(self, statement: str, values: Sequence[Value] = ()) -> None:
        """See `StateDatabase`."""
        self.execute(statement, values)

    def fetch(self, statement: str, values: Sequence[Value] = ()) -> list[tuple[Value, ...]]:
        """See `StateDatabase`."""
        cursor = self.execute(statement, values)
        try:
            return cursor.fetchall()
        except self._driver.errors.Error as error:
            raise self._explain(error) from error

    @contextmanager
    def transaction(self, name: str) -> Iterator[None]:
        """See `LandingDatabase`."""
        if name not in self._turns:
            self._turns[name] = prepare_turns(self, name)
        self.run(f"BEGIN NAME {name}")
        try:
            self.run(self._turns[name])
            yield
            self.run("COMMIT")
        except BaseException:
            # Of a session that is gone the server rolls back what is open.
            with suppress(PenstockError):
                self.run("ROLLBACK")
            raise

    def end_transactions(self, name: str) -> None:
        """See `LandingDatabase`. Snowflake itself waits 5 minutes when somebody needs what they lock, else 4 hours."""
        cursor = self.execute("SHOW TRANSACTIONS")
        columns = [str(column[0]).lower() for column in cursor.description]
        for values in cursor.fetchall():
            row = dict(zip(columns, values, strict=True))
            if str(row.get("name", "")).casefold() == name.casefold():
                self.run(f"SELECT SYSTEM$ABORT_TRANSACTION({int(str(row['id']))})")

    def has_schema(self, name: str) -> bool:
        """See `StateDatabase`."""
        query = (
            "SELECT schema_name FROM information_schema.schemata "
            "WHERE schema_name = ? AND catalog_name = CURRENT_DATABASE()"
        )
        return bool(self.fetch(query, [name]))

    def columns(self, table: TableId) -> Mapping[str, str]:
        """See `StateDatabase`. Types come without their lengths."""
        query = (
            "SELECT column_name, data_type FROM information_schema.columns "
            "WHERE table_schema = ? AND table_name = ? ORDER BY ordinal_position"
        )
        return {str(column): str(type_) for column, type_ in self.fetch(query, [table.schema, table.name])}

    def present(self, tables: Sequence[TableId]) -> Collection[TableId]:
        """See `LandingDatabase`."""
        if not tables:
            return ()
        named = " OR ".join(["(table_schema = ? AND table_name = ?)"] * len(tables))
        query = f"SELECT table_schema, table_name FROM information_schema.tables WHERE {named}"  # noqa: S608 - no name is in it
        found = self.fetch(query, [name for table in tables for name in (table.schema, table.name)])
        return {TableId(str(schema), str(name)) for schema, name in found}

    def has_stream(self, schema: str, name: str) -> bool:
        """See `LandingDatabase`."""
        return self._shown(f"SHOW STREAMS IN SCHEMA {quote_name(SNOWFLAKE, schema)}", name) is not None

    def task_definition(self, schema: str, name: str) -> str | None:
        """See `LandingDatabase`."""
        found = self._shown(f"SHOW TASKS IN SCHEMA {quote_name(SNOWFLAKE, schema)}", name)
        return None if found is None else str(found["definition"])

    def _shown(self, statement: str, name: str) -> Mapping[str, object] | None:
        cursor = self.execute(statement)
        columns = [str(column[0]).lower() for column in cursor.description]
        rows = (dict(zip(columns, row, strict=True)) for row in cursor.fetchall())
        return next((row for row in rows if row["name"] == name), None)

    def copy_through(self, schema: str, name: str) -> None:
        """Bring rows as files from now on, through a table `name`. Outside of a transaction."""
        self._copies = Copies(self, schema, name)

    def copied(self, texts: Iterator[str]) -> AbstractContextManager[str] | None:
        """See `LandingDatabase`."""
        return self._copies.copied(texts) if self._copies else None

    def close(self) -> None:
        """See `LandingDatabase`."""
        with suppress(self._driver.errors.Error):
            self._connection.close()

    def execute(self, statement: str, values: Sequence[Value] = ()) -> Cursor:
        """Run a statement and return its cursor. Raises what `_explain` says."""
        try:
            cursor: Cursor = self._connection.cursor()
            cursor.execute(statement, list(values) or None)
        except self._driver.errors.Error as error:
            raise self._explain(error) from error
        return cursor

    def _explain(self, error: Exception) -> PenstockError:
        return explain(self._account, error, self._driver.errors)


def _driver() -> ModuleType:
    # It reads this once: it would write logs of its own into the user's home, and ask clouds about this machine.
    os.environ.setdefault("SNOWFLAKE_DISABLE_PLATFORM_DETECTION", "true")
    try:
        return import_module("snowflake.connector")
    except ImportError as error:
        message = "a sink of kind snowflake needs Snowflake's connector, and it is not installed"
        raise UsageError(message, how_to_install("snowflake")) from error
