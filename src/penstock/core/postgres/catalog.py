"""What PostgreSQL's catalog says of a table: now, or where an event trigger wrote it down."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.core.postgres.messages import Relation, RelationColumn
from penstock.core.postgres.pgoutput import IDENTITIES
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.core.postgres.partitions import Partition

DDL_LOG: Final = TableId("penstock_ddl", "log")
"""Where an event trigger of ours writes what ALTER TABLE made of a table: see adapters/postgres/source/ddl_trigger."""
_PARTITIONED: Final = "p"


@dataclass(frozen=True, slots=True)
class CatalogColumn:
    """A column. `number` is its attnum, which it keeps when it gets another name, and which no other one gets.

    `default` is what the rows have that were there when the column was added, as
    PostgreSQL prints it, None for NULL; `is_computed` says that this is not known: the
    source may have computed it for each row.
    """

    number: int
    name: str
    comment: str = ""
    default: str | None = None
    is_computed: bool = False


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """A table by its OID; `key` is its primary key, in key order, empty without one.

    `published` is the number of its place in the publication, 0 where that stays as long as the publication,
    None while it has none; `publication_altered_by` is the transaction that altered the publication itself last, 0
    where nobody asked. `partitions` are those of a partitioned table, None for other tables. `generated` are its
    generated columns, which are not in the log, and not among `columns`. `dropped` are the numbers of columns that
    the rows had that are asked for, and that were dropped since.
    """

    oid: int
    schema: str
    name: str
    columns: tuple[CatalogColumn, ...]
    key: tuple[str, ...] = ()
    comment: str = ""
    published: int | None = 0
    publication_altered_by: int = 0
    partitions: tuple[Partition, ...] | None = None
    generated: tuple[CatalogColumn, ...] = ()
    dropped: tuple[int, ...] = ()

    @property
    def id(self) -> TableId:
        """Which table it is."""
        return TableId(self.schema, self.name)


class TableRow(NamedTuple):
    """A table, as a query of the catalog has it: `identity` and `kind` are PostgreSQL's letters."""

    oid: int
    schema: str
    name: str
    identity: str
    comment: str
    kind: str


class ColumnRow(NamedTuple):
    """A column of the table `oid`: see CatalogColumn; `missing` is what older rows have.

    `is_again`: it may be another one than the rows had that are asked for, dropped and added since.
    """

    oid: int
    number: int
    name: str
    type_oid: int
    modifier: int
    comment: str
    missing: str | None
    is_computed: bool
    is_generated: bool
    is_again: bool


class KeyRow(NamedTuple):
    """A key of the table `oid`, in key order: the primary one, or the index that is its replica identity."""

    oid: int
    is_primary: bool
    is_identity: bool
    names: Sequence[str]


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table, and what a relation message would say of it; `has_identity`: updates of it can be logged.

    `is_switched`: where it was written down it became UNLOGGED, or was so until then.
    """

    table: CatalogTable
    relation: Relation
    has_identity: bool
    is_partitioned: bool
    is_switched: bool = False


def source_tables(
    tables: Iterable[TableRow], columns: Iterable[ColumnRow], keys: Iterable[KeyRow]
) -> Sequence[SourceTable]:
    """Put together what the catalog says of tables, in their order; their partitions are not known yet."""
    by_table: defaultdict[int, list[ColumnRow]] = defaultdict(list)
    for column in columns:
        by_table[column.oid].append(column)
    primary: dict[int, tuple[str, ...]] = {}
    identities: dict[int, tuple[str, ...]] = {}
    for key in keys:
        if key.is_primary:
            primary[key.oid] = tuple(key.names)
        if key.is_identity:
            identities[key.oid] = tuple(key.names)
    return [_table(row, by_table[row.oid], primary.get(row.oid, ()), identities.get(row.oid, ())) for row in tables]


def written_table(written_down: bytes) -> SourceTable | None:
    """Read a row of DDL_LOG: the table as it was there. None for one of another form, which other releases may write.

    It has `table`, `columns` and `keys`, each with the fields of the rows above, and `is_switched`.
    """
    try:
        written = json.loads(written_down)
        (found,) = source_tables(
            [TableRow(**written["table"])],
            [ColumnRow(**column) for column in written["columns"]],
            [KeyRow(**key) for key in written["keys"] or ()],
        )
    except (ValueError, TypeError, KeyError):
        return None
    return replace(found, is_switched=written.get("is_switched", False))


def _table(
    row: TableRow, columns: Sequence[ColumnRow], key: tuple[str, ...], identity_key: tuple[str, ...]
) -> SourceTable:
    generated = tuple(_column(column) for column in columns if column.is_generated)
    columns = [column for column in columns if not column.is_generated]
    names = tuple(column.name for column in columns)
    known = {"d": key, "i": identity_key, "f": names}.get(row.identity, ())
    described = tuple(map(_column, columns))
    listed = tuple(RelationColumn(c.name, c.type_oid, c.modifier, c.name in known) for c in columns)
    return SourceTable(
        CatalogTable(row.oid, row.schema, row.name, described, key, row.comment, generated=generated),
        Relation(row.oid, row.schema, row.name, IDENTITIES[row.identity], listed),
        bool(known) or row.identity == "f",
        row.kind == _PARTITIONED,
    )


def _column(column: ColumnRow) -> CatalogColumn:
    if column.is_again:
        return CatalogColumn(column.number, column.name, column.comment, is_computed=True)
    is_computed = column.is_computed or column.is_generated
    return CatalogColumn(column.number, column.name, column.comment, column.missing, is_computed)
