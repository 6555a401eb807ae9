"""A table that leaves the publication of a PostgreSQL source, or is published otherwise, and comes back."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Final

import pytest
from tests.servers.postgres_source_case import source_database

from penstock.adapters.postgres.source.publication import read_numbers, read_published
from penstock.core.errors import UnfitServerError, UsageError
from penstock.core.snapshots import SnapshotOptions, Status
from penstock.core.tables import TableId
from penstock.wiring.catalog_watch import CatalogWatch
from penstock.wiring.open import open_pipeline_state
from penstock.wiring.postgres_server import postgres_source
from penstock.wiring.snapshots import ask_for_snapshots, read_snapshots
from penstock.wiring.source_status import ask_source

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers.postgres_chain import PostgresChain
    from tests.servers.postgres_source_case import SourceDatabase

    from penstock.dev.postgres import PostgresServer

_TABLES = ("CREATE TABLE t (id int PRIMARY KEY, v text)", "CREATE TABLE u (id int PRIMARY KEY)")
_ALL = "SELECT * FROM public.t ORDER BY id"
_NEVER = "    snapshot: never"
_OUT_AND_BACK: Final = ("ALTER TABLE t SET SCHEMA apart", "ALTER TABLE apart.t SET SCHEMA public")
_HARMLESS: Final = (
    "GRANT SELECT ON t TO PUBLIC",
    "CREATE INDEX ON t (v)",
    "ANALYZE t",
    "VACUUM FULL t",
    "TRUNCATE t",
    "ALTER TABLE t ADD COLUMN w int DEFAULT 7",
    "ALTER TABLE t ALTER COLUMN w TYPE bigint",
    "ALTER TABLE t RENAME TO x; ALTER TABLE x RENAME TO t",
    "ALTER TABLE t REPLICA IDENTITY FULL",
    "COMMENT ON TABLE t IS 'commented'",
    "ALTER TABLE t OWNER TO CURRENT_USER",
    "CREATE TABLE v (id int PRIMARY KEY)",
    "VACUUM FULL pg_depend",
    "VACUUM FREEZE pg_publication",
)


def _publication(chain: PostgresChain) -> str:
    return postgres_source(chain.spec.sources[0]).publication_name


def _publish_by(chain: PostgresChain, name: str) -> None:
    """Write another publication into the pipeline's file."""
    before = f"publication: {_publication(chain)}"
    chain.file.write_text(chain.file.read_text().replace(before, f"publication: {name}"))


def _carried(make_postgres: Callable[..., PostgresChain], more: str = "") -> PostgresChain:
    """A pipeline that has carried two tables of a publication of tables."""
    chain = make_postgres(*_TABLES, "INSERT INTO t VALUES (1, 'a'), (2, 'b')", more=more)
    chain.write(f"CREATE PUBLICATION {_publication(chain)} FOR TABLE t, u")
    chain.carry()
    return chain


def _by_schema(chain: PostgresChain) -> PostgresChain:
    """The same, of a publication of the tables' schema."""
    chain.write("CREATE SCHEMA apart", f"CREATE PUBLICATION {_publication(chain)} FOR TABLES IN SCHEMA public")
    chain.carry()
    return chain


def _notes(chain: PostgresChain) -> dict[str, str]:
    """What a look at the catalog says of tables that the log does not."""
    (source,) = chain.spec.sources
    with closing(open_pipeline_state(chain.spec)) as state:
        CatalogWatch(chain.spec, source).look(state)
        return {row.table: row.hint for row in state.tables() if row.link == source.name and row.hint}


def _numbers(source: SourceDatabase) -> tuple[int | None, int]:
    """The two numbers of the table `t`, which both ways of reading them have to tell."""
    published = read_published(source.connection, source.name)[TableId("public", "t")]
    row = source.connection.execute("SELECT 't'::regclass::oid::bigint").fetchone()
    assert row is not None
    numbers = read_numbers(source.connection, source.name, row[0])
    assert numbers == (published.number, published.altered_by)
    return numbers


def _leave_and_return(chain: PostgresChain) -> None:
    name = _publication(chain)
    chain.write(f"ALTER PUBLICATION {name} DROP TABLE t", "INSERT INTO t VALUES (3, 'unseen')")
    chain.write("DELETE FROM t WHERE id = 1", f"ALTER PUBLICATION {name} ADD TABLE t")


