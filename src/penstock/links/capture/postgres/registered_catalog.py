"""The tables of a PostgreSQL source at the place that was reached: as they were announced last.

The log describes each table ahead of its rows. What differs from what was announced
is a statement to the capture, so that between two statements the two agree.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Final

from penstock.core.postgres.evolution import partitions_refusal
from penstock.core.postgres.partitions import files_number
from penstock.core.postgres.relations import table_schema
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from penstock.core.postgres.catalog import CatalogTable, SourceTable
    from penstock.core.postgres.messages import Relation
    from penstock.core.postgres.types import SpecialValues, TypeInfo
    from penstock.core.refusals import Refusal
    from penstock.core.tables import TableSchema
    from penstock.ports.relations import RelationCatalog

_COMMITTED_MAX: Final = 10_000


class RegisteredCatalog:
    """See ports/tracker.SchemaCatalog."""

    connector = "postgres"

    def __init__(self, relations: RelationCatalog, special: SpecialValues) -> None:
        """Ask `relations` about what the log does not say."""
        self._relations = relations
        self._special = special
        self._announced: Callable[[TableId], TableSchema | None] = lambda _: None
        self._with_number: Callable[[int], TableSchema | None] = lambda _: None
        self._committed: deque[int] = deque(maxlen=_COMMITTED_MAX)
        self._lock = Lock()

    def follow(
        self,
        announced: Callable[[TableId], TableSchema | None],
        with_number: Callable[[int], TableSchema | None],
    ) -> None:
        """Take from these what a table looked like when it was announced last, by its name and by its OID."""
        self._announced = announced
        self._with_number = with_number

    def require_empty(self) -> None:
        """See SchemaCatalog."""

    def describe(self, tables: Collection[TableId]) -> Mapping[TableId, TableSchema]:
        """See SchemaCatalog."""
        found = {table: self._announced(table) for table in tables}
        return {table: schema for table, schema in found.items() if schema is not None}

    def table_schema(self, table: TableId) -> TableSchema | None:
        """See SchemaCatalog."""
        return self._announced(table)

    def is_announced(self, oid: int) -> bool:
        """Whether a table with this OID is carried, under whatever name."""
        return self._with_number(oid) is not None

    def sequences(self) -> Collection[TableId]:
        """See SchemaCatalog: sequences are not in the log."""
        return ()

    def close(self) -> None:
        """See SchemaCatalog."""
        self._relations.close()

    def shape(self, relation: Relation, xid: int) -> TableSchema:
        """Return the table that a relation message describes, in the transaction `xid`."""
        return self._schema(relation, self._relations.table(relation.oid, xid), self.known(relation))

    def shape_of_new(self, relation: Relation, xid: int) -> TableSchema:
        """Return the same of a table that only has the number of one that was announced."""
        return self._schema(relation, self._relations.table(relation.oid, xid), None)

    def written_shape(self, written: SourceTable) -> TableSchema:
        """Return a table that was announced as it was written down where it was altered."""
        # How it is published is not written down, and is as it was.
        catalog = replace(written.table, published=None)
        return self._schema(written.relation, catalog, self.known(written.relation))

    def known(self, relation: Relation) -> TableSchema | None:
        """Return what the table was announced as, None if it was not; it may have had another name then."""
        return self.known_as(TableId(relation.schema, relation.name), relation.oid)

    def known_as(self, table: TableId, number: int) -> TableSchema | None:
        """Return the same of the table that has this name and number now."""
        known = self._announced(table)
        return known if known is not None and known.number == number else self._with_number(number)

    def _schema(self, relation: Relation, catalog: CatalogTable | None, known: TableSchema | None) -> TableSchema:
        return table_schema(relation, catalog, self.types(relation), known, self._special)

    def refused(self, relation: Relation, schema: TableSchema) -> Refusal | None:
        """Return why changed rows of a table that was described so are not known; None if they are, or by now are."""
        found = self._relations.table(relation.oid, 0) if schema.partitions else None
        partitions = found.partitions or () if found is not None else ()
        is_whole = relation.identity == "f"
        return partitions_refusal(schema.table, schema.key, is_whole=is_whole, partitions=partitions)

    def emptied(self, table: TableSchema, emptied_by: int) -> TableSchema:
        """Return a table that was announced as it is behind a TRUNCATE of all of it by that transaction."""
        found = self._relations.table(table.number, emptied_by) if table.partition_files else None
        if found is None or found.partitions is None:
            return table
        return replace(table, partition_files=files_number(found.partitions, emptied_by))

    def saw_commits(self, xids: Iterable[int]) -> None:
        """See ports/relations.UnseenCommits."""
        with self._lock:
            self._committed.extend(xids)

    def committed(self) -> Sequence[int]:
        """See ports/relations.UnseenCommits."""
        with self._lock:
            return tuple(self._committed)

    def forget(self, xids: Collection[int]) -> None:
        """See ports/relations.UnseenCommits."""
        seen = frozenset(xids)
        with self._lock:
            self._committed = deque((xid for xid in self._committed if xid not in seen), _COMMITTED_MAX)

    def types(self, relation: Relation) -> Mapping[int, TypeInfo]:
        """Return types by OID, those of the columns of `relation` among them."""
        return self._relations.types(relation)
