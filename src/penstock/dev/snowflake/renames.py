"""ALTER TABLE ... RENAME TO, which may lead into another schema: DuckDB's does not.

Source: Snowflake SQL reference, "ALTER TABLE": a new name alone goes to the session's schema.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.dev.snowflake.refusals import RefusedError
from penstock.dev.snowflake.streams import has_table, require_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.dev.snowflake.streams import Duck, Name

_PART: Final = r'(?:"(?:[^"]|"")+"|\w+)'
_RENAME: Final = re.compile(
    rf"\s*ALTER\s+TABLE\s+(?P<exists>IF\s+EXISTS\s+)?(?P<old>{_PART}(?:\.{_PART})*)\s+"
    rf"RENAME\s+TO\s+(?P<new>{_PART}(?:\.{_PART})*)\s*;?\s*",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Rename:
    """Names as the statement has them."""

    old: str
    new: str
    if_exists: bool

    def carry_out(self, duck: Duck, whole: Callable[[str], Name]) -> str:
        """Rename; return what Snowflake says then. `whole` completes a name."""
        old, new = whole(self.old), whole(self.new)
        if self.if_exists and not has_table(duck, old):
            return "Statement executed successfully."
        require_table(duck, old)
        if has_table(duck, new):
            message = f"Object '{new.name}' already exists."
            raise RefusedError(message)
        if old.schema == new.schema:
            quoted = new.name.replace('"', '""')
            duck.execute(f'ALTER TABLE {old} RENAME TO "{quoted}"')
        else:
            duck.execute(f"CREATE TABLE {new} AS SELECT * FROM {old}")  # noqa: S608 - the names are quoted
            duck.execute(f"DROP TABLE {old}")
        return "Statement executed successfully."


def parse_rename(command: str) -> Rename | None:
    """Return what a command renames, if it renames a table."""
    match = _RENAME.fullmatch(command)
    return Rename(match["old"], match["new"], bool(match["exists"])) if match else None
