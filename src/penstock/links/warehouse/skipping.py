"""Passing over the one change of a batch that a target refuses."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.config.crash_points import CrashPoint
from penstock.core.errors import TableStoppedError
from penstock.core.files import META_PREFIX, OFFSET, key_folder, render_file
from penstock.core.schema_changes import SchemaChangeKind
from penstock.core.transforms.column_history import PLAIN
from penstock.core.warehouse.load_plan import Piece
from penstock.links.warehouse.pieces import read_piece

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from penstock.core.batches import Batch
    from penstock.core.tables import TableId, TableSchema
    from penstock.ports.objects import ObjectStore
    from penstock.ports.sink import Sink
    from penstock.ports.table_actions import SkippedChange

_KEPT = CrashPoint("skip.kept", "a change that is to be passed over is kept, the target has not passed it")
_PASSED = CrashPoint("skip.passed", "the target has passed a change over, and nobody has been told so")

_ROW_CHARACTERS_MAX = 4 << 20
_VALUE_CHARACTERS_MAX = 1 << 16
HIDDEN = "(hidden, as the link hides the column)"


@dataclass(frozen=True, slots=True)
class Passed:
    """What came of a batch: how many rows were new, and what was passed over or hindered that; "" for neither.

    `is_held` says that a change is found and kept, and that somebody holds the table: try again.
    """

    rows: int
    told: str = ""
    is_done: bool = True
    is_held: bool = False


@dataclass(frozen=True, slots=True)
class FoundChange:
    """The change that a target refuses: where it is, its row images as JSON, and why."""

    batch: Batch
    offset: int
    row: str
    reason: str


class ChangeSkipper:
    """Loads a batch up to the first change that the target refuses, keeps that change, and goes past it.

    The change is found by halves: each is a file of its own, which is deleted
    again. So a batch of n changes takes some 2 log2(n) loads. It is kept before
    the target passes it, so that a kill in between loses nothing.
    """

    def __init__(
        self,
        link: str,
        sink: Sink,
        objects: ObjectStore,
        keep: Callable[[FoundChange], None],
        hides: Callable[[str], bool],
    ) -> None:
        """Load into `sink` for `link`; `hides` says of a column whether a rule for its name hides its values."""
        self._link = link
        self._sink = sink
        self._objects = objects
        self._keep = keep
        self._hides = hides

    def skip(
        self,
        batches: Iterable[Batch],
        schemas: Callable[[Collection[int]], Mapping[int, TableSchema]],
        kept: SkippedChange | None,
    ) -> Passed:
        """Load `batches` of a table up to the change that is refused, and go past it; none further.

        With `kept`, that is the change which a try before this one has found.
        """
        rows = 0
        for batch in batches:
            if batch.moves:
                break
            known = schemas({batch.schema_id})
            if kept is not None and _speaks_for(batch, kept):
                hindered = self._go_past(batch, kept.offset, known)
                return Passed(rows) if hindered is None else replace(hindered, rows=rows)
            passed = self._load(batch, known)
            rows += passed.rows
            if passed.told:
                return replace(passed, rows=rows)
        return Passed(rows)

    def _load(self, batch: Batch, schemas: Mapping[int, TableSchema]) -> Passed:
        """Load `batch`; of one that is refused, what is before the change that is, and not that change."""
        try:
            return Passed(self._sink.load(batch.table, [batch], schemas).rows)
        except TableStoppedError as error:
            if error.retryable or not batch.rows:
                return Passed(0, _why_not(error), is_done=False)
        try:
            return self._narrow(batch, schemas)
        except TableStoppedError as error:
            return Passed(0, _why_not(error), is_done=False)

    def _go_past(self, batch: Batch, offset: int, schemas: Mapping[int, TableSchema]) -> Passed | None:
        """Let the target have everything of `batch` up to `offset`, which it has but for the change there.

        Returns what hinders it, None for nothing.
        """
        start = self._position(batch)
        try:
            if start <= offset:
                self._sink.load(batch.table, [_empty(batch, start, offset + 1)], schemas)
        except TableStoppedError as error:
            return Passed(0, _why_not(error), is_done=False, is_held=error.retryable)
        return None

    def _narrow(self, batch: Batch, schemas: Mapping[int, TableSchema]) -> Passed:
        start = self._position(batch)
        self._delete_parts(batch)
        # A table that is refused with no row at all is not refused for a change.
        self._sink.load(batch.table, [_empty(batch, start, start)], schemas)
        schema = schemas[batch.schema_id]
        rows = read_piece(self._objects, schema, Piece(batch, start))
        assert rows is not None  # noqa: S101 - the batch has a file
        offsets = sorted({int(each) for each in rows.column(OFFSET).to_numpy()})
        loaded, refused = 0, None
        while offsets:
            some = offsets[: max(1, len(offsets) // 2)]
            end = some[-1] + 1
            try:
                loaded += self._load_part(batch, rows, (start, end), schemas)
            except TableStoppedError as error:
                if error.retryable:
                    raise
                if len(some) == 1:
                    refused = error
                    break
                offsets = some
                continue
            start, offsets = end, offsets[len(some) :]
        if refused is None:
            return Passed(loaded)
        self._keep(FoundChange(batch, offsets[0], self._text(batch.table, _between(rows, start, end)), refused.reason))
        _KEPT.maybe_crash()
        hindered = self._go_past(batch, offsets[0], schemas)
        if hindered is not None:
            return replace(hindered, rows=loaded)
        _PASSED.maybe_crash()
        return Passed(loaded, passed_over(batch.topic, batch.partition, offsets[0], refused.reason))

    def _load_part(
        self, batch: Batch, rows: pa.Table, between: tuple[int, int], schemas: Mapping[int, TableSchema]
    ) -> int:
        """Load the rows between two offsets as a batch with a file of its own."""
        start, end = between
        part = _between(rows, start, end)
        content = render_file(schemas[batch.schema_id], part)
        key = f"{self._parts(batch)}{start:020d}-{end:020d}-{batch.schema_id}.parquet"
        named = replace(_empty(batch, start, end), rows=part.num_rows, path=key, format="parquet", compression="zstd")
        self._objects.put(key, content)
        try:
            whole = replace(named, size_bytes=len(content), crc32=zlib.crc32(content))
            return self._sink.load(batch.table, [whole], schemas).rows
        finally:
            self._objects.delete([key])

    def _parts(self, batch: Batch) -> str:
        """How the files begin that this link makes, and no other, of parts of batches of the table."""
        return f"{batch.path.rpartition('/')[0]}/part-{key_folder(self._link)}/"

    def _delete_parts(self, batch: Batch) -> None:
        """Delete the files that a try before this one has left, which was killed."""
        left = self._objects.list(self._parts(batch))
        if left:
            self._objects.delete(left)

    def _position(self, batch: Batch) -> int:
        known = self._sink.positions(batch.table).get((batch.topic, batch.partition), batch.start_offset)
        return max(known, batch.start_offset)

    def _text(self, table: TableId, rows: pa.Table) -> str:
        hidden = self._hidden(table, rows.column_names)
        shown = [{name: HIDDEN if name in hidden else value for name, value in row.items()} for row in rows.to_pylist()]
        text = json.dumps(shown, default=_as_text)
        if len(text) <= _ROW_CHARACTERS_MAX:
            return text
        cut = [{name: _as_text(value)[:_VALUE_CHARACTERS_MAX] for name, value in row.items()} for row in shown]
        return json.dumps(cut)[:_ROW_CHARACTERS_MAX]

    def _hidden(self, table: TableId, columns: Sequence[str]) -> set[str]:
        """The columns of which nobody is to see values: the target knows of rules for names that they had before.

        One that it does not know may be one of those.
        """
        treated = self._sink.treated(table)
        own = {name for name in columns if name.startswith(META_PREFIX)}
        kept = {name for name in columns if treated is not None and treated.get(name.casefold()) != PLAIN}
        return {*filter(self._hides, columns), *(kept - own)}


def _speaks_for(batch: Batch, change: SkippedChange) -> bool:
    """Whether `change` is one of `batch`."""
    is_there = batch.start_offset <= change.offset < batch.end_offset
    return is_there and (batch.topic, batch.partition) == (change.topic, change.partition)


def passed_over(topic: str, partition: int, offset: int, reason: str) -> str:
    """Say which change was passed over, and why."""
    return f"skipped the change at offset {offset} of {topic}/{partition}, which the target refused: {reason}"


def _why_not(error: TableStoppedError) -> str:
    if error.retryable:
        return f"somebody holds the table, so nobody knows which change to pass over: {error.reason}"
    return f"no single change is refused, so none was skipped: {error.reason}"


def _empty(batch: Batch, start: int, end: int) -> Batch:
    """A batch with no rows between two offsets, where `batch` is."""
    return replace(
        batch,
        start_offset=start,
        end_offset=end,
        rows=0,
        path="",
        size_bytes=0,
        crc32=None,
        dialect=None,
        content=None,
        kind=SchemaChangeKind.SCHEMA,
    )


def _between(rows: pa.Table, start: int, end: int) -> pa.Table:
    offsets = rows.column(OFFSET)
    mask = (offsets.to_numpy() >= start) & (offsets.to_numpy() < end)
    return rows.filter(pa.array(mask))


def _as_text(value: object) -> str:
    return f"0x{value.hex()}" if isinstance(value, bytes) else str(value)