def test_a_table_that_left_the_publication_and_came_back_is_refreshed_by_the_next_start(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    chain = _carried(make_postgres)
    _leave_and_return(chain)
    chain.write("INSERT INTO t VALUES (4, 'seen')", "INSERT INTO u VALUES (1)")

    chain.carry()
    source, warehouse = chain.both(_ALL)
    chain.write("UPDATE t SET v = 'c'", "UPDATE u SET id = 2")
    chain.carry()

    assert warehouse == source
    assert [each.status for each in read_snapshots(chain.spec)] == [Status.DONE]
    assert chain.stopped() == {}
    assert chain.rows(_ALL) == chain.source_rows(_ALL)
    assert chain.rows("SELECT id FROM public.u") == [(2,)]


@pytest.mark.nightly
def test_it_stops_at_its_next_row_where_no_snapshot_is_taken_by_itself_and_is_named_before(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    chain = _carried(make_postgres, _NEVER)
    _leave_and_return(chain)
    noted = _notes(chain)
    ask_for_snapshots(chain.spec, ["public.t"], SnapshotOptions())
    chain.carry()
    refused = read_snapshots(chain.spec)
    chain.write("INSERT INTO t VALUES (4, 'seen')", "INSERT INTO u VALUES (1)")
    chain.carry()
    stopped = chain.stopped()
    ask_for_snapshots(chain.spec, ["public.t"], SnapshotOptions(full_refresh=True))
    chain.carry()

    assert list(noted) == ["public.t"]
    assert "came back" in noted["public.t"]
    assert [(each.status, "came back" in each.error) for each in refused] == [(Status.FAILED, True)]
    assert list(stopped) == ["public.t"]
    assert "was taken out of the publication and came back" in stopped["public.t"]
    assert chain.rows("SELECT id FROM public.u") == [(1,)]
    assert chain.rows(_ALL) == chain.source_rows(_ALL)


@pytest.mark.nightly
@pytest.mark.parametrize("how", ["t WHERE (id > 2), u", "t (id), u", "u"])
def test_another_row_filter_or_column_list_stops_the_table_alone(
    make_postgres: Callable[..., PostgresChain], how: str
) -> None:
    chain = _carried(make_postgres, _NEVER)
    name = _publication(chain)
    chain.write(f"ALTER PUBLICATION {name} SET TABLE {how}", "INSERT INTO t VALUES (5, 'e')")
    if how == "u":
        chain.write(f"ALTER PUBLICATION {name} ADD TABLES IN SCHEMA public")

    chain.write("INSERT INTO t VALUES (6, 'f')", "INSERT INTO u VALUES (1)")
    chain.carry()

    assert list(chain.stopped()) == ["public.t"]


def test_the_catalog_tells_a_table_that_left_its_schema_and_came_back_and_nothing_else(
    postgres: PostgresServer, fresh_name: str
) -> None:
    with source_database(postgres, fresh_name) as source:
        source.execute(*_TABLES, "CREATE SCHEMA apart", f"CREATE PUBLICATION {source.name} FOR TABLES IN SCHEMA public")
        first = _numbers(source)
        changed = []
        for statement in _HARMLESS:
            source.execute(statement)
            changed += [statement] if _numbers(source) != first else []
        source.execute(*_OUT_AND_BACK)
        came_back = _numbers(source)
        source.execute(f"ALTER PUBLICATION {source.name} ADD TABLE t")
        also_by_name = _numbers(source)
        source.execute(f"ALTER PUBLICATION {source.name} DROP TABLES IN SCHEMA public")
        by_name = _numbers(source)
        source.execute(*_OUT_AND_BACK, f"ALTER PUBLICATION {source.name} ADD TABLES IN SCHEMA public")
        never_left = _numbers(source)

    assert changed == []
    assert (came_back[0] != first[0], came_back[1]) == (True, first[1])
    assert also_by_name == came_back
    assert by_name[0] not in {came_back[0], None}
    assert never_left == by_name


@pytest.mark.parametrize("published", ["TABLE whole", "TABLES IN SCHEMA apart"])
def test_the_catalog_tells_a_partition_that_left_and_came_back_wherever_its_table_is(
    postgres: PostgresServer, fresh_name: str, published: str
) -> None:
    with source_database(postgres, fresh_name) as source:
        source.execute("CREATE SCHEMA apart", "CREATE TABLE apart.whole (id int PRIMARY KEY) PARTITION BY RANGE (id)")
        source.execute("CREATE TABLE t PARTITION OF apart.whole FOR VALUES FROM (0) TO (9)", "SET search_path = apart")
        source.execute(f"CREATE PUBLICATION {source.name} FOR {published}", "SET search_path = public, apart")
        first = _numbers(source)
        source.execute("CREATE TABLE s PARTITION OF apart.whole FOR VALUES FROM (9) TO (19)", "CREATE INDEX ON t (id)")
        same = _numbers(source)
        source.execute("ALTER TABLE apart.whole DETACH PARTITION t")
        source.execute("ALTER TABLE apart.whole ATTACH PARTITION t FOR VALUES FROM (0) TO (9)")
        came_back = _numbers(source)

    assert first == same
    assert 0 not in {first[0], came_back[0]}
    assert came_back[0] != first[0]


def test_the_catalog_tells_that_the_publication_itself_was_altered(postgres: PostgresServer, fresh_name: str) -> None:
    with source_database(postgres, fresh_name) as source:
        source.execute(*_TABLES)
        source.publish()
        first = _numbers(source)
        source.execute("CREATE TABLE v (id int PRIMARY KEY)", "DROP TABLE u", "VACUUM FULL pg_publication")
        same = _numbers(source)
        source.execute(f"ALTER PUBLICATION {source.name} SET (publish = 'insert')")
        source.execute(f"ALTER PUBLICATION {source.name} SET (publish = 'insert, update, delete, truncate')")
        altered = _numbers(source)

    assert same == first
    assert (altered[0], altered[1] != first[1]) == (first[0], True)


def test_the_catalog_tells_a_filter_that_a_partition_gets_by_its_own_name(
    postgres: PostgresServer, fresh_name: str
) -> None:
    with source_database(postgres, fresh_name) as source:
        source.execute("CREATE TABLE whole (id int PRIMARY KEY) PARTITION BY RANGE (id)")
        source.execute("CREATE TABLE t PARTITION OF whole FOR VALUES FROM (0) TO (9)")
        source.execute(f"CREATE PUBLICATION {source.name} FOR TABLE whole")
        first = _numbers(source)
        source.execute(f"ALTER PUBLICATION {source.name} ADD TABLE t WHERE (id > 3)")
        filtered = _numbers(source)
        source.execute(f"ALTER PUBLICATION {source.name} DROP TABLE t")
        again = _numbers(source)
        source.execute(f"ALTER PUBLICATION {source.name} ADD TABLE t")
        whole = _numbers(source)

    assert filtered[0] != first[0]
    assert again == whole == first


@pytest.mark.nightly
def test_a_table_that_left_its_published_schema_and_came_back_is_refreshed_by_the_next_start(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    chain = _by_schema(make_postgres(*_TABLES, "INSERT INTO t VALUES (1, 'a'), (2, 'b')"))
    out, back = _OUT_AND_BACK
    chain.write(out, "INSERT INTO apart.t VALUES (3, 'unseen')", "DELETE FROM apart.t WHERE id = 1", back)
    noted = _notes(chain)
    chain.write("INSERT INTO t VALUES (4, 'seen')")

    chain.carry()
    chain.write("UPDATE t SET v = 'c'", "INSERT INTO u VALUES (1)")
    chain.carry()

    assert list(noted) == ["public.t"]
    assert "came back" in noted["public.t"]
    assert (chain.stopped(), _notes(chain)) == ({}, {})
    assert [each.status for each in read_snapshots(chain.spec)] == [Status.DONE]
    source, warehouse = chain.both(_ALL)
    assert warehouse == source == [(2, "c"), (3, "c"), (4, "c")]


@pytest.mark.nightly
def test_it_left_its_schema_and_stops_at_its_next_row_where_no_snapshot_is_taken_by_itself(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    chain = _by_schema(make_postgres(*_TABLES, "INSERT INTO t VALUES (1, 'a'), (2, 'b')", more=_NEVER))
    out, back = _OUT_AND_BACK
    chain.write_together(out, "DELETE FROM apart.t WHERE id = 1", back, "UPDATE t SET v = 'c'")

    chain.carry()

    assert list(chain.stopped()) == ["public.t"]
    assert chain.rows(_ALL) == [(1, "a"), (2, "b")]


def test_status_says_that_the_publication_leaves_out_changes_while_it_does(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    chain = make_postgres(*_TABLES)
    chain.carry()
    chain.write(f"ALTER PUBLICATION {_publication(chain)} SET (publish = 'insert')")

    status = ask_source(chain.spec.sources[0], chain.position())

    assert "leaves out some kinds of changes" in status.unanswered
    assert "SET (publish = 'insert, update, delete, truncate')" in status.hint
    assert status.retention is not None
    assert status.retention.level == "error"


@pytest.mark.nightly
def test_tables_are_named_when_the_publication_left_out_changes_for_a_while_until_they_are_refreshed(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    chain = make_postgres(*_TABLES, "INSERT INTO t VALUES (1, 'a'), (2, 'b')", "INSERT INTO u VALUES (1)")
    chain.carry()
    quiet, name = _notes(chain), _publication(chain)
    chain.write(f"ALTER PUBLICATION {name} SET (publish = 'insert')", "DELETE FROM t WHERE id = 1")
    chain.write(f"ALTER PUBLICATION {name} SET (publish = 'insert, update, delete, truncate')")
    chain.write("INSERT INTO t VALUES (3, 'c')", "ALTER TABLE t ADD COLUMN w int", "INSERT INTO t VALUES (4, 'd', 1)")

    chain.carry()
    stays = chain.rows("SELECT id FROM public.t ORDER BY id")
    noted = _notes(chain)
    ask_for_snapshots(chain.spec, ["public.t"], SnapshotOptions(full_refresh=True))
    chain.carry()

    assert quiet == {}
    assert stays == [(1,), (2,), (3,), (4,)]
    assert {table: "publication itself was altered" in note for table, note in noted.items()} == dict.fromkeys(
        ["public.t", "public.u"], True
    )
    assert "penstock snapshot FILE TABLE --full-refresh" in noted["public.t"]
    assert list(_notes(chain)) == ["public.u"]
    source, warehouse = chain.both(_ALL)
    assert warehouse == source
    assert chain.stopped() == {}


@pytest.mark.nightly
def test_a_publication_that_was_missing_for_a_while_is_told_with_what_to_do(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    chain = make_postgres(*_TABLES)
    chain.carry()
    name = _publication(chain)
    chain.write(f"DROP PUBLICATION {name}", "INSERT INTO t VALUES (7, 'unseen')")
    chain.write(f"CREATE PUBLICATION {name} FOR ALL TABLES WITH (publish_via_partition_root = true)")

    ((version,),) = chain.source_rows("SELECT current_setting('server_version_num')::int")
    if isinstance(version, int) and version >= 180000:
        # It sends the log without it. The start sees that the publication is another one, and asks for the rows.
        chain.carry()
        chain.carry()
        assert chain.rows("SELECT id FROM public.t") == [(7,)]
        return
    with pytest.raises(UnfitServerError, match=f'publication "{name}" does not exist') as refused:
        chain.carry()

    assert "it was dropped" in refused.value.hint


@pytest.mark.nightly
def test_a_transaction_that_was_read_in_part_is_read_on_by_the_same_publication_alone(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    """Of `few` the transaction has two rows less in front: to go on there behind the third row would lose a row."""
    chain = make_postgres(*_TABLES, more="    publication: all_of_them")
    chain.write("CREATE PUBLICATION all_of_them FOR TABLE t, u", "CREATE PUBLICATION few FOR TABLE t")
    chain.carry()
    chain.write("INSERT INTO t VALUES (0, 'in a transaction of its own')")
    chain.write_together(
        "INSERT INTO u VALUES (1), (2)",
        "INSERT INTO t VALUES (1, 'before')",
        "ALTER TABLE t ADD COLUMN w int",
        "INSERT INTO t VALUES (2, 'behind', 3), (3, 'last', 4)",
    )
    chain.crash("statement.announced")
    assert chain.position().rows_from > 0

    _publish_by(chain, "few")
    with pytest.raises(UsageError, match="was read with `publication: all_of_them`") as refused:
        chain.carry()
    moved = chain.failover("--to", f"127.0.0.1:{chain.server.port}")
    _publish_by(chain, "all_of_them")
    chain.carry()
    _publish_by(chain, "few")
    chain.write("UPDATE t SET v = 'few' WHERE id = 1")
    chain.carry()

    assert "write `publication: all_of_them` until" in refused.value.hint
    assert "was read with `publication: all_of_them`" in moved.stderr
    source, warehouse = chain.both(_ALL)
    assert warehouse == source
    assert chain.stopped() == {}
