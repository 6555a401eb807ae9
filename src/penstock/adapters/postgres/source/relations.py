"""Answers about tables and types over a connection that is opened when it is needed: see ports/relations."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import psycopg

from penstock.adapters.postgres.source.catalog import read_table, read_types
from penstock.adapters.postgres.source.connection import connect, explain
from penstock.adapters.postgres.source.publication import read_numbers
from penstock.adapters.postgres.source.visibility import sees_all, wait_until_seen

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.adapters.postgres.connection import PostgresServer
    from penstock.core.postgres.catalog import CatalogTable
    from penstock.core.postgres.messages import Relation
    from penstock.core.postgres.types import TypeInfo

_T = TypeVar("_T")


class PostgresRelations:
    """See ports/relations.RelationCatalog."""

    def __init__(self, server: PostgresServer, publication: str) -> None:
        """Connect when first asked; `publication` is what the log tells of."""
        self._server = server
        self._publication = publication
        self._connection: psycopg.Connection | None = None
        self._types: Mapping[int, TypeInfo] = {}
        self._seen = 0

    def table(self, oid: int, xid: int) -> CatalogTable | None:
        """See RelationCatalog."""
        return self._ask(lambda connection: self._read(connection, oid, xid))

    def _read(self, connection: psycopg.Connection, oid: int, xid: int) -> CatalogTable | None:
        if xid not in {0, self._seen}:
            # Else it may say how the table was before what the transaction did to it.
            wait_until_seen(lambda: sees_all(connection, [xid]))
            self._seen = xid
        found = read_table(connection, oid, xid)
        if found is None:
            return None
        number, altered_by = read_numbers(connection, self._publication, oid)
        return replace(found.table, published=number, publication_altered_by=altered_by)

    def types(self, relation: Relation) -> Mapping[int, TypeInfo]:
        """See RelationCatalog: asks again where a type is new."""
        if any(column.type_oid not in self._types for column in relation.columns):
            self._types = self._ask(read_types)
        return self._types

    def close(self) -> None:
        """See RelationCatalog."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _ask(self, question: Callable[[psycopg.Connection], _T]) -> _T:
        if self._connection is None:
            self._connection = connect(self._server)
        try:
            return question(self._connection)
        except psycopg.Error as error:
            self.close()
            raise explain(self._server, error) from error
