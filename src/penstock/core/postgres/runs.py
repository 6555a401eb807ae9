"""Many rows at once: the texts of each column, found in all messages of a run in lockstep.

One cursor per message goes through them column by column. What it does not understand (a malformed message) is
left to the plain decoder.
Source: PostgreSQL 18 documentation, "Logical Replication Message Formats", TupleData.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.core.changes import Op
from penstock.core.errors import CorruptLogError
from penstock.core.postgres.log_items import RowLogged, size_of
from penstock.core.postgres.messages import Deleted, Inserted, Updated
from penstock.core.postgres.network_reader import MalformedError
from penstock.core.postgres.pgoutput import decode_message

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from penstock.core.postgres.log_items import RowsLogged
    from penstock.core.postgres.messages import Cells

ArrowArray: TypeAlias = "pa.Array[pa.Scalar[pa.DataType]]"
_Places: TypeAlias = "NDArray[np.int64]"

ROW_KINDS: Final = {
    b"IN": Op.CREATE,
    b"UN": Op.UPDATE,
    b"UK": Op.UPDATE,
    b"UO": Op.UPDATE,
    b"DK": Op.DELETE,
    b"DO": Op.DELETE,
}
"""Messages of rows, by their kind and the letter of the first row image."""
NOTHING_SKIPPED: Final = "report it, with the server's version; nothing was skipped"
RUN_ROWS_MIN: Final = 16
"""Fewer rows are cheaper one by one."""
HEAD_BYTES: Final = 6
"""A message's kind, its table's OID, and the letter of its row image."""
_COUNT_BYTES: Final = 2
_LENGTH_BYTES: Final = 4
_NULL, _TEXT, _UNTOUCHED, _NEW = b"ntuN"


@dataclass(frozen=True, slots=True)
class Texts:
    """One image of all rows: binary values by column, NULL too where an update left a large value untouched.

    `untouched` says in which rows it did, for the columns where any did.
    """

    columns: Sequence[ArrowArray]
    untouched: Mapping[int, NDArray[np.bool_]]


def find_texts(runs: Sequence[RowsLogged]) -> list[Texts] | None:
    """Return what all rows of `runs`, of one table, have; None for the plain decoder.

    Of updates with an old row or an old key there are two images, the old one and the new one; else there is one.
    """
    messages = [message for run in runs for message in run.messages]
    lengths = np.fromiter(map(len, messages), np.int64, len(messages))
    # What a message that ends too early would be read from is there.
    data = b"".join([*messages, bytes(_COUNT_BYTES + _LENGTH_BYTES)])
    ends = np.cumsum(lengths)
    walk = _Walk(data, ends - lengths + HEAD_BYTES, ends)
    count, is_update = len(runs[0].relation.columns), runs[0].op is Op.UPDATE
    has_two = is_update and runs[0].image != "N"
    images = [walk.image(count, may_lack=is_update and not has_two)]
    if has_two:
        images.append(walk.image(count, may_lack=True) if walk.pass_by(_NEW) else None)
    found = [image for image in images if image is not None]
    return found if len(found) == len(images) and walk.is_at_end() else None


class _Walk:
    """One cursor for each message, all of which go through their messages together."""

    def __init__(self, data: bytes, at: _Places, ends: _Places) -> None:
        self._data = data
        self._octets = np.frombuffer(data, np.uint8)
        self._at = at
        self._ends = ends

    def image(self, count: int, *, may_lack: bool) -> Texts | None:
        """Read a row image of `count` columns; None where a message has something else."""
        if (self._at > self._ends).any() or (_numbers(self._data, ">u2")[self._at] != count).any():
            return None
        at, ends = self._at + _COUNT_BYTES, self._ends
        sizes, columns = _numbers(self._data, ">u4"), list[ArrowArray]()
        untouched: dict[int, NDArray[np.bool_]] = {}
        for index in range(count):
            if (at >= ends).any():
                return None
            kinds = self._octets[at]
            is_null = kinds == _NULL
            is_known = is_null | (kinds == _TEXT)
            if not is_known.all():
                is_untouched = kinds == _UNTOUCHED
                if not may_lack or not (is_known | is_untouched).all():
                    return None
                untouched[index] = is_untouched
                is_null |= is_untouched
            starts = at + np.where(is_null, 1, 1 + _LENGTH_BYTES)
            at = starts + np.where(is_null, 0, sizes[at + 1])
            if (at > ends).any():
                return None
            columns.append(_values(self._data, starts, at, is_null))
        self._at = at
        return Texts(columns, untouched)

    def pass_by(self, letter: int) -> bool:
        """Pass by a letter, if each message has it here."""
        is_here = bool((self._at < self._ends).all() and (self._octets[self._at] == letter).all())
        self._at = self._at + 1
        return is_here

    def is_at_end(self) -> bool:
        """Whether each message ends here."""
        return bool((self._at == self._ends).all())


def rows_of(run: RowsLogged) -> Iterator[RowLogged]:
    """Yield the rows of a run one by one, by the plain decoder. Raises CorruptLogError where a message is malformed."""
    for message, transaction, number, serial in zip(
        run.messages, run.transactions, run.numbers, run.serials, strict=True
    ):
        try:
            old, is_whole, new = _images(message)
        except MalformedError as error:
            what = f"the log does not decode at {transaction.place}: {error}"
            raise CorruptLogError(what, NOTHING_SKIPPED) from error
        if len(new or old or ()) != len(run.relation.columns):
            what = f"the log has another number of columns at {transaction.place} than it announced for {run.table}"
            raise CorruptLogError(what, NOTHING_SKIPPED)
        size = size_of(old) + size_of(new)
        yield RowLogged(run.relation, run.op, old, is_whole, new, transaction, number, serial, size)


def _images(message: bytes) -> tuple[Cells | None, bool, Cells | None]:
    match decode_message(message):
        case Inserted(_, new):
            return None, False, new
        case Updated(_, old, is_whole, new):
            return old, is_whole, new
        case Deleted(_, old, is_whole):
            return old, is_whole, None
        case other:
            what = f"{type(other).__name__} among rows"
            raise MalformedError(what)


def _numbers(data: bytes, kind: str) -> NDArray[np.unsignedinteger]:
    """A number that begins at each byte."""
    width = np.dtype(kind).itemsize
    return np.ndarray((len(data) - width + 1,), kind, data, strides=(1,))


def _values(data: bytes, starts: _Places, ends: _Places, is_null: NDArray[np.bool_]) -> ArrowArray:
    """Cut values out of `data`: of an array that has them and what is between them, every other."""
    count = len(starts)
    offsets = np.empty(2 * count + 1, np.int32)
    offsets[:-1:2], offsets[1::2], offsets[-1] = starts, ends, ends[-1]
    every = pa.Array.from_buffers(pa.binary(), 2 * count, [None, pa.py_buffer(offsets.data), pa.py_buffer(data)])
    wanted = pa.array(np.arange(0, 2 * count, 2, dtype=np.int32), pa.int32(), mask=is_null)
    return every.take(wanted)
