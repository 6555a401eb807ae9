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
from typing import TYPE_CHECKING, Final

from penstock.core.audit.queries import (
    index_by_key,
    keys_query,
    read_sums,
    sums_of,
    sums_query,
)
from penstock.links.audit.ask import pages

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.core.audit.findings import Hashes, RowKey, Suspect
    from penstock.core.audit.side import AuditSide
    from penstock.links.audit.compare import Pair
    from penstock.ports.audited import AuditedDatabase

_LOOKS: Final = 3
_ROUNDS_MAX: Final = 20
_SUMMED_MIN: Final = 500
"""From so many rows on their sums are asked for first: only where these are others do hashes travel."""
_PAUSE_SECONDS: Final = 0.2


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


def _read_again(pair: Pair, suspects: Mapping[RowKey, Suspect]) -> dict[RowKey, Suspect]:
    """Read the target, then the source."""
    pair.target.renew()
    theirs = _changed(pair.target, pair.target_side, {key: each.target for key, each in suspects.items()})
    pair.source.renew()
    mine = _changed(pair.source, pair.source_side, {key: each.source for key, each in suspects.items()})
    changed = {
        key: replace(
            suspects[key], source=mine.get(key, suspects[key].source), target=theirs.get(key, suspects[key].target)
        )
        for key in mine.keys() | theirs.keys()
    }
    return {**suspects, **changed}


def _changed(database: AuditedDatabase, side: AuditSide, known: Mapping[RowKey, Hashes]) -> Mapping[RowKey, Hashes]:
    """Return the hashes of rows by key, without rows that are as `known`, as sums tell."""
    now: dict[RowKey, Hashes] = {}
    for some in pages(side, list(known)):
        if len(some) >= _SUMMED_MIN:
            before = sums_of(known[key] for key in some)
            if read_sums(database.fetch(sums_query(side, some))) == before:
                continue
        found = index_by_key(database.fetch(keys_query(side, some)), len(side.key))
        now |= {key: tuple(sorted(str(row[len(side.key)]) for row in found.get(key, ()))) for key in some}
    return now
