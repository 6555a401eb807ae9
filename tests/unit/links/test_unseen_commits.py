"""Transactions of PostgreSQL's log that others may not see yet are kept until they were seen."""

from __future__ import annotations

from penstock.adapters.postgres.connection import PostgresServer
from penstock.adapters.postgres.source.relations import PostgresRelations
from penstock.links.capture.postgres.registered_catalog import RegisteredCatalog


def test_what_was_seen_is_forgotten_and_what_came_meanwhile_is_not() -> None:
    relations = PostgresRelations(PostgresServer("127.0.0.1", 9, "db", "user", "", {}), "publication")
    catalog = RegisteredCatalog(relations, "stop")
    catalog.saw_commits([7, 8, 9])
    asked = catalog.committed()
    catalog.saw_commits([10])

    catalog.forget([xid for xid in asked if xid != 8])

    assert catalog.committed() == (8, 10)
    catalog.saw_commits(range(11, 10_020))
    assert catalog.committed() == tuple(range(20, 10_020))
