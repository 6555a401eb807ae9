"""What a publication of a PostgreSQL source has: as PostgreSQL itself says, and without waiting for locks of tables."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Final

from tests.servers.postgres_source_case import source_database

from penstock.adapters.postgres.source.publication import read_published

if TYPE_CHECKING:
    from penstock.dev.postgres import PostgresServer

_TREE: Final = (
    "CREATE SCHEMA apart",
    "CREATE TABLE whole (id int, region int, v text, PRIMARY KEY (id, region)) PARTITION BY LIST (region)",
    "ALTER TABLE whole ADD g int GENERATED ALWAYS AS (region + 1) STORED",
    "CREATE TABLE part_1 PARTITION OF whole FOR VALUES IN (1)",
    "CREATE TABLE part_2 PARTITION OF whole FOR VALUES IN (2, 3) PARTITION BY LIST (id)",
    "CREATE TABLE apart.part_3 PARTITION OF part_2 FOR VALUES IN (7)",
    "CREATE TABLE parent (id int PRIMARY KEY, v text, dropped int)",
    "ALTER TABLE parent DROP COLUMN dropped",
    "CREATE TABLE heir (w int) INHERITS (parent)",
    "CREATE UNLOGGED TABLE unlogged (id int PRIMARY KEY)",
    'CREATE TABLE apart."Odd ""name" (id int PRIMARY KEY, v text)',
    "CREATE VIEW seen AS SELECT * FROM parent",
)
_WHAT: Final = (
    "FOR ALL TABLES",
    "FOR TABLE whole",
    "FOR TABLE whole, part_1, part_2, ONLY parent",
    "FOR TABLE part_2, parent",
    "FOR TABLE part_1 (id, region), apart.part_3 (id, region) WHERE (id > 6), parent (id) WHERE (id > 1)",
    "FOR TABLES IN SCHEMA apart",
    "FOR TABLES IN SCHEMA apart, TABLE whole, parent WHERE (id > 1)",
    "FOR TABLES IN SCHEMA public, TABLE apart.part_3 WHERE (id > 6)",
    "",
)


# Servers differ in whether a generated column, of which the log has nothing, counts as published.
_SAID: Final = """
SELECT schemaname || '.' || tablename, CASE WHEN attnames::text[] @> whole.columns THEN '{}' ELSE attnames::text[] END,
       coalesce(rowfilter, '')
  FROM pg_publication_tables, LATERAL (
    SELECT array_agg(attname::text) AS columns FROM pg_attribute
     WHERE attrelid = format('%%I.%%I', schemaname, tablename)::regclass
       AND attnum > 0 AND NOT attisdropped AND attgenerated = '') whole
 WHERE pubname = %s
"""


def test_what_is_published_is_what_postgresql_says_and_waits_for_no_table_without_a_filter(
    postgres: PostgresServer, fresh_name: str
) -> None:
    with source_database(postgres, fresh_name) as source, closing(source.session()) as other:
        source.execute(*_TREE)
        made = [f"{what} WITH (publish_via_partition_root = {root})" for what in _WHAT for root in (0, 1)]
        source.execute(*(f"CREATE PUBLICATION p{number} {what}" for number, what in enumerate(made)))
        said = [source.connection.execute(_SAID, (f"p{number}",)).fetchall() for number in range(len(made))]
        other.execute("BEGIN")
        other.execute("LOCK TABLE ONLY whole, ONLY part_1, ONLY part_2 IN ACCESS EXCLUSIVE MODE")
        source.execute("SET lock_timeout = '1s'")
        published = [read_published(source.connection, f"p{number}") for number in range(len(made))]
        other.execute("ROLLBACK")

    found = [[(str(table), list(how.columns), how.filter) for table, how in each.items()] for each in published]
    assert dict(zip(made, map(sorted, found), strict=True)) == dict(zip(made, map(sorted, said), strict=True))
