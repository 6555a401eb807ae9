"""Says what is wrong with rows that differ: in which columns, and what both sides have there."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.core.audit.canonical_text import read_float
from penstock.core.audit.findings import DivergentRow, row_state
from penstock.core.audit.queries import VALUE_PARTS, index_by_key, keys_query, read_value
from penstock.links.audit.ask import at_once, groups, pages

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.core.audit.findings import RowKey, Suspect
    from penstock.core.audit.side import AuditColumn, AuditSide
    from penstock.links.audit.compare import Pair
    from penstock.ports.audited import AuditedDatabase

_VALUES_AT_ONCE: Final = 40_000
"""So many values travel at once, per side, of each `VALUE_CHARACTERS` at most."""


def describe_rows(pair: Pair, wrong: Sequence[Suspect]) -> Iterator[DivergentRow]:
    """Yield what is wrong with each row, with the values of the columns that differ, cut where they are long."""
    for some in groups(wrong, max(1, _VALUES_AT_ONCE // len(pair.source_side.columns))):
        keys = [suspect.key for suspect in some]
        mine, theirs = at_once(
            partial(_read, pair.source, pair.source_side, keys), partial(_read, pair.target, pair.target_side, keys)
        )
        for suspect in some:
            row, other = (found.get(suspect.key, ((),))[0] for found in (mine, theirs))
            differing = _differing(pair.source_side, row, other) if row and other else {}
            yield DivergentRow(suspect.key, row_state(suspect.source, suspect.target), differing)


def _read(
    database: AuditedDatabase, side: AuditSide, keys: Sequence[RowKey]
) -> Mapping[RowKey, Sequence[Sequence[object]]]:
    """Return the values of rows by key."""
    rows = [row for some in pages(side, keys) for row in database.fetch(keys_query(side, some, values=True))]
    wanted = set(keys)
    return {key: found for key, found in index_by_key(rows, len(side.key)).items() if key in wanted}


def _differing(
    side: AuditSide, row: Sequence[object], other: Sequence[object]
) -> Mapping[str, tuple[str | None, str | None]]:
    """Return the values of both sides by column, where they differ."""
    key = len(side.key)
    found: dict[str, tuple[str | None, str | None]] = {}
    for place, column in enumerate(side.columns):
        start = key + place * VALUE_PARTS
        # Nearly all are equal, and quickly seen to be.
        if row[start : start + VALUE_PARTS] != other[start : start + VALUE_PARTS]:
            values = read_value(row, key, place), read_value(other, key, place)
            if values[0] != values[1]:
                found[column.name] = (_shown(column, *values[0]), _shown(column, *values[1]))
    return found


def _shown(column: AuditColumn, text: str | None, rest: str | None) -> str | None:
    if column.kind == "float" and text is not None:
        number = read_float(text)
        return text if number is None else repr(number)
    return text if rest is None else f"{text}... ({rest.partition(' ')[0]} characters)"
