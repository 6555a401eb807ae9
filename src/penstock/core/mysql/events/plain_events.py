"""Which stretches of a log are whole transactions of the usual events.

What is usual: the GTID of a transaction (and BEGIN, where MySQL writes it), then
descriptions of tables, rows and comments, then the commit. Everything else is
for `scan`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from penstock.core.mysql.events.binary_pieces import PIECES_BYTES_MAX, cut_pieces
from penstock.core.mysql.events.event_codes import EventCode as Code
from penstock.core.mysql.events.event_columns import EventColumns, read_headers
from penstock.core.mysql.events.query_event import Control, control_of, parse_query
from penstock.core.mysql.types.bytes_reader import MalformedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.core.mysql.rows.rows_columns import Bools, Int64s

Kinds: TypeAlias = npt.NDArray[np.uint8]

THREAD_AND_TIME_BYTES: Final = 8
"""What comes first in a QUERY event and says nothing of the statement."""
_BEGIN: Final = b"BEGIN"


class ItemKind(IntEnum):
    """What an event is within a transaction of the usual events."""

    OTHER = 0
    MARIADB_GTID = 1
    MYSQL_GTID = 2
    ANONYMOUS_GTID = 3
    BEGIN = 4
    COMMENT = 5
    TABLE_MAP = 6
    ROWS = 7
    COMMIT = 8


KINDS: Final = {
    Code.MARIADB_GTID: (ItemKind.MARIADB_GTID, 13),
    Code.GTID: (ItemKind.MYSQL_GTID, 25),
    Code.ANONYMOUS_GTID: (ItemKind.ANONYMOUS_GTID, 25),
    Code.QUERY: (ItemKind.BEGIN, 13),
    Code.ROWS_QUERY: (ItemKind.COMMENT, 0),
    Code.MARIADB_ANNOTATE_ROWS: (ItemKind.COMMENT, 0),
    Code.TABLE_MAP: (ItemKind.TABLE_MAP, 8),
    Code.WRITE_ROWS_V1: (ItemKind.ROWS, 8),
    Code.UPDATE_ROWS_V1: (ItemKind.ROWS, 8),
    Code.DELETE_ROWS_V1: (ItemKind.ROWS, 8),
    Code.WRITE_ROWS: (ItemKind.ROWS, 10),
    Code.UPDATE_ROWS: (ItemKind.ROWS, 10),
    Code.DELETE_ROWS: (ItemKind.ROWS, 10),
    Code.XID: (ItemKind.COMMIT, 0),
}
"""The usual events, and how many bytes their bodies have at least, so that what is looked at is there."""

MAY_FOLLOW: Final = {
    ItemKind.MARIADB_GTID: (ItemKind.COMMENT, ItemKind.TABLE_MAP),
    ItemKind.MYSQL_GTID: (ItemKind.BEGIN,),
    ItemKind.ANONYMOUS_GTID: (ItemKind.BEGIN,),
    ItemKind.BEGIN: (ItemKind.COMMENT, ItemKind.TABLE_MAP),
    ItemKind.COMMENT: (ItemKind.TABLE_MAP,),
    ItemKind.TABLE_MAP: (ItemKind.TABLE_MAP, ItemKind.ROWS),
    ItemKind.ROWS: (ItemKind.ROWS, ItemKind.COMMENT, ItemKind.TABLE_MAP, ItemKind.COMMIT),
    ItemKind.COMMIT: (ItemKind.MARIADB_GTID, ItemKind.MYSQL_GTID, ItemKind.ANONYMOUS_GTID),
}


def _tables() -> tuple[Kinds, Int64s, Bools]:
    """The three tables above by numbers: kinds and sizes by code, and whether one kind may stand before another."""
    kinds, sizes = np.zeros(256, np.uint8), np.zeros(256, np.int64)
    for code, (kind, size) in KINDS.items():
        kinds[code], sizes[code] = kind, size
    may_follow = np.zeros((len(ItemKind), len(ItemKind)), np.bool_)
    for before, after in MAY_FOLLOW.items():
        may_follow[before, list(after)] = True
    return kinds, sizes, may_follow


_KIND_OF_CODE, _BYTES_MIN, _FOLLOWS = _tables()


@dataclass(frozen=True, slots=True)
class PlainStretch:
    """Events that are whole transactions, all of which begin with the same kind of event; their kinds are uint8[n]."""

    events: EventColumns
    kinds: Kinds


def plain_stretches(
    buffer: memoryview, places: Int64s, events_min: int, *, checksums: bool
) -> Iterator[tuple[int, PlainStretch]]:
    """Find stretches of at least `events_min` events in what stands at `places` (int64[n, 2]) of `buffer`.

    Yields each with the number of its first event, in log order.
    """
    if len(buffer) > PIECES_BYTES_MAX:
        return
    events = read_headers(buffer, places, checksums=checksums)
    kinds = _kinds_of(events)
    for first, after in _find(kinds, events_min):
        yield first, PlainStretch(events.part(slice(first, after)), kinds[first:after])


def _kinds_of(events: EventColumns) -> Kinds:
    kinds = _KIND_OF_CODE[events.codes]
    kinds[events.body_ends - events.bodies < _BYTES_MIN[events.codes]] = ItemKind.OTHER
    queries = np.flatnonzero(kinds == ItemKind.BEGIN)
    kinds[queries[~_begins(events, queries)]] = ItemKind.OTHER
    return kinds


def _find(kinds: Kinds, events_min: int) -> Iterator[tuple[int, int]]:
    """Yield where stretches begin and end."""
    begins = np.flatnonzero((kinds >= ItemKind.MARIADB_GTID) & (kinds <= ItemKind.ANONYMOUS_GTID))
    commits = np.flatnonzero(kinds == ItemKind.COMMIT)
    goes_on = _FOLLOWS[kinds[:-1], kinds[1:]]
    goes_on[begins[1:][kinds[begins[1:]] != kinds[begins[:-1]]] - 1] = False
    barriers = np.concatenate([[0], np.flatnonzero(~goes_on) + 1, [len(kinds)]])
    for index in np.flatnonzero(np.diff(barriers) >= events_min).tolist():
        low, high = barriers[index : index + 2]
        begin, end = np.searchsorted(begins, low), np.searchsorted(commits, high) - 1
        if begin < len(begins) and end >= 0 and commits[end] + 1 - begins[begin] >= events_min:
            yield int(begins[begin]), int(commits[end]) + 1


def _begins(events: EventColumns, queries: Int64s) -> Bools:
    """Return which of the QUERY events at the places `queries` are BEGIN; all equal ones are read once."""
    found = np.zeros(len(queries), np.bool_)
    ends = events.body_ends[queries]
    likely = np.flatnonzero(events.words.at_every_byte("S5")[ends - len(_BEGIN)] == _BEGIN)
    if len(likely):
        starts = events.bodies[queries][likely] + THREAD_AND_TIME_BYTES
        pieces = cut_pieces(events.buffer, starts, ends[likely], np.arange(len(likely))).dictionary_encode()
        are_begin = np.array([is_begin(piece or b"") for piece in pieces.dictionary.to_pylist()])
        found[likely] = are_begin[pieces.indices.to_numpy()]
    return found


@lru_cache
def is_begin(rest: bytes) -> bool:
    """Whether a QUERY event is BEGIN, by what stands behind its thread and its time, which is mostly the same."""
    try:
        return control_of(parse_query(bytes(THREAD_AND_TIME_BYTES) + rest).sql) is Control.BEGIN
    except (MalformedError, KeyError):
        # No text at all, or of a character set that we do not know: whoever reads the event by itself says so.
        return False
