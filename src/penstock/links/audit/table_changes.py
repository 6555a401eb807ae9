"""The changes of one table as they are read by a stage of an audit, and where they are folded."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from penstock.core.audit.stage_columns import SCHEMA, folded_schema, has_key, lay_out
from penstock.core.avro.schemas import table_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.audit.stage_columns import ArrowColumn
    from penstock.core.avro.arrays import ArrowArray
    from penstock.core.tables import TableSchema
    from penstock.ports.folded_rows import FoldedRows
    from penstock.ports.registry import Registry

_FAULTS_MAX: Final = 20
"""So many messages or files that are not what they should be are told of a table."""


@dataclass(slots=True)
class TableChanges:
    """A table whose changes are read: of which source, as it is now, and where what is found of it is kept.

    `written` has the schemas that changes were written with, by their ids, `faults`
    what is wrong with single messages or files. `is_partial`: the oldest changes
    are kept no more. `refusal` says why nothing can be compared, "" if it can.
    `parts` are the ids, below zero, of what `written` has for rows that lack columns.
    """

    source: str
    schema: TableSchema
    folded: FoldedRows
    registry: Registry
    written: dict[int, TableSchema] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    is_partial: bool = False
    refusal: str = ""
    parts: dict[tuple[int, str], int] = field(default_factory=dict)

    def create(self) -> None:
        """Begin with no rows."""
        self.folded.create(folded_schema(self.schema), self.schema.key)

    def tell(self, fault: str) -> None:
        """Remember a fault, unless there are many."""
        if len(self.faults) < _FAULTS_MAX:
            self.faults.append(fault)

    def schema_of(self, schema_id: int) -> TableSchema:
        """The schema that changes were written with."""
        found = self.written.get(schema_id)
        if found is None:
            found = self.written[schema_id] = table_schema(self.registry.value_schema(schema_id))
        return found

    def fold(
        self, schema_id: int, rows: pa.Table, ours: Sequence[ArrowColumn], lacks: pa.StringArray | None = None
    ) -> None:
        """Take changes with the columns of their schema; those whose rows have another key cannot be folded.

        `lacks` names the columns that each row has no values of, as a JSON list, "" for none.
        """
        written = self.schema_of(schema_id)
        if not has_key(self.schema, written):
            self.refusal = "its key was another one when some of its changes were written"
        elif rows.num_rows and not self.refusal:
            ids = repeated(schema_id, pa.int64(), rows) if lacks is None else self._part_ids(schema_id, lacks)
            self.folded.fold(lay_out(self.schema, written, rows, [*ours, ids]))

    def living_schemas(self) -> Sequence[TableSchema]:
        """The schemas by which the newest changes of rows that are there were written."""
        found = self.folded.fetch(f"SELECT DISTINCT {self.folded.dialect.quoted(SCHEMA)} FROM {self.folded.living}")  # noqa: S608 - ours
        return [self.written[int(schema_id)] for (schema_id,) in found]

    def _part_ids(self, schema_id: int, lacks: pa.StringArray) -> ArrowArray:
        """Return the id of what each row was written by: a schema, or what is left of it without columns."""
        found = lacks.dictionary_encode()
        ids = [self._part_id(schema_id, str(text)) for text in found.dictionary.to_pylist()]
        return pa.array(ids, pa.int64()).take(found.indices)

    def _part_id(self, schema_id: int, lacks: str) -> int:
        if not lacks:
            return schema_id
        known = self.parts.get((schema_id, lacks))
        if known is None:
            known = self.parts[schema_id, lacks] = -1 - len(self.parts)
            whole, lacking = self.schema_of(schema_id), frozenset(json.loads(lacks))
            kept = tuple(column for column in whole.columns if column.name not in lacking)
            self.written[known] = replace(whole, columns=kept)
        return known


def repeated(value: object, type_: pa.DataType, rows: pa.Table) -> ArrowArray:
    """Return a column of `rows` with one value in all of them."""
    repeated_: ArrowArray = pa.repeat(pa.scalar(value, type_), rows.num_rows)  # type: ignore[call-overload]
    return repeated_
