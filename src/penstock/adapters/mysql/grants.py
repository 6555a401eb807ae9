"""What a server lets us do everywhere."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from penstock.adapters.mysql.connection import ask

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pymysql

_GLOBAL_GRANT = re.compile(r"GRANT (.*) ON \*\.\* TO", re.IGNORECASE)
_GRANT = re.compile(r"GRANT (.*?) ON ", re.IGNORECASE)
_EXCEPTION = re.compile(r"(REVOKE|DENY) ", re.IGNORECASE)


def read_grants(connection: pymysql.Connection) -> Sequence[str]:
    """Return what SHOW GRANTS says of us, line by line."""
    return [str(line) for (line,) in ask(connection, "SHOW GRANTS")]


def global_privileges(lines: Sequence[str]) -> frozenset[str]:
    """Return the privileges that these lines of `read_grants` give on everything, in capitals."""
    return _privileges(_GLOBAL_GRANT, lines)


def privileges_somewhere(lines: Sequence[str]) -> frozenset[str]:
    """Return the privileges that these lines of `read_grants` give on anything at all, in capitals."""
    return _privileges(_GRANT, lines)


def _privileges(pattern: re.Pattern[str], lines: Sequence[str]) -> frozenset[str]:
    found = (pattern.match(line) for line in lines)
    return frozenset(privilege.strip().upper() for grant in found if grant for privilege in grant[1].split(","))


def sees_every_trigger(connection: pymysql.Connection) -> bool:
    """Whether we may see all triggers there are, and with that privilege also that all tables and views are there.

    A server says nothing of what it does not show, so only the grants tell. MySQL
    can take schemas out of a grant on everything, and says that in lines of its own.
    """
    lines = read_grants(connection)
    if any(map(_EXCEPTION.match, lines)):
        return False
    return not {"TRIGGER", "ALL PRIVILEGES"}.isdisjoint(global_privileges(lines))
