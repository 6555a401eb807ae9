"""Which rows a repair asks for: keys as a snapshot takes them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.core.audit.queries import RowKey
    from penstock.core.audit.side import AuditColumn
    from penstock.core.audit.suspects import Suspects


@dataclass(frozen=True, slots=True)
class RepairKeys:
    """The keys of rows as `repair_key` writes them, but for those with NULL: many, which are written when asked for."""

    columns: tuple[AuditColumn, ...] = ()
    rows: Suspects | None = None

    def __iter__(self) -> Iterator[str]:
        """One by one."""
        keys = () if self.rows is None else self.rows.row_keys()
        written = (repair_key(self.columns, key) for key in keys)
        return (key for key in written if key is not None)


def repair_key(columns: Sequence[AuditColumn], key: RowKey) -> str | None:
    """Return a key as JSON, its values as SQL writes them; None for one with NULL in it, which no source has."""
    values: dict[str, str] = {}
    for column, text in zip(columns, key, strict=True):
        if text is None:
            return None
        values[column.name] = _written(column, text)
    return json.dumps(values, ensure_ascii=False)


def _written(column: AuditColumn, text: str) -> str:
    if column.kind == "bytes":
        return f"0x{text}"
    if column.kind == "float" and "e" in text:
        sign = "-" if text.startswith("-") else ""
        return f"{sign}0.{text.removeprefix('-')}"
    if column.kind == "time":
        return _span(int(text))
    return text


def _span(microseconds: int) -> str:
    seconds, fraction = divmod(abs(microseconds), 1_000_000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{'-' if microseconds < 0 else ''}{hours:02}:{minutes:02}:{seconds:02}.{fraction:06}"
