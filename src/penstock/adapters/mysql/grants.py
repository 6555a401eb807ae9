"""What a server lets us do everywhere."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from penstock.adapters.mysql.connection import ask

if TYPE_CHECKING:
    from collections.abc import Collection

    import pymysql

_GLOBAL_GRANT = re.compile(r"GRANT (.*) ON \*\.\* TO", re.IGNORECASE)
_EXCEPTION = re.compile(r"(REVOKE|DENY) ", re.IGNORECASE)


def read_global_grants(connection: pymysql.Connection) -> Collection[str]:
    """Return the privileges that we hold on everything, in capitals, those of our roles among them."""
    granted: set[str] = set()
    for (line,) in ask(connection, "SHOW GRANTS"):
        if found := _GLOBAL_GRANT.match(str(line)):
            granted |= {privilege.strip().upper() for privilege in found[1].split(",")}
    return granted


def sees_every_trigger(connection: pymysql.Connection) -> bool:
    """Whether we may see all triggers there are, and with that privilege also that all tables and views are there.

    A server says nothing of what it does not show, so only the grants tell. MySQL
    can take schemas out of a grant on everything, and says that in lines of its own.
    """
    if any(_EXCEPTION.match(str(line)) for (line,) in ask(connection, "SHOW GRANTS")):
        return False
    return bool({"TRIGGER", "ALL PRIVILEGES"} & set(read_global_grants(connection)))
