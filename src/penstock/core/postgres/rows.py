"""Rows of the log, and of COPY, as columns."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice, starmap
from operator import attrgetter
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.arrow_types import arrow_schema
from penstock.core.changes import Op, RowBatch
from penstock.core.errors import READ_AGAIN, TableStoppedError
from penstock.core.postgres.bad_values import BadValueError
from penstock.core.postgres.columns import column_reader
from penstock.core.postgres.log_items import STEPS_PER_ROW, RowsLogged
from penstock.core.postgres.messages import UNCHANGED, Unchanged
from penstock.core.postgres.runs import RUN_ROWS_MIN, Texts, find_texts, rows_of
from penstock.core.postgres.types import find_type
from penstock.core.postgres.values import value_reader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from penstock.core.postgres.columns import ColumnReader
    from penstock.core.postgres.log_items import RowLogged, Transaction
    from penstock.core.postgres.messages import Cells, Relation
    from penstock.core.postgres.types import TypeInfo
    from penstock.core.postgres.values import Reader, Value
    from penstock.core.tables import TableSchema

ArrowArray: TypeAlias = "pa.Array[pa.Scalar[pa.DataType]]"
_T = TypeVar("_T")
_Lacking: TypeAlias = tuple[int, ...]
_Whole: TypeAlias = "tuple[bytes | None, ...]"
_FULL: Final = "ALTER TABLE {table} REPLICA IDENTITY FULL, so that the log has whole rows"
_FULL_OF_PARTITIONS: Final = (
    "ALTER TABLE {table} REPLICA IDENTITY FULL, and the same of each of its partitions, which do not take it from "
    "there (SELECT relid FROM pg_partition_tree('{table}')), so that the log has whole rows"
)


@dataclass(frozen=True, slots=True)
class RowDecoder:
    """Decodes the rows of one table that came with one relation message, or a copy of the table in its order."""

    schema: TableSchema
    arrow: pa.Schema
    readers: tuple[Reader, ...]
    column_readers: tuple[ColumnReader | None, ...]
    key: tuple[int, ...]

    @classmethod
    def of(cls, schema: TableSchema, relation: Relation, types: Mapping[int, TypeInfo]) -> RowDecoder:
        """Prepare to read rows of `relation`, whose columns are those of `schema`."""
        columns = [
            (find_type(column.type_oid, column.modifier, types), carried.type)
            for column, carried in zip(relation.columns, schema.columns, strict=True)
        ]
        readers = tuple(value_reader(found, carried, types) for found, carried in columns)
        names = [column.name for column in schema.columns]
        at_once = tuple(starmap(column_reader, columns))
        return cls(schema, arrow_schema(schema), readers, at_once, tuple(map(names.index, schema.key)))

    def decode(self, rows: Sequence[RowLogged | RowsLogged]) -> Iterator[RowBatch]:
        """Yield batches with all of `rows`, each in log order.

        Raises TableStoppedError for a value that cannot be carried, and for a row that got
        another key and was logged without all of its values.
        """
        runs: dict[tuple[str, Op, str], list[RowsLogged]] = defaultdict(list)
        ones: list[RowLogged] = []
        for row in rows:
            if isinstance(row, RowsLogged):
                runs[(row.transaction.place.file, row.op, row.image)].append(row)
            else:
                ones.append(row)
        for group in runs.values():
            # A few are cheaper one by one.
            is_many = sum(len(run.messages) for run in group) >= RUN_ROWS_MIN
            images = self._completed(group[0].image, find_texts(group)) if is_many else None
            if images is None:
                ones.extend(one for run in group for one in rows_of(run))
            else:
                batch = self._batch_of_runs(group, [image.columns for image in images])
                yield from _by_what_they_lack(batch, images[-1].untouched)
        ones.sort(key=lambda row: row.serial)
        yield from self._decode_one_by_one(ones)

    def _decode_one_by_one(self, rows: Sequence[RowLogged]) -> Iterator[RowBatch]:
        groups: dict[tuple[str, Op, _Lacking, _Lacking], list[tuple[RowLogged, Cells, Cells]]] = defaultdict(list)
        for row in rows:
            before, after = self._images(row)
            lacks = _lacking(before), _lacking(after)
            groups[(row.transaction.place.file, row.op, *lacks)].append((row, before, after))
        yield from starmap(self._batch, groups.items())

    def copied(self, cells: Sequence[_Whole], transaction: Transaction, first_row: int) -> RowBatch:
        """Return rows of a copy, as it was at `transaction`, as a READ batch; they are numbered from `first_row` on."""
        count = len(cells)
        numbers = np.arange(first_row, first_row + count, dtype=np.int32)
        rows = self._record_batch(cells, lambda index: f"an initial snapshot, row {first_row + index}")
        return RowBatch(
            schema=self.schema,
            op=Op.READ,
            before=None,
            after=rows,
            file=transaction.place.file,
            offsets=np.full(count, transaction.place.offset, np.int64),
            rows=numbers,
            timestamps_ms=np.full(count, transaction.timestamp_ms, np.int64),
            gtids=pa.array([""] * count, pa.string()),
            server_id=0,
        )

    def gone(self, asked: Sequence[_Whole], there: Sequence[_Whole], transaction: Transaction) -> RowBatch | None:
        """Return the keys `asked` for that no row `there` had at `transaction` as a DELETE batch, None for none.

        Of `asked` only keys are known. One is a row's if it is printed as that, or has the values of its columns. The
        database may take more for equal, texts in another case, say, which targets take for another key.
        """
        printed = {tuple(cells[index] for index in self.key) for cells in there}
        values = set(self._key_values(there))
        listed = zip(asked, self._key_values(asked), strict=True)
        cells = [
            each
            for each, key in listed
            if tuple(each[index] for index in self.key) not in printed and key not in values
        ]
        if not cells:
            return None
        batch = self.copied(cells, transaction, 0)
        lacks = tuple(name for index, name in enumerate(self.arrow.names) if index not in self.key)
        return replace(batch, op=Op.DELETE, before=batch.after, after=None, before_lacks=lacks)

    def _key_values(self, cells: Sequence[_Whole]) -> Sequence[tuple[object, ...]]:
        keys = [tuple(cell if index in self.key else None for index, cell in enumerate(each)) for each in cells]
        rows = self._record_batch(keys, lambda index: f"listed key {index}")
        columns = (rows.column(index).to_pylist() for index in self.key)
        hashable = ([tuple(each) if isinstance(each, list) else each for each in column] for column in columns)
        return list(zip(*hashable, strict=True))

    def _images(self, row: RowLogged) -> tuple[Cells, Cells]:
        """Return the row before and after the change, () where there is none; what the log lacks is UNCHANGED."""
        old, new = row.old or (), row.new or ()
        if row.op is Op.CREATE:
            return (), new
        missing = [index for index in self.key if old and old[index] is None]
        if missing:
            raise self._lacks(row, missing[0], "a row was logged without the key that it had")
        is_whole = self._is_whole(row, old, new)
        if row.op is Op.UPDATE:
            if is_whole:
                return old, tuple(was if cell is UNCHANGED else cell for was, cell in zip(old, new, strict=True))
            if old:
                # A key that is stored apart is logged as the old one, and untouched in the new row.
                new = tuple(old[i] if cell is UNCHANGED and i in self.key else cell for i, cell in enumerate(new))
            self._require_whole_if_moved(row, old, new)
            old = old or new
        elif is_whole:
            return old, ()
        return tuple(cell if index in self.key else UNCHANGED for index, cell in enumerate(old)), new

    def _is_whole(self, row: RowLogged, old: Cells, new: Cells) -> bool:
        """Whether an old row that is said to be whole is.

        Of a partitioned table that is said by its own identity, and the old row is the partition's: it may be a key,
        and NULL in place of all else. What is stored apart was no NULL.
        """
        both = zip(old, new or old, strict=True)
        if not old or not row.is_old_whole or any(was is None and cell is UNCHANGED for was, cell in both):
            return False
        is_partitioned = self.schema.partitions and self.key
        return not is_partitioned or any(cell is not None for index, cell in enumerate(old) if index not in self.key)

    def _require_whole_if_moved(self, row: RowLogged, old: Cells, new: Cells) -> None:
        if UNCHANGED not in new:
            return
        lacking = new.index(UNCHANGED)
        if not self.key:
            raise self._lacks(row, lacking, "a row of a table without a key was logged without this column")
        if old and any(old[index] != new[index] for index in self.key):
            reason = "a row got another key, and was logged without this column, which it did not touch"
            raise self._lacks(row, lacking, reason)

    def _lacks(self, row: RowLogged, index: int, reason: str) -> TableStoppedError:
        full = _FULL_OF_PARTITIONS if self.schema.partitions else _FULL
        hint = f"{full.format(table=self.schema.table)}; then {READ_AGAIN}"
        return TableStoppedError(str(self.schema.table), self.schema.columns[index].name, _where(row), reason, hint)

    def _batch(
        self, shared: tuple[str, Op, _Lacking, _Lacking], group: Sequence[tuple[RowLogged, Cells, Cells]]
    ) -> RowBatch:
        file, op, before_lacks, after_lacks = shared
        rows = [row for row, _, _ in group]
        befores, afters = [_known(before) for _, before, _ in group], [_known(after) for _, _, after in group]
        return RowBatch(
            schema=self.schema,
            op=op,
            before=None if op is Op.CREATE else self._record_batch(befores, lambda index: _where(rows[index])),
            after=None if op is Op.DELETE else self._record_batch(afters, lambda index: _where(rows[index])),
            file=file,
            offsets=np.array([row.transaction.offset for row in rows], np.int64),
            rows=np.array([row.number for row in rows], np.int32),
            timestamps_ms=np.array([row.transaction.timestamp_ms for row in rows], np.int64),
            gtids=pa.array([row.transaction.name for row in rows], pa.string()),
            server_id=0,
            serials=np.array([row.serial for row in rows], np.int64),
            before_lacks=tuple(self.schema.columns[index].name for index in before_lacks),
            after_lacks=tuple(self.schema.columns[index].name for index in after_lacks),
        )

    def _completed(self, image: str, images: list[Texts] | None) -> list[Texts] | None:
        """Take from the old row or key what an update left untouched; None where the plain decoder has to judge."""
        if images is None or self._is_doubtful(image, images):
            return None
        if not images[-1].untouched:
            return images
        untouched = dict(images[-1].untouched)
        if len(images) > 1:
            old, columns = images[0].columns, list(images[-1].columns)
            for index in [index for index in untouched if image == "O" or index in self.key]:
                columns[index] = pc.if_else(pa.array(untouched.pop(index)), old[index], columns[index])
            images = [images[0], Texts(columns, untouched)]
        # A row that got another key, or has none, must have all of its values.
        is_moved = image == "K" or not self.key or not untouched.keys().isdisjoint(self.key)
        return None if untouched and is_moved else images

    def _is_doubtful(self, image: str, images: Sequence[Texts]) -> bool:
        """Whether some old row may lack its key, or be none that is whole: see `_is_whole`."""
        if image == "N":
            return False
        old = [np.asarray(column.is_null()) for column in images[0].columns]
        if any(old[index].any() for index in self.key):
            return True
        untouched = images[-1].untouched if image == "O" and len(images) > 1 else {}
        if any((old[index] & mask).any() for index, mask in untouched.items()):
            return True
        if image != "O" or not self.schema.partitions or not self.key:
            return False
        rest = [nulls for index, nulls in enumerate(old) if index not in self.key]
        return bool(np.logical_and.reduce(rest).any()) if rest else False

    def _batch_of_runs(self, runs: Sequence[RowsLogged], images: Sequence[Sequence[ArrowArray]]) -> RowBatch:
        op, rest = runs[0].op, [index for index in range(len(self.readers)) if index not in self.key]
        lacks_rest = op is not Op.CREATE and runs[0].image != "O"
        before, after = self._images_of_runs(runs, images, rest if lacks_rest else ())
        return RowBatch(
            schema=self.schema,
            op=op,
            before=before,
            after=after,
            file=runs[0].transaction.place.file,
            offsets=np.array(_of_each(runs, attrgetter("offset")), np.int64),
            rows=_numbers([run.numbers for run in runs]).astype(np.int32),
            timestamps_ms=np.array(_of_each(runs, attrgetter("timestamp_ms")), np.int64),
            gtids=pa.array(_of_each(runs, attrgetter("name")), pa.string()),
            server_id=0,
            serials=_numbers([run.serials for run in runs]),
            before_lacks=tuple(self.schema.columns[index].name for index in rest) if lacks_rest else (),
        )

    def _images_of_runs(
        self, runs: Sequence[RowsLogged], images: Sequence[Sequence[ArrowArray]], lacking: Sequence[int]
    ) -> tuple[pa.RecordBatch | None, pa.RecordBatch | None]:
        """Return the rows before and after; of the old ones the log lacks the columns `lacking`."""
        op = runs[0].op
        first = self._of_texts(runs, images[0], lacking if op is Op.DELETE or len(images) > 1 else ())
        if op is not Op.UPDATE:
            return (None, first) if op is Op.CREATE else (first, None)
        if len(images) > 1:
            return first, self._of_texts(runs, images[1], ())
        nothing = {index: pa.nulls(first.num_rows, self.arrow.field(index).type) for index in lacking}
        arrays = [nothing.get(index, column) for index, column in enumerate(first.columns)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow), first

    def _of_texts(
        self, runs: Sequence[RowsLogged], texts: Sequence[ArrowArray], unread: Sequence[int]
    ) -> pa.RecordBatch:
        arrays = [
            pa.nulls(len(text), self.arrow.field(index).type)
            if index in unread
            else self._column(index, text, lambda row: _where_in(runs, row))
            for index, text in enumerate(texts)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow)

    def _record_batch(self, rows: Sequence[_Whole], where: Callable[[int], str]) -> pa.RecordBatch:
        columns = zip(*rows, strict=True) if rows else ((),) * len(self.readers)
        texts = [pa.array(column, pa.binary()) for column in columns]
        arrays = [self._column(index, text, where) for index, text in enumerate(texts)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow)

    def _column(self, index: int, texts: ArrowArray, where: Callable[[int], str]) -> ArrowArray:
        at_once, wanted = self.column_readers[index], self.arrow.field(index).type
        if at_once is not None:
            # What is refused is read again one by one, which says what is wrong, if anything is.
            with suppress(pa.ArrowException):
                return at_once(texts, wanted)
        return self._column_one_by_one(index, cast("pa.BinaryArray", texts).to_pylist(), where)

    def _column_one_by_one(self, index: int, column: Sequence[bytes | None], where: Callable[[int], str]) -> ArrowArray:
        read = self.readers[index]
        values: list[Value | None] = []
        try:
            for raw in column:
                values.append(None if raw is None else read(raw))  # noqa: PERF401 - its length names the bad value
        except BadValueError as error:
            name, place = self.schema.columns[index].name, where(len(values))
            raise TableStoppedError(str(self.schema.table), name, place, error.reason, error.hint) from error
        array: ArrowArray = pa.array(values, self.arrow.field(index).type)
        return array


def _by_what_they_lack(batch: RowBatch, untouched: Mapping[int, NDArray[np.bool_]]) -> Iterator[RowBatch]:
    """Take rows apart by the columns that their updates left untouched."""
    if not untouched:
        yield batch
        return
    names = np.array([batch.schema.columns[index].name for index in untouched])
    patterns, of_rows = np.unique(np.column_stack(list(untouched.values())), axis=0, return_inverse=True)
    for index, pattern in enumerate(patterns):
        lacks = tuple(names[pattern].tolist())
        yield replace(batch if len(patterns) == 1 else _taken(batch, of_rows == index), after_lacks=lacks)


def _taken(batch: RowBatch, chosen: NDArray[np.bool_]) -> RowBatch:
    mask = pa.array(chosen)
    return replace(
        batch,
        before=None if batch.before is None else batch.before.filter(mask),
        after=None if batch.after is None else batch.after.filter(mask),
        offsets=batch.offsets[chosen],
        rows=batch.rows[chosen],
        timestamps_ms=batch.timestamps_ms[chosen],
        gtids=batch.gtids.filter(mask),
        serials=None if batch.serials is None else batch.serials[chosen],
    )


def _lacking(cells: Cells) -> _Lacking:
    return tuple([index for index, cell in enumerate(cells) if cell is UNCHANGED]) if UNCHANGED in cells else ()


def _known(cells: Cells) -> _Whole:
    return tuple([None if isinstance(cell, Unchanged) else cell for cell in cells])


def _where(row: RowLogged) -> str:
    return f"{row.transaction.place} row {row.number // STEPS_PER_ROW}"


def _where_in(runs: Sequence[RowsLogged], row: int) -> str:
    """Say where the `row`-th of all rows is."""
    return next(islice((_where(one) for run in runs for one in rows_of(run)), row, None))


def _of_each(runs: Sequence[RowsLogged], tell: Callable[[Transaction], _T]) -> list[_T]:
    """What is told of the transaction of each row, once where a run has a single one: its transactions are in order."""
    told: list[_T] = []
    for run in runs:
        first, count = run.transactions[0], len(run.transactions)
        told += [tell(first)] * count if first is run.transactions[-1] else map(tell, run.transactions)
    return told


def _numbers(parts: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    return np.concatenate(
        [
            np.arange(part.start, part.stop, part.step, dtype=np.int64)
            if isinstance(part, range)
            else np.array(part, np.int64)
            for part in parts
        ]
    )
