"""What a target remembers of columns that are treated: under which names they were known, and what was done to them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.core.tables import TableSchema

PLAIN = ""
"""The treatment of a column that is carried as it is."""


@dataclass(frozen=True, slots=True)
class ColumnHistory:
    """Of one table. Names of columns are in lower case.

    `tables`  the dotted names that the table had before
    `former`  for a column, all the names that it had before
    `treated` for each column of the newest schema that was seen, what is done to it
    """

    tables: tuple[str, ...] = ()
    former: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    treated: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_plain(cls, schema: TableSchema) -> ColumnHistory:
        """What is known of a table that came in with all of its columns as they are."""
        return cls(treated={column.name.casefold(): PLAIN for column in schema.columns})

    def names(self, table: TableId, column: str) -> Iterator[tuple[TableId, str]]:
        """Yield every table and column name under which the column is or was known."""
        columns = (column, *self.former.get(column.casefold(), ()))
        for each in (table, *map(TableId.parse, self.tables)):
            for name in columns:
                yield each, name

    def with_columns_renamed(self, names: Sequence[tuple[str, str]]) -> ColumnHistory:
        """Return what is known once columns have other names (old, new), given all at once."""
        pairs = [(old.casefold(), new.casefold()) for old, new in names]
        former, treated = dict(self.former), dict(self.treated)
        for old, _ in pairs:
            treated.pop(old, None)
        for old, new in pairs:
            past = {*self.former.get(old, ()), *former.get(new, ()), old} - {new}
            former[new] = tuple(sorted(past))
            if old in self.treated:
                treated[new] = self.treated[old]
        return replace(self, former=former, treated=treated)

    def with_table_renamed(self, old: TableId) -> ColumnHistory:
        """Return what is known once the table, which was called `old`, has another name."""
        return replace(self, tables=tuple(sorted({*self.tables, str(old)})))

    def with_names_of(self, other: ColumnHistory) -> ColumnHistory:
        """Return what is known of a table that takes the place of another: its columns were called as those, too."""
        columns = {*self.former, *other.former}
        former = {each: tuple(sorted({*self.former.get(each, ()), *other.former.get(each, ())})) for each in columns}
        return replace(self, tables=tuple(sorted({*self.tables, *other.tables})), former=former)

    def begun_anew(self) -> ColumnHistory:
        """Return what is known of the table once it has no rows: the names that there were, and no treatment."""
        return replace(self, treated={})

    def to_json(self) -> str:
        """The text that is kept in the target."""
        fields = {"tables": self.tables, "former": dict(self.former), "treated": dict(self.treated)}
        return json.dumps(fields, ensure_ascii=False, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> ColumnHistory:
        """Read what `to_json` wrote."""
        fields = json.loads(text)
        former = {name: tuple(names) for name, names in fields["former"].items()}
        return cls(tuple(fields["tables"]), former, fields["treated"])
