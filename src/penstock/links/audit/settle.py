"""Looks at rows that differed again, until each was equal once, or different three times with no change in between.

A row may differ because the target has not got a change yet, or has got one that
the source's snapshot had not. So first the target passes the place where the source
was read; then the target is read, and the source once more. If the source's row is
the one that it was, and the target's is another, it is wrong there. Three times,
for a row may change and change back. If the target has what the source had at the
place that it has passed, the row was equal there, however often it changes: what
the source has by now is on its way.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeVar

from penstock.core.audit.canonical_text import read_float
from penstock.core.audit.findings import DivergentRow, row_state
from penstock.core.audit.queries import (
    VALUE_PARTS,
    index_by_key,
    keys_query,
    read_sums,
    read_value,
    sums_of,
    sums_query,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from penstock.core.audit.findings import Hashes, RowKey, Suspect
    from penstock.core.audit.side import AuditColumn, AuditSide
    from penstock.links.audit.compare import Pair
    from penstock.ports.audited import AuditedDatabase

_LOOKS: Final = 3
_ROUNDS_MAX: Final = 20
_KEYS_AT_ONCE: Final = 1000
_NUMBERS_AT_ONCE: Final = 10_000
"""Of keys that are one whole number each, which a database looks up in a list rather than one by one."""
_SUMMED_MIN: Final = 500
"""From so many rows on their sums are asked for first: only where these are others do hashes travel."""
_PAUSE_SECONDS: Final = 0.2

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LookedAt:
    """What became of suspects, as they were when they were last read; `why` the target lags, "" if it does not."""

    wrong: tuple[Suspect, ...]
    in_flight: tuple[Suspect, ...]
    why: str = ""


def settle(pair: Pair, suspects: Sequence[Suspect], await_target: Callable[[], str]) -> LookedAt:
    """Look at `suspects` again.

    `await_target` waits until the target has passed the place at which the source
    was last renewed, and says why it has not ("" if it has). Raises what `compare` does.
    """
    looks = dict.fromkeys((suspect.key for suspect in suspects), 0)
    open_ = {suspect.key: suspect for suspect in suspects}
    wrong: list[Suspect] = []
    for number in range(_ROUNDS_MAX):
        if not open_:
            break
        pair.pace.require_time()
        if number:
            time.sleep(_PAUSE_SECONDS)
        if why := await_target():
            return LookedAt(tuple(wrong), tuple(open_.values()), why)
        for key, now in _read_again(pair, open_).items():
            before = open_[key]
            looks[key] = looks[key] + 1 if now == before else int(now.source == before.source)
            open_[key] = now
            # A suspect need not have been read before it came here.
            if now.target == now.source or (number and now.target == before.source):
                del open_[key]
            elif looks[key] >= _LOOKS:
                wrong.append(open_.pop(key))
    return LookedAt(tuple(wrong), tuple(open_.values()))


def describe_rows(pair: Pair, wrong: Sequence[Suspect]) -> Iterator[DivergentRow]:
    """Yield what is wrong with each row, with the values of the columns that differ, cut where they are long."""
    for some in _groups(wrong, _KEYS_AT_ONCE):
        keys = [suspect.key for suspect in some]
        mine = _read(pair.source, pair.source_side, keys)
        theirs = _read(pair.target, pair.target_side, keys)
        for suspect in some:
            row, other = (found.get(suspect.key, ((),))[0] for found in (mine, theirs))
            differing = _differing(pair.source_side, row, other) if row and other else {}
            yield DivergentRow(suspect.key, row_state(suspect.source, suspect.target), differing)


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


def _read_again(pair: Pair, suspects: Mapping[RowKey, Suspect]) -> dict[RowKey, Suspect]:
    """Read the target, then the source."""
    pair.target.renew()
    theirs = _hashes_now(pair.target, pair.target_side, {key: each.target for key, each in suspects.items()})
    pair.source.renew()
    mine = _hashes_now(pair.source, pair.source_side, {key: each.source for key, each in suspects.items()})
    return {key: replace(suspect, source=mine[key], target=theirs[key]) for key, suspect in suspects.items()}


def _hashes_now(database: AuditedDatabase, side: AuditSide, known: Mapping[RowKey, Hashes]) -> Mapping[RowKey, Hashes]:
    """Return the hashes of rows by key; they are read where the rows are not as `known`, as sums tell."""
    now: dict[RowKey, Hashes] = {}
    for some in _pages(side, list(known)):
        before = [known[key] for key in some]
        if len(some) >= _SUMMED_MIN and read_sums(database.fetch(sums_query(side, some))) == sums_of(before):
            now |= zip(some, before, strict=True)
            continue
        found = index_by_key(database.fetch(keys_query(side, some)), len(side.key))
        now |= {key: tuple(sorted(str(row[len(side.key)]) for row in found.get(key, ()))) for key in some}
    return now


def _shown(column: AuditColumn, text: str | None, rest: str | None) -> str | None:
    if column.kind == "float" and text is not None:
        number = read_float(text)
        return text if number is None else repr(number)
    return text if rest is None else f"{text}... ({rest.partition(' ')[0]} characters)"


def _read(
    database: AuditedDatabase, side: AuditSide, keys: Sequence[RowKey]
) -> Mapping[RowKey, Sequence[Sequence[object]]]:
    """Return the values of rows by key."""
    rows = [row for some in _pages(side, keys) for row in database.fetch(keys_query(side, some, values=True))]
    wanted = set(keys)
    return {key: found for key, found in index_by_key(rows, len(side.key)).items() if key in wanted}


def _pages(side: AuditSide, keys: Sequence[RowKey]) -> Iterator[Sequence[RowKey]]:
    """Yield `keys` in groups, each for one query."""
    is_number = len(side.key) == 1 and side.key[0].kind == "integer"
    listed = [key for key in keys if is_number and key[0] is not None]
    others = keys if not listed else [key for key in keys if key[0] is None]
    yield from _groups(listed, _NUMBERS_AT_ONCE)
    yield from _groups(others, _KEYS_AT_ONCE)


def _groups(listed: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(listed), size):
        yield listed[start : start + size]
