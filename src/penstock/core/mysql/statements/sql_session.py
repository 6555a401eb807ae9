"""The session that wrote a statement, as far as it decides what the statement means.

Sources: MariaDB Knowledge Base, "Query_event"; MySQL internals, `Query_event`; the bits of
sql_mode are those of sql/sql_class.h (MariaDB) and sql/system_variables.h (MySQL).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock.core.mysql.statements.describe import Flavour

_BINARY: Final = 63
_NO_DIR_IN_CREATE: Final = 1 << 7
# Of engines that the tracker may not have.
_IGNORE_BAD_TABLE_OPTIONS: Final = 1 << 4
# REAL_AS_FLOAT, PIPES_AS_CONCAT, ANSI_QUOTES, IGNORE_SPACE, NO_UNSIGNED_SUBTRACTION, NO_BACKSLASH_ESCAPES,
# ALLOW_INVALID_DATES, HIGH_NOT_PRECEDENCE.
_EVERYWHERE: Final = 1 | 1 << 1 | 1 << 2 | 1 << 3 | 1 << 6 | 1 << 20 | 1 << 25 | 1 << 29
# POSTGRESQL to MAXDB, EMPTY_STRING_IS_NULL, SIMULTANEOUS_ASSIGNMENT, TIME_ROUND_FRACTIONAL.
_IN_MARIADB: Final = 0b11111 << 8 | 0b111 << 32
# TIME_TRUNCATE_FRACTIONAL, INTERPRET_UTF8_AS_UTF8MB4.
_IN_MYSQL: Final = 0b11 << 32
ANSI_QUOTES: Final = 1 << 2
"""ANSI_QUOTES: what stands between double quotes is a name."""
NO_BACKSLASH_ESCAPES: Final = 1 << 20
"""NO_BACKSLASH_ESCAPES: a backslash in a text is a character as any other."""
NO_ZERO_NUMBERS: Final = 1 << 19
"""NO_AUTO_VALUE_ON_ZERO: a 0 in an AUTO_INCREMENT column stays 0."""
STRICT: Final = 1 << 21 | 1 << 22
"""STRICT_TRANS_TABLES and STRICT_ALL_TABLES: an ALTER TABLE heeds either, whatever the engine."""
PAD_CHAR: Final = 1 << 31
"""PAD_CHAR_TO_FULL_LENGTH: a CHAR is read with the spaces that fill it."""


@dataclass(frozen=True, slots=True)
class SqlSession:
    """`sql_mode` as its bits and three collations by their ids; 0 is for what the log does not tell.

    `client` is a collation of character_set_client, not always its default, `connection` is
    collation_connection, `server` collation_server. `explicit_timestamps` is
    explicit_defaults_for_timestamp: MySQL tells it where a column depends on it,
    MariaDB only that it is on, so that None may stand for off. `time_zone` and `microseconds`
    (of the time at which the statement began) are told where the statement made use of them.
    """

    sql_mode: int = 0
    client: int = 0
    connection: int = 0
    server: int = 0
    explicit_timestamps: bool | None = None
    time_zone: str = ""
    microseconds: int = 0


UNKNOWN_SESSION: Final = SqlSession()
"""A session of which the log tells nothing."""


def settings_of(session: SqlSession, flavour: Flavour) -> str:
    """SET, for a server without rows, all that makes a statement mean what it meant in `session`.

    What only refuses statements or values stays out: the source has accepted it. So
    does character_set_client, because we send Unicode, unless it is `binary`: of
    bytes that have no character set the server makes other text.
    """
    meaning = _EVERYWHERE | (_IN_MARIADB if flavour == "mariadb" else _IN_MYSQL)
    ours = _NO_DIR_IN_CREATE | (_IGNORE_BAD_TABLE_OPTIONS if flavour == "mariadb" else 0)
    settings = [f"sql_mode = {session.sql_mode & meaning | ours}"]
    settings += [f"character_set_client = {_BINARY}"] if session.client == _BINARY else []
    settings += [f"collation_connection = {session.connection}"] if session.connection else []
    settings += [f"collation_server = {session.server}"] if session.server else []
    return f"SET SESSION {', '.join(settings)}"
