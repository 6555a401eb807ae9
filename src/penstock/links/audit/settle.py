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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.audit.queries import index_by_key, keys_query, read_sums, sums_query
from penstock.core.audit.suspects import Suspects, hashes_of, sums_of
from penstock.links.audit.ask import page_places

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from penstock.core.audit.side import AuditSide
    from penstock.links.audit.pair import Pair
    from penstock.ports.audited import AuditedDatabase

_LOOKS: Final = 3
_ROUNDS_MAX: Final = 20
_SUMMED_MIN: Final = 500
"""From so many rows on their sums are asked for first: only where these are others do hashes travel."""
_PAUSE_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class LookedAt:
    """What became of suspects, as they were when they were last read; `why` the target lags, "" if it does not."""

    wrong: Suspects
    in_flight: Suspects
    why: str = ""


def settle(pair: Pair, suspects: Suspects, await_target: Callable[[], str]) -> LookedAt:
    """Look at `suspects` again.

    `await_target` waits until the target has passed the place at which the source
    was last renewed, and says why it has not ("" if it has). Raises what `compare` does.
    """
    open_, looks = suspects, np.zeros(len(suspects), np.int8)
    wrong: list[Suspects] = []
    for number in range(_ROUNDS_MAX):
        if not len(open_):
            break
        pair.pace.require_time()
        if number:
            time.sleep(_PAUSE_SECONDS)
        # It may take long, and nobody alters a table that a snapshot has read.
        pair.release()
        if why := await_target():
            return LookedAt(Suspects.joined(wrong), open_, why)
        now = _read_again(pair, open_)
        is_same_source, is_same_target = _are_equal(now.source, open_.source), _are_equal(now.target, open_.target)
        looks = np.where(is_same_source & is_same_target, looks + 1, is_same_source).astype(np.int8)
        is_equal = _are_equal(now.target, now.source)
        if number:
            # A suspect need not have been read before it came here.
            is_equal |= _are_equal(now.target, open_.source)
        is_wrong = ~is_equal & (looks >= _LOOKS)
        wrong.append(now.take(np.flatnonzero(is_wrong)))
        rest = np.flatnonzero(~is_equal & ~is_wrong)
        open_, looks = now.take(rest), looks[rest]
    return LookedAt(Suspects.joined(wrong), open_)


def _are_equal(hashes: pa.BinaryArray, others: pa.BinaryArray) -> npt.NDArray[np.bool_]:
    return np.asarray(pc.equal(hashes, others))


def _read_again(pair: Pair, suspects: Suspects) -> Suspects:
    """Read the target, then the source."""
    pair.target.renew()
    target = _now(pair.target, pair.target_side, suspects, suspects.target)
    pair.source.renew()
    source = _now(pair.source, pair.source_side, suspects, suspects.source)
    return suspects.seen_as(source, target)


def _now(database: AuditedDatabase, side: AuditSide, suspects: Suspects, known: pa.BinaryArray) -> pa.BinaryArray:
    """Return the hashes of all rows, page by page; those of a page are as `known` where their sums are."""
    places: list[npt.NDArray[np.int64]] = []
    found: list[pa.BinaryArray] = []
    for some in page_places(side, suspects):
        places.append(some)
        keys, before = suspects.keys_at(some), known.take(some)
        if len(some) >= _SUMMED_MIN and read_sums(database.fetch(sums_query(side, keys))) == sums_of(before):
            found.append(before)
            continue
        rows = index_by_key(database.fetch(keys_query(side, keys)), len(side.key))
        now = [hashes_of(str(row[len(side.key)]) for row in rows.get(key, ())) for key in keys]
        found.append(pa.array(now, pa.binary()))
    order = np.argsort(np.concatenate(places))
    return pa.concat_arrays(found).take(order)
