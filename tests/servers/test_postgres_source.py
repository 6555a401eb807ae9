"""PostgreSQL to a warehouse, end to end and without Spark."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pytest
from tests.servers.sessions import log_in

from penstock.core.errors import UnfitServerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pymysql.cursors import Cursor
    from tests.servers.postgres_chain import PostgresChain

    from penstock.embedded.mariadb import MariadbServer


@contextmanager
def session(server: MariadbServer) -> Iterator[Cursor]:
    """Run statements in a MariaDB, each in a transaction of its own."""
    with (
        closing(log_in(server)) as connection,
        connection.cursor() as cursor,
    ):
        yield cursor


ITEMS = "CREATE TABLE items (id int PRIMARY KEY, name text, price numeric(10,2), note text)"
_LARGE = "(SELECT string_agg(md5(i::text), '') FROM generate_series(1, 400) i)"
_ALL = "SELECT id, name, price, note FROM public.items ORDER BY id"


def test_a_copy_and_what_was_changed_since_are_in_the_warehouse(make_postgres: Callable[..., PostgresChain]) -> None:
    chain = make_postgres(
        ITEMS, f"INSERT INTO items SELECT i, 'n' || i, i + 0.5, {_LARGE} FROM generate_series(1, 50) i"
    )
    chain.carry()
    assert len(chain.rows(_ALL)) == 50

    chain.write("UPDATE items SET price = price * 2 WHERE id % 2 = 0")
    chain.write("DELETE FROM items WHERE id <= 5", "INSERT INTO items VALUES (100, 'new', NULL, NULL)")
    chain.write("UPDATE items SET note = 'short' WHERE id = 7")
    chain.carry()

    source, warehouse = chain.both(_ALL)
    assert warehouse == source


def test_a_large_value_that_an_update_did_not_touch_is_kept(make_postgres: Callable[..., PostgresChain]) -> None:
    chain = make_postgres(
        ITEMS,
        "ALTER TABLE items ALTER note SET STORAGE EXTERNAL",
        "CREATE TABLE keys (id text PRIMARY KEY, v text)",
        "ALTER TABLE keys ALTER id SET STORAGE EXTERNAL",
        "INSERT INTO keys VALUES (repeat('k', 2200), 'a')",
    )
    chain.carry()
    chain.write("UPDATE keys SET v = 'b'")

    # Inserted and updated between two loads, and updated again behind the first.
    chain.write(f"INSERT INTO items VALUES (1, 'a', 1, {_LARGE}), (2, 'b', 2, {_LARGE})")
    chain.write("UPDATE items SET name = 'aa' WHERE id = 1")
    chain.carry()
    chain.write("UPDATE items SET name = 'bb' WHERE id = 2")
    chain.carry()

    source, warehouse = chain.both(_ALL)
    assert len(str(source[0][3])) > 10_000
    assert warehouse == source
    assert chain.rows("SELECT length(id), v FROM public.keys") == [(2200, "b")]


@pytest.mark.nightly
def test_keys_that_change_and_come_back_end_as_in_the_source(make_postgres: Callable[..., PostgresChain]) -> None:
    chain = make_postgres(
        "CREATE TABLE pairs (a int, b text, v int, PRIMARY KEY (b, a))",
        "INSERT INTO pairs SELECT i, 'k' || i, i FROM generate_series(1, 20) i",
    )
    chain.carry()

    chain.write("UPDATE pairs SET a = a + 100 WHERE a <= 10", "DELETE FROM pairs WHERE a = 101")
    chain.write_together(
        "UPDATE pairs SET b = 'moved' WHERE a = 15",
        "INSERT INTO pairs VALUES (15, 'k15', 999)",
        "UPDATE pairs SET v = v + 1 WHERE b = 'moved'",
    )
    chain.carry()

    source, warehouse = chain.both("SELECT a, b, v FROM public.pairs ORDER BY a, b")
    assert warehouse == source


def test_tables_that_change_in_mid_transaction_end_as_in_the_source(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    chain = make_postgres("CREATE TABLE t (id int PRIMARY KEY, a text, b int)", "INSERT INTO t VALUES (1, 'x', 1)")
    chain.carry()

    chain.write_together(
        "INSERT INTO t VALUES (2, 'before', 2)",
        "ALTER TABLE t ADD COLUMN c int DEFAULT 5",
        "INSERT INTO t VALUES (3, 'with c', 3, 7)",
        "ALTER TABLE t RENAME COLUMN a TO label",
        "UPDATE t SET label = 'renamed' WHERE id = 3",
        "CREATE TABLE made (id bigint PRIMARY KEY, ok boolean NOT NULL)",
        "INSERT INTO made VALUES (1, true), (2, false)",
    )
    chain.write("ALTER TABLE t DROP COLUMN b", "INSERT INTO t VALUES (4, 'without b', 9)")
    chain.write("ALTER TABLE made RENAME TO renamed", "INSERT INTO renamed VALUES (3, true)")
    chain.carry()

    source, warehouse = chain.both("SELECT id, label, c FROM public.t ORDER BY id")
    assert warehouse == source
    assert chain.rows("SELECT id, ok FROM public.renamed ORDER BY id") == [(1, 1), (2, 0), (3, 1)]
    assert chain.rows("SELECT count(*) FROM information_schema.tables WHERE table_name = 'made'") == [(0,)]


@pytest.mark.nightly
def test_a_truncate_empties_a_table_between_the_rows_around_it(make_postgres: Callable[..., PostgresChain]) -> None:
    chain = make_postgres("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE u (id int PRIMARY KEY)")
    chain.write("INSERT INTO t VALUES (1)", "INSERT INTO u VALUES (1)")
    chain.carry()

    chain.write_together("INSERT INTO t VALUES (2)", "TRUNCATE t, u", "INSERT INTO t VALUES (3)")
    chain.carry()

    assert chain.rows("SELECT id FROM public.t") == [(3,)]
    assert chain.rows("SELECT id FROM public.u") == []


def test_a_table_that_is_dropped_ends_and_may_be_made_anew(make_postgres: Callable[..., PostgresChain]) -> None:
    chain = make_postgres("CREATE TABLE t (id int PRIMARY KEY, a int)", "CREATE TABLE u (id int PRIMARY KEY)")
    chain.file.write_text(chain.file.read_text().replace("to: wh}", "to: wh, dropped_tables: drop}"))
    chain.write("INSERT INTO t VALUES (1, 1)", "INSERT INTO u VALUES (1)")
    chain.carry()

    # Its last rows are committed with it, and the source writes nothing behind that.
    chain.write_together("INSERT INTO t VALUES (2, 2)", "DROP TABLE t")
    chain.carry()
    tables = chain.rows("SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'")
    chain.write("CREATE TABLE t (id int PRIMARY KEY, b text)", "INSERT INTO t VALUES (3, 'b')")
    chain.carry()

    assert tables == [("u",)]
    assert chain.rows("SELECT * FROM public.t") == [(3, "b")]


@pytest.mark.nightly
def test_a_table_that_is_made_anew_begins_anew(make_postgres: Callable[..., PostgresChain]) -> None:
    chain = make_postgres("CREATE TABLE t (id int PRIMARY KEY, a int)", "INSERT INTO t VALUES (1, 1)")
    chain.carry()

    chain.write("DROP TABLE t", "CREATE TABLE t (id int PRIMARY KEY, b text)", "INSERT INTO t VALUES (2, 'b')")
    chain.carry()

    assert chain.rows("SELECT * FROM public.t") == [(2, "b")]


@pytest.mark.nightly
def test_tables_that_give_their_names_away_end_as_in_the_source_or_stop(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    chain = make_postgres("CREATE SCHEMA apart", "CREATE TABLE leaves (id int PRIMARY KEY)")
    chain.carry()
    old = ("t", "t_next", "u")
    chain.write(*(f"CREATE TABLE {name} (id int PRIMARY KEY, v text)" for name in old))
    chain.write(*(f"INSERT INTO {name} VALUES (1, 'of {name}')" for name in old))
    chain.carry()

    chain.write_together("ALTER TABLE t RENAME TO t_old", "ALTER TABLE t_next RENAME TO t")
    chain.write("INSERT INTO t VALUES (2, 'next')", "INSERT INTO t_old VALUES (2, 'old')")
    chain.write_together("ALTER TABLE u RENAME TO u_old", "CREATE TABLE u (id int PRIMARY KEY, v text)")
    chain.write("INSERT INTO u VALUES (3, 'new')", "INSERT INTO u_old VALUES (2, 'old')")
    chain.write("ALTER TABLE leaves SET SCHEMA apart", "INSERT INTO apart.leaves VALUES (1)")
    chain.carry()

    stopped = chain.stopped()
    assert sorted(stopped) == ["public.leaves", "public.t_old", "public.u_old"]
    assert "is called apart.leaves" in stopped["public.leaves"]
    assert "another table took its name" in stopped["public.t_old"]
    for table in ("t", "u"):
        source, warehouse = chain.both(f"SELECT id, v FROM public.{table} ORDER BY id")
        assert warehouse == source, table


def test_what_the_log_does_not_tell_of_a_changed_table_stops_it(make_postgres: Callable[..., PostgresChain]) -> None:
    tables = ("computed", "filled", "another_key", "padded")
    chain = make_postgres(*(f"CREATE TABLE {table} (id int PRIMARY KEY, c char(3))" for table in tables))
    chain.write(
        "CREATE TABLE generated (id int PRIMARY KEY, x int GENERATED ALWAYS AS (id * 2) STORED)",
        "INSERT INTO generated VALUES (1)",
    )
    chain.write("ALTER TABLE another_key REPLICA IDENTITY FULL")
    chain.write(*(f"INSERT INTO {table} VALUES (1, 'a')" for table in tables))
    chain.carry()

    chain.write_together(
        "ALTER TABLE computed ADD x float8 NOT NULL DEFAULT random()", "ALTER TABLE computed ALTER x DROP DEFAULT"
    )
    chain.write_together(
        "ALTER TABLE filled ADD x int", "UPDATE filled SET x = id", "ALTER TABLE filled ALTER x SET NOT NULL"
    )
    chain.write(
        "ALTER TABLE another_key DROP CONSTRAINT another_key_pkey, ADD PRIMARY KEY (id, c)",
        "ALTER TABLE padded ALTER c TYPE char(9)",
        *(f"INSERT INTO {table} (id, c, x) VALUES (2, 'b', 7)" for table in tables[:2]),
        *(f"INSERT INTO {table} (id, c) VALUES (2, 'b')" for table in tables[2:]),
        "ALTER TABLE generated ALTER x DROP EXPRESSION",
        "INSERT INTO generated VALUES (2, 7)",
    )
    chain.carry()

    stopped = chain.stopped()
    assert sorted(stopped) == ["public.another_key", "public.computed", "public.generated", "public.padded"]
    assert "its key (primary key, or replica identity) changed from (id) to (id, c)" in stopped["public.another_key"]
    assert "the source computed" in stopped["public.computed"]
    assert "the source computed" in stopped["public.generated"]
    assert chain.rows("SELECT id, x FROM public.filled ORDER BY id") == [(1, 1), (2, 7)]


@pytest.mark.nightly
def test_rows_that_are_older_than_a_column_have_its_default(make_postgres: Callable[..., PostgresChain]) -> None:
    chain = make_postgres("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    chain.carry()

    chain.write(
        "ALTER TABLE t ADD a timestamptz DEFAULT '2020-01-02 03:04:05.5+02', ADD b interval DEFAULT '1 day',"
        " ADD c numeric DEFAULT 'NaN', ADD d time DEFAULT '12:34:56.5', ADD e boolean DEFAULT true,"
        " ADD f bit(3) DEFAULT B'101', ADD g text DEFAULT 'it''s'",
        "INSERT INTO t (id) VALUES (2)",
    )
    chain.carry()

    older, newer = chain.rows("SELECT a, b, c, d, e, f, g FROM public.t ORDER BY id")
    assert older == newer
    assert older[1:3] == ("1 day", "NaN")


def test_a_value_that_cannot_be_carried_stops_its_table_alone(make_postgres: Callable[..., PostgresChain]) -> None:
    chain = make_postgres(
        "CREATE TABLE bad (id int PRIMARY KEY, n numeric(5,2))", "CREATE TABLE good (id int PRIMARY KEY)"
    )
    chain.carry()

    chain.write("INSERT INTO bad VALUES (1, 'NaN')", "INSERT INTO good VALUES (1)")
    chain.carry()
    chain.write("INSERT INTO bad VALUES (2, 1)", "INSERT INTO good VALUES (2)")
    chain.carry()

    assert chain.rows("SELECT id FROM public.good ORDER BY id") == [(1,), (2,)]
    assert chain.rows("SELECT id FROM public.bad") == []
    (stopped,) = chain.stopped().items()
    assert stopped[0] == "public.bad"
    assert "NaN is no decimal number" in stopped[1]


@pytest.mark.nightly
def test_a_table_without_columns_stops_and_the_others_are_carried(make_postgres: Callable[..., PostgresChain]) -> None:
    chain = make_postgres("CREATE TABLE bare ()", "CREATE TABLE good (id int PRIMARY KEY)")
    chain.write("ALTER TABLE bare REPLICA IDENTITY FULL", "INSERT INTO bare DEFAULT VALUES")
    chain.carry()

    chain.write("INSERT INTO bare DEFAULT VALUES", "INSERT INTO good VALUES (1)")
    chain.carry()

    assert chain.rows("SELECT id FROM public.good") == [(1,)]
    assert "it has no columns" in chain.stopped()["public.bare"]


@pytest.mark.nightly
def test_special_values_are_carried_as_text_where_the_file_says_so(make_postgres: Callable[..., PostgresChain]) -> None:
    chain = make_postgres(
        "CREATE TABLE t (id int PRIMARY KEY, n numeric(5,2), d date, at timestamptz)",
        "INSERT INTO t VALUES (1, 'NaN', 'infinity', '0044-03-15 12:00+00 BC')",
        more="    special_values: text",
    )
    chain.carry()

    assert chain.rows("SELECT * FROM public.t") == [(1, "NaN", "infinity", "0044-03-15 12:00:00+00 BC")]


@pytest.mark.nightly
def test_a_table_without_a_key_is_carried_as_a_change_log(make_postgres: Callable[..., PostgresChain]) -> None:
    chain = make_postgres("CREATE TABLE events (n int, what text)", "ALTER TABLE events REPLICA IDENTITY FULL")
    chain.write("INSERT INTO events VALUES (1, 'a'), (1, 'a')")
    chain.carry()

    chain.write("INSERT INTO events VALUES (2, 'b')")
    chain.carry()

    assert sorted(chain.rows("SELECT n, what FROM public.events")) == [(1, "a"), (1, "a"), (2, "b")]


def test_a_key_that_is_checked_late_is_none(make_postgres: Callable[..., PostgresChain]) -> None:
    key = "id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED"
    chain = make_postgres(f"CREATE TABLE late ({key}, v text)", "INSERT INTO late VALUES (1, 'a'), (2, 'b')")
    with pytest.raises(UnfitServerError, match=r"public\.late"):
        chain.carry()
    chain.write("ALTER TABLE late REPLICA IDENTITY FULL")
    chain.carry()

    # 1 is 2 before 2 is 3.
    chain.write("UPDATE late SET id = id + 1")
    chain.carry()

    carried = chain.rows("SELECT id, v, _op FROM public.late WHERE _op <> 'r'")
    assert (sorted(carried), chain.stopped()) == ([(1, "a", "u-"), (2, "a", "u+"), (2, "b", "u-"), (3, "b", "u+")], {})


def test_partitions_are_one_table(make_postgres: Callable[..., PostgresChain]) -> None:
    chain = make_postgres(
        "CREATE TABLE p (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20)",
        "INSERT INTO p VALUES (1, 'a'), (11, 'b')",
    )
    chain.carry()

    chain.write(
        "INSERT INTO p VALUES (2, 'c')", "UPDATE p SET id = 12 WHERE id = 1", "UPDATE p SET v = 'd' WHERE id = 11"
    )
    chain.carry()

    source, warehouse = chain.both("SELECT id, v FROM public.p ORDER BY id")
    assert warehouse == source
    assert chain.stopped() == {}


@pytest.mark.nightly
def test_a_source_of_each_kind_arrives_in_one_warehouse(
    make_postgres: Callable[..., PostgresChain],
    mariadb: MariadbServer,
    tracker_server: MariadbServer,
    fresh_database: str,
) -> None:
    chain = make_postgres("CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'a')")
    login = "host: 127.0.0.1, port: {port}, user: penstock, password_env: POSTGRES_CHAIN_PASSWORD"
    tracker = f"{{{login.format(port=tracker_server.port)}}}"
    source = f"name: my, kind: mysql, {login.format(port=mariadb.port)}, start: snapshot, tracker: {tracker}"
    config = chain.file.read_text().replace(
        "sources:\n", f'sources:\n  - {{{source}, tables: ["{fresh_database}.*"]}}\n'
    )
    chain.file.write_text(f"{config}  - {{from: my, to: wh}}\n")
    with session(mariadb) as cursor:
        cursor.execute(f"CREATE TABLE {fresh_database}.m (id INT PRIMARY KEY, v VARCHAR(9))")
        cursor.execute(f"INSERT INTO {fresh_database}.m VALUES (1, 'x')")
        chain.carry()
        cursor.execute(f"UPDATE {fresh_database}.m SET v = 'y'")
    chain.write("INSERT INTO t VALUES (2, 'b')")

    chain.carry()

    assert chain.rows("SELECT * FROM public.t ORDER BY id") == [(1, "a"), (2, "b")]
    assert chain.rows(f"SELECT * FROM {fresh_database}.m") == [(1, "y")]
