"""Partitioned tables of a PostgreSQL source, each partition of which is carried as a table of its own."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Final

import pytest
from tests.servers.postgres_source_case import source_database

from penstock.adapters.postgres.source.catalog import read_tables
from penstock.adapters.postgres.source.preflight import LogAccess, examine_source
from penstock.adapters.postgres.source.publication import Publication, ensure_publication
from penstock.core.errors import UnfitServerError, UsageError
from penstock.core.postgres.partitions import files_number, have_changed, partitions_number, were_rewritten
from penstock.core.snapshots import SnapshotOptions, Status
from penstock.wiring.capture_kinds import capture_kind
from penstock.wiring.catalog_watch import CatalogWatch
from penstock.wiring.open import open_pipeline_state
from penstock.wiring.postgres_failover import take_new_slot
from penstock.wiring.postgres_server import postgres_source
from penstock.wiring.snapshots import ask_for_snapshots, read_snapshots

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers.postgres_chain import PostgresChain
    from tests.servers.postgres_source_case import SourceDatabase

    from penstock.core.postgres.partitions import Partition
    from penstock.dev.postgres import PostgresServer

_MANY: Final = "    partitions: many"
_TABLES: Final = (
    "CREATE TABLE t (id int, v text, PRIMARY KEY (id)) PARTITION BY RANGE (id)",
    "CREATE TABLE t_1 PARTITION OF t FOR VALUES FROM (0) TO (100)",
    "CREATE TABLE t_2 PARTITION OF t FOR VALUES FROM (100) TO (200)",
    "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (101, 'c')",
)
_LEAVES: Final = {"public.t_1", "public.t_2", "public.t_3"}
_NAMES: Final = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1"
_QUIET: Final = (
    "CREATE TABLE t_3 PARTITION OF t FOR VALUES FROM (200) TO (300) PARTITION BY RANGE (id)",
    "CREATE TABLE t_31 PARTITION OF t_3 FOR VALUES FROM (200) TO (250)",
    "INSERT INTO t VALUES (201, 'e')",
    "ALTER TABLE t_31 RENAME TO t_30",
    "ALTER TABLE t ADD COLUMN w int DEFAULT 7",
    "GRANT SELECT ON t, t_1 TO PUBLIC; CREATE INDEX ON t (v)",
    "VACUUM ANALYZE t",
)
_REWRITTEN: Final = ("TRUNCATE t_1", "TRUNCATE t_30", "VACUUM FULL t_1")
_TOLD: Final = (
    "ALTER TABLE t DETACH PARTITION t_2",
    "ALTER TABLE t ATTACH PARTITION t_2 FOR VALUES FROM (100) TO (200)",
    "ALTER TABLE old ADD COLUMN w int; ALTER TABLE t ATTACH PARTITION old FOR VALUES FROM (300) TO (400)",
    "ALTER TABLE t_3 DETACH PARTITION t_30",
    "DROP TABLE t_1",
)


def _same(chain: PostgresChain, *tables: str) -> None:
    for table in tables:
        source, warehouse = chain.both(f"SELECT id, v FROM public.{table} ORDER BY id")
        assert (table, warehouse) == (table, source)


def _notes(chain: PostgresChain) -> dict[str, str]:
    """What a look at the catalog says of tables that the log does not."""
    (source,) = chain.spec.sources
    with closing(open_pipeline_state(chain.spec)) as state:
        CatalogWatch(chain.spec, source).look(state)
        return {row.table: row.hint for row in state.tables() if row.link == source.name and row.hint}


def _partitions(source: SourceDatabase) -> tuple[Partition, ...]:
    (root,) = [each.table for each in read_tables(source.connection, "one") if each.table.name == "t"]
    assert root.partitions is not None
    return root.partitions


def _publication(chain: PostgresChain) -> str:
    return postgres_source(chain.spec.sources[0]).publication_name


def _examined(source: SourceDatabase, publication: Publication) -> list[tuple[str, str]]:
    """What `check` says of the publication: what is wrong by what to type first."""
    access = LogAccess(source.login, source.name, publication, is_failover=False)
    found = [each for each in examine_source(source.connection, access, lambda _: True) if "publi" in each.subject]
    return [(each.level, each.hint.split(";")[0] or each.message) for each in found]


def test_each_partition_is_a_table_and_a_row_that_moves_is_deleted_here_and_inserted_there(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    chain = make_postgres(*_TABLES, more=_MANY)
    chain.carry()
    _same(chain, "t_1", "t_2")

    chain.write("CREATE TABLE t_3 PARTITION OF t FOR VALUES FROM (200) TO (300)")
    chain.write("UPDATE t SET id = id + 100 WHERE id = 2", "UPDATE t SET v = 'd' WHERE id = 1")
    chain.write("INSERT INTO t VALUES (201, 'e'), (103, 'f')", "DELETE FROM t WHERE id = 101")
    ask_for_snapshots(chain.spec, ["public.t_2"], SnapshotOptions())
    chain.carry()

    assert chain.rows(_NAMES) == [("t_1",), ("t_2",), ("t_3",)]
    _same(chain, "t_1", "t_2", "t_3")
    assert [each.status for each in read_snapshots(chain.spec)] == [Status.DONE]
    assert (chain.stopped(), chain.position().partitions) == ({}, "many")


def test_the_publication_must_have_partitions_as_the_source_wants_them(
    postgres: PostgresServer, fresh_name: str
) -> None:
    with source_database(postgres, fresh_name) as source:
        source.execute(*_TABLES, f"CREATE PUBLICATION {source.name} FOR ALL TABLES")
        by_leaf = {each: _examined(source, Publication(source.name, each)) for each in ("one", "many")}
        source.execute(f"ALTER PUBLICATION {source.name} SET (publish_via_partition_root = true)")
        by_root = {each: _examined(source, Publication(source.name, each)) for each in ("one", "many")}
        with pytest.raises(UnfitServerError, match="without their partitions, and the source has `partitions: many`"):
            ensure_publication(source.connection, Publication(source.name, "many"))
        source.execute(f"DROP PUBLICATION {source.name}")
        ensure_publication(source.connection, Publication(source.name, "many"))
        made = _examined(source, Publication(source.name, "many"))

    assert by_leaf["many"] == by_root["one"] == made == [("ok", "has the wanted tables")]
    (one,), (many,) = by_leaf["one"], by_root["many"]
    assert one == ("error", f"ALTER PUBLICATION {source.name} SET (publish_via_partition_root = true)")
    assert many == ("error", f"ALTER PUBLICATION {source.name} SET (publish_via_partition_root = false)")


def test_the_catalog_tells_partitions_that_came_with_rows_or_went_from_those_that_were_made(
    postgres: PostgresServer, fresh_name: str
) -> None:
    with source_database(postgres, fresh_name) as source:
        source.execute(*_TABLES, "CREATE TABLE old (id int PRIMARY KEY, v text)")

        def changed(statement: str) -> bool:
            before = _partitions(source)
            source.execute(statement)
            return have_changed(partitions_number(before), _partitions(source))

        def rewritten(statement: str) -> bool:
            before = _partitions(source)
            moved = changed(statement)
            return moved or were_rewritten(files_number(before), _partitions(source))

        first = files_number(_partitions(source))
        assert [statement for statement in _QUIET if rewritten(statement)] == []
        assert not were_rewritten(first, _partitions(source))
        assert [statement for statement in _REWRITTEN if changed(statement) or not rewritten(statement)] == []
        assert [statement for statement in _TOLD if not changed(statement)] == []


@pytest.mark.nightly
def test_what_becomes_of_partitions_becomes_of_their_tables(make_postgres: Callable[..., PostgresChain]) -> None:
    chain = make_postgres(*_TABLES, "CREATE TABLE apart (id int PRIMARY KEY, v text)", more=_MANY)
    chain.write("INSERT INTO apart VALUES (201, 'before')")
    chain.carry()

    chain.write(
        "ALTER TABLE t ATTACH PARTITION apart FOR VALUES FROM (200) TO (300)", "INSERT INTO t VALUES (202, 'x')"
    )
    chain.write("ALTER TABLE t DETACH PARTITION t_1", "INSERT INTO t_1 VALUES (500, 'detached')")
    chain.write("CREATE TABLE t_0 PARTITION OF t FOR VALUES FROM (0) TO (100) PARTITION BY RANGE (id)")
    chain.write("CREATE TABLE t_00 PARTITION OF t_0 FOR VALUES FROM (0) TO (50)", "INSERT INTO t VALUES (7, 'leaf')")
    chain.write_together("UPDATE t SET id = 120 WHERE id = 7", "UPDATE t SET v = 'moved' WHERE id = 120")
    chain.carry()
    attached = chain.rows(_NAMES)
    _same(chain, "t_1", "t_2", "t_00", "apart")

    chain.write("CREATE TABLE later (id int PRIMARY KEY, v text)", "INSERT INTO later VALUES (301, 'before')")
    chain.write("ALTER TABLE t ATTACH PARTITION later FOR VALUES FROM (300) TO (400)", "TRUNCATE apart")
    chain.write("ALTER TABLE t ADD COLUMN w int DEFAULT 7", "INSERT INTO t VALUES (302, 'y', 8), (203, 'z', 9)")
    chain.carry()
    _same(chain, "t_1", "t_2", "t_00", "apart", "later")
    widths = chain.both("SELECT id, w FROM public.later ORDER BY id")
    chain.write("TRUNCATE t", "INSERT INTO t VALUES (399, 'last', 1)")
    chain.carry()

    assert attached == [("apart",), ("t_00",), ("t_1",), ("t_2",)]
    assert widths[1] == widths[0] == [(301, 7), (302, 8)]
    _same(chain, "t_1", "t_2", "t_00", "apart", "later")
    assert [len(chain.rows(f"SELECT id FROM public.{name}")) for name in ("t_1", "t_2", "later")] == [2 + 1, 0, 1]
    assert chain.stopped() == {}


@pytest.mark.nightly
def test_partitions_that_do_not_log_whole_rows_as_their_table_seems_to_lose_no_value(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    chain = make_postgres(*_TABLES, "ALTER TABLE t ALTER v SET STORAGE EXTERNAL", "ALTER TABLE t REPLICA IDENTITY FULL")
    chain.write(
        "ALTER TABLE t_1 ALTER v SET STORAGE EXTERNAL; ALTER TABLE t ADD n int",
        "INSERT INTO t VALUES (3, repeat('x', 9000), 1)",
    )
    chain.carry()
    chain.write("UPDATE t SET n = 2 WHERE id = 3")
    chain.carry()
    _same(chain, "t")
    before = chain.stopped()

    chain.write("UPDATE t SET id = 4, n = 3 WHERE id = 3")
    chain.carry()
    stopped = chain.stopped()
    for (leaf,) in chain.source_rows("SELECT relid::text FROM pg_partition_tree('public.t')"):
        chain.write(f"ALTER TABLE {leaf} REPLICA IDENTITY FULL")
    ask_for_snapshots(chain.spec, ["public.t"], SnapshotOptions(full_refresh=True))
    chain.carry()
    chain.write("UPDATE t SET id = 5, n = 4 WHERE id = 4")
    chain.carry()

    assert before == {}
    assert "got another key" in stopped["public.t"]
    assert chain.stopped() == {}
    _same(chain, "t")


@pytest.mark.nightly
@pytest.mark.parametrize(
    "altered",
    [
        # A leaf with an index of its own for its replica identity.
        ("CREATE UNIQUE INDEX by_n ON t_1 (n)", "ALTER TABLE t_1 REPLICA IDENTITY USING INDEX by_n"),
        # A table without a key, of whose leaves one has a key.
        (
            "ALTER TABLE t DROP CONSTRAINT t_pkey",
            "ALTER TABLE t_1 ADD PRIMARY KEY (id)",
            "ALTER TABLE t_1 REPLICA IDENTITY DEFAULT",
        ),
    ],
)
def test_a_partition_that_does_not_log_the_key_of_its_table_stops_it_and_check_warns(
    make_postgres: Callable[..., PostgresChain], altered: tuple[str, ...]
) -> None:
    chain = make_postgres(*_TABLES, "ALTER TABLE t ADD n int NOT NULL DEFAULT 1", "DELETE FROM t WHERE id = 2")
    for table in ("t", "t_1", "t_2"):
        chain.write(f"ALTER TABLE {table} REPLICA IDENTITY FULL")
    chain.write(*altered)
    source = chain.spec.sources[0]

    (told,) = [
        each.message
        for each in capture_kind(source).examine(source, chain.spec.pipeline)
        if each.subject.endswith(", keys") and "so it stops" in each.message
    ]
    chain.carry()
    chain.write("UPDATE t SET v = 'b' WHERE id = 1")
    chain.carry()

    assert "t_1" in told
    assert "t_1" in chain.stopped()["public.t"]


@pytest.mark.nightly
@pytest.mark.parametrize(("before", "after"), [("one", "many"), ("many", "one")])
def test_a_pipeline_that_has_run_goes_on_otherwise_with_a_new_slot_alone(
    make_postgres: Callable[..., PostgresChain], before: str, after: str
) -> None:
    chain = make_postgres(*_TABLES, more=f"    partitions: {before}")
    chain.carry()
    chain.write("CREATE TABLE t_3 PARTITION OF t FOR VALUES FROM (200) TO (300)", "INSERT INTO t VALUES (201, 'new')")
    chain.carry()
    chain.file.write_text(chain.file.read_text().replace(f"partitions: {before}", f"partitions: {after}"))
    chain.write("INSERT INTO t VALUES (104, 'unread'), (203, 'unread')")

    with pytest.raises(UsageError, match=f"was read with `partitions: {before}`") as refused:
        chain.carry()
    option = f"SET (publish_via_partition_root = {'true' if after == 'one' else 'false'})"
    chain.write(f"ALTER PUBLICATION {_publication(chain)} {option}")
    done = take_new_slot(chain.spec, chain.spec.sources[0].name)
    chain.write("INSERT INTO t VALUES (202, 'behind')", "UPDATE t SET v = 'u' WHERE id = 2")
    chain.carry()
    chain.write("UPDATE t SET v = 'live'")
    chain.carry()

    assert f"ALTER PUBLICATION {_publication(chain)} {option}" in refused.value.hint
    assert "--new-slot" in refused.value.hint
    _same(chain, *(["t"] if after == "one" else ["t_1", "t_2", "t_3"]))
    assert set(chain.stopped()) == set(done.left) == ({"public.t"} if before == "one" else _LEAVES)


@pytest.mark.nightly
def test_a_partition_that_left_the_publication_with_its_table_is_read_again(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    chain = make_postgres(*_TABLES, more=_MANY)
    chain.write(f"CREATE PUBLICATION {_publication(chain)} FOR TABLE t")
    chain.carry()

    chain.write("ALTER TABLE t DETACH PARTITION t_1", "INSERT INTO t_1 VALUES (3, 'unseen')")
    chain.write("ALTER TABLE t ATTACH PARTITION t_1 FOR VALUES FROM (0) TO (100)", "INSERT INTO t VALUES (4, 'seen')")
    chain.carry()
    chain.write("DELETE FROM t WHERE id = 1", "INSERT INTO t VALUES (102, 'w')")
    chain.carry()

    _same(chain, "t_1", "t_2")
    assert chain.stopped() == {}


@pytest.mark.nightly
def test_a_table_whose_partitions_came_or_went_is_named_until_it_is_refreshed(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    chain = make_postgres(
        *_TABLES, "CREATE TABLE own (id int PRIMARY KEY, v text)", "INSERT INTO own VALUES (301, 'o')"
    )
    chain.carry()
    chain.write("CREATE TABLE t_3 PARTITION OF t FOR VALUES FROM (200) TO (300)", "INSERT INTO t VALUES (201, 'e')")
    chain.carry()
    quiet = _notes(chain)
    chain.write("ALTER TABLE t ATTACH PARTITION own FOR VALUES FROM (300) TO (400)", "DELETE FROM t WHERE id = 1")
    chain.write("ALTER TABLE t ADD COLUMN w int", "INSERT INTO t VALUES (302, 'f', 1)")
    chain.carry()
    attached = _notes(chain)
    ask_for_snapshots(chain.spec, ["public.t"], SnapshotOptions(full_refresh=True))
    chain.carry()
    _same(chain, "t")
    refreshed = _notes(chain)
    chain.write("DROP TABLE t_1")
    gone = _notes(chain)

    assert quiet == {}
    assert "a partition of it was attached, detached or dropped" in attached["public.t"]
    assert "it is a partition of public.t in the source now" in attached["public.own"]
    assert list(refreshed) == ["public.own"]
    assert "attached, detached or dropped" in gone["public.t"]
    assert chain.stopped() == {}


@pytest.mark.nightly
def test_a_table_is_named_when_a_partition_was_emptied_and_not_when_all_of_it_was(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    chain = make_postgres(*_TABLES)
    chain.carry()
    chain.write("CREATE TABLE t_3 PARTITION OF t FOR VALUES FROM (200) TO (300)", "INSERT INTO t VALUES (201, 'e')")
    chain.carry()
    chain.write("TRUNCATE t_3")
    chain.carry()
    stays, emptied = chain.rows("SELECT id FROM public.t ORDER BY id"), _notes(chain)
    ask_for_snapshots(chain.spec, ["public.t"], SnapshotOptions(full_refresh=True))
    chain.carry()
    refreshed = _notes(chain)
    _same(chain, "t")

    chain.write("TRUNCATE t", "INSERT INTO t VALUES (5, 'f'), (205, 'g')")
    chain.carry()
    _same(chain, "t")
    whole = _notes(chain)
    chain.write("TRUNCATE t", "TRUNCATE t_1, t_2", "INSERT INTO t VALUES (6, 'h')")
    chain.carry()
    both = _notes(chain)
    chain.write("TRUNCATE t", "INSERT INTO t VALUES (7, 'i')", "CREATE TABLE t_0 PARTITION OF t DEFAULT")
    chain.carry()
    _same(chain, "t")

    assert stays == [(1,), (2,), (101,), (201,)]
    assert "a partition of it was emptied (TRUNCATE)" in emptied["public.t"]
    assert refreshed == whole == _notes(chain) == {}
    assert "a partition of it was emptied (TRUNCATE)" in both["public.t"]
    assert chain.stopped() == {}


@pytest.mark.nightly
def test_a_partition_that_was_emptied_is_named_where_the_table_begins_by_the_log_or_gets_another_name(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    chain = make_postgres(*_TABLES)
    chain.carry()
    chain.write("TRUNCATE t_1", "ALTER TABLE t RENAME TO r", "INSERT INTO r VALUES (3, 'r')")
    chain.write("CREATE TABLE n (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)")
    chain.write("CREATE TABLE n_1 PARTITION OF n FOR VALUES FROM (0) TO (100)", "INSERT INTO n VALUES (1, 'gone')")
    chain.write("TRUNCATE n_1", "INSERT INTO n VALUES (2, 'n')")
    chain.carry()
    notes = _notes(chain)
    ask_for_snapshots(chain.spec, ["public.r", "public.n"], SnapshotOptions(full_refresh=True))
    chain.carry()

    assert {table: "a partition of it was emptied" in note for table, note in notes.items()} == {
        "public.r": True,
        "public.n": True,
    }
    _same(chain, "r", "n")
    assert (_notes(chain), chain.stopped()) == ({}, {})
