"""The session that wrote a statement, as far as it decides what the statement means.

Sources: MariaDB Knowledge Base, "Query_event"; MySQL internals, `Query_event`; the bits of
sql_mode are those of sql/sql_class.h (MariaDB) and sql/system_variables.h (MySQL).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

STRICT: Final = 1 << 21 | 1 << 22
"""STRICT_TRANS_TABLES and STRICT_ALL_TABLES: an ALTER TABLE heeds either, whatever the engine."""


@dataclass(frozen=True, slots=True)
class SqlSession:
    """`sql_mode` as its bits and three collations by their ids; 0 is for what the log does not tell.

    `client` is the default collation of character_set_client, `connection` is
    collation_connection, `server` collation_server.
    """

    sql_mode: int = 0
    client: int = 0
    connection: int = 0
    server: int = 0


UNKNOWN_SESSION: Final = SqlSession()
"""A session of which the log tells nothing."""
