"""Says what is wrong with rows that differ: in which columns, and what both sides have there."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.core.audit.canonical_text import read_float
from penstock.core.audit.findings import DivergentRow, row_state
from penstock.core.audit.queries import VALUE_PARTS, index_by_key, keys_query, read_value
from penstock.links.audit.ask import at_once, page_places

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.core.audit.queries import RowKey
    from penstock.core.audit.side import AuditColumn, AuditSide
    from penstock.core.audit.suspects import Suspects
    from penstock.links.audit.pair import Pair
    from penstock.ports.audited import AuditedDatabase

VALUES_MAX: Final = 10_000
"""Of so many rows of a table the values are told; of others that are named, keys."""
_VALUES_AT_ONCE: Final = 40_000
"""So many values travel at once, per side, of each `VALUE_CHARACTERS` at most."""


def describe_rows(pair: Pair, wrong: Suspects) -> Iterator[DivergentRow]:
    """Yield what is wrong with each row, with the values of the columns that differ, cut where they are long."""
    size = max(1, _VALUES_AT_ONCE // len(pair.source_side.columns))
    for start in range(0, len(wrong), size):
        some = wrong.between(start, start + size)
        mine, theirs = at_once(
            partial(_read, pair.source, pair.source_side, some), partial(_read, pair.target, pair.target_side, some)
        )
        for suspect in some:
            row, other = (found.get(suspect.key, ((),))[0] for found in (mine, theirs))
            differing = _differing(pair.source_side, row, other) if row and other else {}
            yield DivergentRow(suspect.key, row_state(suspect.source, suspect.target), differing)


def _read(
    database: AuditedDatabase, side: AuditSide, suspects: Suspects
) -> Mapping[RowKey, Sequence[Sequence[object]]]:
    """Return the values of rows by key."""
    queries = (keys_query(side, suspects.keys_at(some), values=True) for some in page_places(side, suspects))
    rows = [row for query in queries for row in database.fetch(query)]
    wanted = set(suspects.row_keys())
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
