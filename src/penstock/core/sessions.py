"""What our statements and their results depend on in a session, whatever a server, a database or a role sets for it.

Such settings (`SET GLOBAL`, `ALTER ROLE ... SET`, `ALTER DATABASE ... SET`, a
parameter group, a pooler) change results without an error: a limit cuts a
SELECT short, an encoding turns text into other text. So every connection sets
what we depend on, and reads it back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.errors import UnfitServerError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

POSTGRES_SESSION: Mapping[str, str] = {
    # What text is on the wire, and in which form values are printed and read.
    "client_encoding": "UTF8",
    "datestyle": "ISO, MDY",
    "intervalstyle": "postgres",
    "timezone": "UTC",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "xmloption": "content",
    "array_nulls": "on",
    # With `off` a backslash in a quoted text would begin an escape.
    "standard_conforming_strings": "on",
    # With `on`, `x = NULL` would be `x IS NULL`.
    "transform_null_equals": "off",
    # A policy that hides rows from us is an error then, and not fewer rows.
    "row_security": "off",
    "default_transaction_isolation": "read committed",
    "default_transaction_deferrable": "off",
    # What a commit has answered is on the disk.
    "synchronous_commit": "on",
}
"""Values are in the form in which PostgreSQL prints them."""

POSTGRES_KEEPALIVE: Mapping[str, str] = {
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
}
"""So a server ends a session, and gives up its locks, a minute after our host was lost, and not two hours later.

Nothing of it holds for a socket of Unix, so it is not read back.
"""
MYSQL_KEEPALIVE = "SET SESSION wait_timeout = 600"
"""MySQL has no such setting: a session that says nothing for so long is ended, and whoever wants one makes another."""

MYSQL_SESSION: Mapping[str, str] = {
    "time_zone": "'+00:00'",
    # A limit on rows would cut every SELECT short, those of the catalog and of a copy too.
    "sql_select_limit": "18446744073709551615",
    # With 1, `id IS NULL` finds the row that was inserted last.
    "sql_auto_is_null": "0",
    "sql_safe_updates": "0",
    "sql_big_selects": "1",
    "sql_quote_show_create": "1",
    # With CHAIN, a commit begins the next transaction, and so the next snapshot.
    "completion_type": "'NO_CHAIN'",
    # Quotes, escapes, the padding of CHAR and what SHOW CREATE TABLE says depend on it; what does not fit is an error.
    "sql_mode": "'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'",
}
"""Values are as SQL writes them."""

# With a time, every SELECT would read a system-versioned table as it was then. MySQL passes over comments of this kind.
_OF_MARIADB = "/*M!100300 , system_versioning_asof = DEFAULT */"
# MariaDB passes over comments of this kind, and knows no such variable. MySQL's definitions have every column that its
# log has with it, also the key that the server made for a table without one.
_OF_MYSQL = "/*!80030 , show_gipk_in_create_table_and_information_schema = ON */"


def postgres_statement(settings: Mapping[str, str]) -> str:
    """Write the query that sets `settings` for a session and returns each with the value that it has now."""
    values = ", ".join(f"('{name}', '{value}')" for name, value in settings.items())
    return f"SELECT name, set_config(name, value, false) FROM (VALUES {values}) AS pinned (name, value)"  # noqa: S608 - ours


def mysql_statement() -> str:
    """Write the statement that sets what we depend on for a session of MySQL or MariaDB."""
    return f"SET {', '.join(f'{name} = {value}' for name, value in MYSQL_SESSION.items())} {_OF_MARIADB} {_OF_MYSQL}"


def mysql_query() -> str:
    """Write the query of rows of a setting, what we want and what a session has, all of them text."""
    return " UNION ALL ".join(
        # One server prints a flag as 1, another as ON.
        f"SELECT '{name}', {value}, IF(@@SESSION.{name} = {value}, {value}, CONVERT(@@SESSION.{name} USING utf8mb4))"
        for name, value in MYSQL_SESSION.items()
    )


def require_kept(where: object, rows: Iterable[tuple[str, str, str]]) -> None:
    """Raise UnfitServerError for the first of (setting, wanted, found) that a session at `where` did not take."""
    for name, wanted, found in rows:
        if str(wanted) != str(found):
            message = f"a session of {where} has {name} = {found!r} although Penstock set it to {wanted!r}"
            hint = f"connect to the server itself, not through a pooler or proxy; or ask who runs it what sets {name}"
            raise UnfitServerError(message, hint)
