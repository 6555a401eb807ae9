"""A database of Snowflake as a warehouse whose tables are loaded without a landing zone."""

from __future__ import annotations

import random
import re
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from penstock.adapters.snowflake.connection import SnowflakeDatabase
from penstock.core.errors import ConflictError, TableWaitsError
from penstock.core.files import staged_columns
from penstock.core.warehouse.attributes import Attributes, Grant
from penstock.core.warehouse.dialect import quote_name
from penstock.core.warehouse.dialects import SNOWFLAKE
from penstock.core.warehouse.messages import render_staged_rows, require_fitting, split_texts
from penstock.core.warehouse.staged_texts import plan_staging, plan_staging_table, plan_unstaging, render_staged
from penstock.core.warehouse.state_schema import state_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from penstock.adapters.snowflake.account import SnowflakeAccount
    from penstock.core.batches import Batch
    from penstock.core.tables import TableId, TableSchema
    from penstock.core.warehouse.dialect import Dialect
    from penstock.core.warehouse.migration import Dependent
    from penstock.ports.warehouse import Value

T = TypeVar("T")

_ATTEMPTS: Final = 4
_FIRST_PAUSE_SECONDS: Final = 0.2
_STAGED_BYTES: Final = 8 << 20
"""How much JSON a statement brings; a value has 16 MiB at most."""
_KEPT: Final = "('SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES')"


class SnowflakeWarehouse:
    """A connection to a database of Snowflake. It implements the port `Warehouse`.

    Rows are staged as JSON in a table of the pipeline and source, which is empty
    again when a transaction is committed: Snowflake makes no table in one.
    """

    def __init__(self, account: SnowflakeAccount, pipeline: str, source: str, *, copies: bool = False) -> None:
        """Connect, for loads of this pipeline and source, whose rows come as files where it `copies`.

        Raises what `SnowflakeDatabase` raises.
        """
        self._database = SnowflakeDatabase(account)
        self._transaction = re.sub(r"\W", "_", f"penstock_{pipeline}_{source}")
        self._state = state_schema(SNOWFLAKE, pipeline, source)
        self._staging = f"staged/{pipeline}/{source}"
        self._copies = copies
        self._is_ready = False

    @property
    def dialect(self) -> Dialect:
        """See `Warehouse`."""
        return SNOWFLAKE

    @property
    def catalog(self) -> str:
        """See `Warehouse`: the session is in one database."""
        return ""

    def transact(self, work: Callable[[], T], tables: Sequence[TableId] = (), *, lock_seconds: float = 2.0) -> T:
        """See `Warehouse`. A conflict is tried again, four times in all; the session bounds how long a lock is waited for."""  # noqa: E501
        del lock_seconds
        self._get_ready()
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                with self._database.transaction(self._transaction):
                    return work()
            except ConflictError as error:
                if attempt == _ATTEMPTS:
                    if not tables:
                        raise
                    hint = "see what else writes to the table; it is tried again by itself"
                    raise TableWaitsError(str(tables[0]), "", "the target's table", error.message, hint) from error
            time.sleep(_FIRST_PAUSE_SECONDS * 2**attempt * random.uniform(0.5, 1))  # noqa: S311 - not for secrets
        raise AssertionError

    def _get_ready(self) -> None:
        """Make the staging table. End what a killed load has left open: it has locks, and must not commit behind us."""
        if not self._is_ready:
            self._database.end_transactions(self._transaction)
            if self._copies:
                self._database.copy_through(self._state, self._staging)
            for statement in plan_staging_table(self._state, self._staging):
                self.run(statement)
            self._is_ready = True

    def run(self, statement: str, values: Sequence[Value] = ()) -> None:
        """See `Warehouse`."""
        self._database.run(statement, values)

    def fetch(self, statement: str, values: Sequence[Value] = ()) -> list[tuple[Value, ...]]:
        """See `Warehouse`."""
        return self._database.fetch(statement, values)

    @contextmanager
    def staged(self, schema: TableSchema, rows: pa.Table) -> Iterator[str]:
        """See `Warehouse`."""
        path, columns = quote_name(SNOWFLAKE, self._state, self._staging), staged_columns(schema, rows.column_names)
        texts = require_fitting(schema, render_staged_rows(rows))
        if copied := self._database.copied(texts):
            with copied:
                yield render_staged(path, schema, columns)
            return
        for array in split_texts(texts, _STAGED_BYTES):
            self.run(plan_staging(path), [array])
        yield render_staged(path, schema, columns)
        # After a failure the transaction is rolled back, and the rows with it.
        self.run(plan_unstaging(path))

    def staged_files(self, schema: TableSchema, batches: Sequence[Batch]) -> None:
        """See `Warehouse`: rows are staged."""

    def adding(self) -> None:
        """See `Warehouse`: to stage them is as quick."""

    def exists(self, table: TableId) -> bool:
        """See `Warehouse`. In names in quotes, upper and lower case count."""
        query = "SELECT 1 FROM information_schema.tables WHERE table_schema = ? AND table_name = ?"
        return bool(self.fetch(query, [table.schema, table.name]))

    def has_schema(self, name: str) -> bool:
        """See `Warehouse`."""
        return self._database.has_schema(name)

    def columns(self, table: TableId) -> Mapping[str, str]:
        """See `Warehouse`. Types come without their lengths."""
        found = self._database.columns(table)
        return {name: "VARCHAR" if type_ == "TEXT" else type_ for name, type_ in found.items()}

    def layout(self, schema: TableSchema) -> None:
        """See `Warehouse`: Snowflake spreads rows by itself."""

    def attributes(self, table: TableId) -> Attributes:
        """See `Warehouse`. A table that is made anew with its rows keeps its grants by itself, and gets them again."""
        query = (
            "SELECT privilege_type, grantee FROM information_schema.table_privileges "  # noqa: S608 - a text of ours
            f"WHERE table_schema = ? AND table_name = ? AND privilege_type IN {_KEPT} ORDER BY 2, 1"
        )
        found = self.fetch(query, [table.schema, table.name])
        grants = [Grant(str(what), f"ROLE {quote_name(SNOWFLAKE, str(role))}") for what, role in found]
        of_table = "FROM information_schema.tables WHERE table_schema = ? AND table_name = ?"
        comments = self.fetch(f"SELECT COALESCE(comment, '') {of_table}", [table.schema, table.name])
        of_columns = "SELECT column_name, COALESCE(comment, '') FROM information_schema.columns"
        columns = self.fetch(f"{of_columns} WHERE table_schema = ? AND table_name = ?", [table.schema, table.name])
        return Attributes(
            tuple(self.columns(table)),
            comment="".join(str(comment) for (comment,) in comments),
            column_comments={str(name): str(comment) for name, comment in columns if comment},
            grants=tuple(grants),
        )

    def dependents(self, table: TableId) -> Sequence[Dependent]:
        """See `Warehouse`: views look for names whenever they are read, and Snowflake does not say cheaply which do."""
        del table
        return ()

    def close(self) -> None:
        """See `Warehouse`."""
        self._database.close()
