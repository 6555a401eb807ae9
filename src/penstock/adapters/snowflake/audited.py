"""A database of Snowflake, read by an audit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.adapters.snowflake.connection import SnowflakeDatabase
from penstock.core.audit.snowflake import SNOWFLAKE
from penstock.core.audit.text_tables import table_of_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from penstock.adapters.snowflake.account import SnowflakeAccount
    from penstock.core.audit.dialects import AuditDialect


class AuditedSnowflake:
    """A connection, each of whose queries sees one committed state. It implements the port `AuditedDatabase`."""

    def __init__(self, account: SnowflakeAccount) -> None:
        """Connect; raises as `SnowflakeDatabase` does."""
        self._database = SnowflakeDatabase(account)

    @property
    def dialect(self) -> AuditDialect:
        """See `AuditedDatabase`."""
        return SNOWFLAKE

    def renew(self) -> None:
        """See `AuditedDatabase`: each query is by itself."""

    def fetch(self, query: str) -> Sequence[Sequence[Any]]:
        """See `AuditedDatabase`."""
        return self._database.fetch(query)

    def fetch_texts(self, query: str) -> pa.Table:
        """See `AuditedDatabase`."""
        return table_of_rows(self.fetch(query))

    def close(self) -> None:
        """See `AuditedDatabase`."""
        self._database.close()
