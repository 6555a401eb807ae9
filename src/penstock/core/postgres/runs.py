"""Many rows at once: the texts of each column, found in all messages of a run in lockstep.

One cursor per message goes through them column by column. What it does not understand (a value that was not
touched, a malformed message) is left to the plain decoder.
Source: PostgreSQL 18 documentation, "Logical Replication Message Formats", TupleData.
"""

from __future__ import annotations

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
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from penstock.core.postgres.log_items import RowsLogged
    from penstock.core.postgres.messages import Cells

ArrowArray: TypeAlias = "pa.Array[pa.Scalar[pa.DataType]]"
_Places: TypeAlias = "NDArray[np.int64]"

ROW_KINDS: Final = {b"IN": Op.CREATE, b"UN": Op.UPDATE, b"DK": Op.DELETE, b"DO": Op.DELETE}
"""Messages with one row image, by their kind and its letter."""
NOTHING_SKIPPED: Final = "report it, with the server's version; nothing was skipped"
RUN_ROWS_MIN: Final = 16
"""Fewer rows are cheaper one by one."""
HEAD_BYTES: Final = 6
"""A message's kind, its table's OID, and the letter of its row image."""
_COUNT_BYTES: Final = 2
_LENGTH_BYTES: Final = 4
_NULL, _TEXT = b"nt"


def find_texts(runs: Sequence[RowsLogged]) -> list[ArrowArray] | None:
    """Return what each column has in all rows of `runs`, of one table, as binary values; None for the plain decoder."""
    messages = [message for run in runs for message in run.messages]
    lengths = np.fromiter(map(len, messages), np.int64, len(messages))
    # What a message that ends too early would be read from is there.
    data = b"".join([*messages, bytes(_COUNT_BYTES + _LENGTH_BYTES)])
    octets = np.frombuffer(data, np.uint8)
    ends = np.cumsum(lengths)
    at = ends - lengths + HEAD_BYTES
    count = len(runs[0].relation.columns)
    if (_numbers(data, ">u2")[at] != count).any():
        return None
    at += _COUNT_BYTES
    sizes, columns = _numbers(data, ">u4"), list[ArrowArray]()
    for _ in range(count):
        if (at >= ends).any():
            return None
        kinds = octets[at]
        is_null = kinds == _NULL
        if not (is_null | (kinds == _TEXT)).all():
            return None
        starts = at + np.where(is_null, 1, 1 + _LENGTH_BYTES)
        at = starts + np.where(is_null, 0, sizes[at + 1])
        if (at > ends).any():
            return None
        columns.append(_values(data, starts, at, is_null))
    return columns if (at == ends).all() else None


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
        case Inserted(_, new) | Updated(_, None, _, new):
            return None, False, new
        case Deleted(_, old, is_whole):
            return old, is_whole, None
        case other:
            what = f"{type(other).__name__} among rows with one image"
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
