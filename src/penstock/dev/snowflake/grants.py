"""Privileges of roles, as far as they are told: the stand-in lets everybody do everything.

Source: Snowflake SQL reference, "GRANT <privileges>", "REVOKE <privileges>", "TABLE_PRIVILEGES view".
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.dev.snowflake.statements import Grant
    from penstock.dev.snowflake.streams import Name


class Grants:
    """What was granted on tables since the server started."""

    def __init__(self) -> None:
        """Know of none."""
        self._granted: set[tuple[Name, str, str]] = set()
        self._lock = threading.Lock()

    def take(self, name: Name, grant: Grant) -> str:
        """Grant or revoke; return what Snowflake says then."""
        told = {(name, privilege, grant.role) for privilege in grant.privileges}
        with self._lock:
            if grant.kind == "TABLE":
                self._granted = self._granted | told if grant.gives else self._granted - told
        return "Statement executed successfully."

    def on_tables(self, database: str) -> list[dict[str, Any]]:
        """Return the rows of TABLE_PRIVILEGES."""
        with self._lock:
            found = sorted(self._granted, key=str)
        return [
            {"GRANTEE": role, "TABLE_SCHEMA": name.schema, "TABLE_NAME": name.name, "PRIVILEGE_TYPE": privilege}
            for name, privilege, role in found
            if name.database == database
        ]
