"""The own schemas of every server of a kind, which no pattern of a source means."""

from __future__ import annotations

from typing import Final

MYSQL: Final = frozenset({"mysql", "information_schema", "performance_schema", "sys"})
"""Of MySQL and MariaDB."""

POSTGRES: Final = frozenset({"pg_catalog", "information_schema", "pg_toast", "penstock_ddl"})
"""Of PostgreSQL, and where event triggers of ours write."""
