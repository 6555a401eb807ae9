"""The changes of one table as they are read by a stage of an audit, and where they are folded."""

from __future__ import annotations

from dataclasses import dataclass, field
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
    """

    source: str
    schema: TableSchema
    folded: FoldedRows
    registry: Registry
    written: dict[int, TableSchema] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    is_partial: bool = False
    refusal: str = ""

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

    def fold(self, schema_id: int, rows: pa.Table, ours: Sequence[ArrowColumn]) -> None:
        """Take changes with the columns of their schema; those whose rows have another key cannot be folded."""
        written = self.schema_of(schema_id)
        if not has_key(self.schema, written):
            self.refusal = "its key was another one when some of its changes were written"
        elif rows.num_rows and not self.refusal:
            self.folded.fold(lay_out(self.schema, written, rows, [*ours, repeated(schema_id, pa.int64(), rows)]))

    def living_schemas(self) -> Sequence[TableSchema]:
        """The schemas by which the newest changes of rows that are there were written."""
        found = self.folded.fetch(f"SELECT DISTINCT {self.folded.dialect.quoted(SCHEMA)} FROM {self.folded.living}")  # noqa: S608 - ours
        return [self.written[int(schema_id)] for (schema_id,) in found]


def repeated(value: object, type_: pa.DataType, rows: pa.Table) -> ArrowArray:
    """Return a column of `rows` with one value in all of them."""
    repeated_: ArrowArray = pa.repeat(pa.scalar(value, type_), rows.num_rows)  # type: ignore[call-overload]
    return repeated_
