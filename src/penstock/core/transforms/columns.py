"""Which columns go on, and under which names."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.core.transforms.transform import columns_of, lay_out, refuse, require_columns, require_no_key

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.core.tables import TableSchema

_KEEP_KEY = "keep the column, or hash it, which keeps different keys apart"


@dataclass(frozen=True, slots=True)
class KeepColumns:
    """Only these columns go on, in the table's own order. They must have the whole key among them."""

    columns: tuple[str, ...]

    def derive(self, schema: TableSchema) -> TableSchema:
        """See `Transform`."""
        require_columns(schema, self.columns)
        require_no_key(schema, set(schema.key) - set(self.columns), "not kept", _KEEP_KEY)
        return replace(schema, columns=tuple(c for c in schema.columns if c.name in self.columns))

    def apply(self, schema: TableSchema, rows: pa.Table) -> tuple[TableSchema, pa.Table]:
        """See `Transform`."""
        return _choose(schema, rows, self.derive(schema))


@dataclass(frozen=True, slots=True)
class DropColumns:
    """All but these columns go on. None of them may be in the key."""

    columns: tuple[str, ...]

    def derive(self, schema: TableSchema) -> TableSchema:
        """See `Transform`."""
        require_columns(schema, self.columns)
        require_no_key(schema, self.columns, "dropped", _KEEP_KEY)
        kept = tuple(column for column in schema.columns if column.name not in self.columns)
        if not kept:
            raise refuse(schema, "", "no column would be left of it", "leave the table out instead")
        return replace(schema, columns=kept)

    def apply(self, schema: TableSchema, rows: pa.Table) -> tuple[TableSchema, pa.Table]:
        """See `Transform`."""
        return _choose(schema, rows, self.derive(schema))


@dataclass(frozen=True, slots=True)
class RenameColumns:
    """Columns get other names: pairs of the old and the new one, given all at once, so that two may swap."""

    names: tuple[tuple[str, str], ...]

    def derive(self, schema: TableSchema) -> TableSchema:
        """See `Transform`."""
        require_columns(schema, [old for old, _ in self.names])
        new_names = dict(self.names)
        columns = tuple(replace(c, name=new_names.get(c.name, c.name)) for c in schema.columns)
        for name, count in Counter(column.name.casefold() for column in columns).items():
            if count > 1:
                reason = f"{count} columns would have this name, but for upper and lower case"
                raise refuse(schema, name, reason, "give each column a name of its own")
        return replace(schema, columns=columns, key=tuple(new_names.get(name, name) for name in schema.key))

    def apply(self, schema: TableSchema, rows: pa.Table) -> tuple[TableSchema, pa.Table]:
        """See `Transform`."""
        return lay_out(schema, rows, self.derive(schema), columns_of(schema, rows))


def _choose(before: TableSchema, rows: pa.Table, after: TableSchema) -> tuple[TableSchema, pa.Table]:
    kept = dict(zip((column.name for column in before.columns), columns_of(before, rows), strict=True))
    return lay_out(before, rows, after, [kept[column.name] for column in after.columns])
