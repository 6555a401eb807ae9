"""The table that a COPY loads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.dev.redshift.errors import refuse
from penstock.dev.redshift.tokens import literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.dev.redshift.plan import TargetPlace

# PostgreSQL adds this to lengths, precisions and scales.
_HEADER = 4
_LIMITED = frozenset({"varchar", "bpchar", "varbyte"})


@dataclass(frozen=True, slots=True)
class Column:
    """A column to load, `number` of those in the files, from 0. `length` is in bytes, where the type has one."""

    number: int
    name: str
    type_name: str
    type_text: str
    length: int | None
    scale: int | None
    not_null: bool
    identity: str


@dataclass(frozen=True, slots=True)
class Target:
    """A table, its name quoted for PostgreSQL, and the columns that the files have, in their order."""

    name: str
    number: int
    columns: tuple[Column, ...]

    @property
    def shown(self) -> str:
        """Its name in messages."""
        return self.name.rpartition(".")[2].strip('"')


async def read_target(place: TargetPlace, name: str, listed: Sequence[str], *, explicit_ids: bool) -> Target:
    """Look the table up in the client's own transaction. RedshiftError where it or a column is not there."""
    found = await place.rows(
        "SELECT a.attname, t.typname, format_type(a.atttypid, a.atttypmod), a.atttypmod, a.attnotnull, a.attidentity,"  # noqa: S608 - the statement's own name
        " a.attrelid::integer FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid"
        f" WHERE a.attrelid = {literal(name)}::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
    )
    rows = {str(row[0]): row for row in found}
    # Without a list, identity columns are in the files only where EXPLICIT_IDS says so.
    names = [column.strip('"') for column in listed] or [
        name for name, row in rows.items() if explicit_ids or not row[5]
    ]
    for column in names:
        if column not in rows:
            message = f'column "{column}" of relation {name} does not exist'
            raise refuse(message, sqlstate="42703")
    columns = tuple(_column(number, rows[column]) for number, column in enumerate(names))
    return Target(name, int(found[0][6] or 0) if found else 0, columns)


def _column(number: int, row: Sequence[str | None]) -> Column:
    name, type_name, text, modifier, not_null, identity = (str(part or "") for part in row[:6])
    size = int(modifier)
    length = size - _HEADER if type_name in _LIMITED and size > _HEADER else None
    if type_name == "varbyte" and size > 0:
        length = size
    scale = (size - _HEADER) & 0x7FF if type_name == "numeric" and size > _HEADER else None
    return Column(number, name, type_name, text, length, scale, not_null == "t", identity)
