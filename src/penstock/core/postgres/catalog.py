"""What PostgreSQL's catalog says of a table, now: the log may be behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.core.tables import TableId

if TYPE_CHECKING:
    from penstock.core.postgres.partitions import Partition


@dataclass(frozen=True, slots=True)
class CatalogColumn:
    """A column. `number` is its attnum, which it keeps when it gets another name, and which no other one gets.

    `default` is what the rows have that were there when the column was added, as
    PostgreSQL prints it, None for NULL; `is_computed` says that the source may have
    computed it for each row.
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
    generated columns, which are not in the log, and not among `columns`.
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

    @property
    def id(self) -> TableId:
        """Which table it is."""
        return TableId(self.schema, self.name)
