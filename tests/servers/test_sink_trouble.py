"""Targets that somebody altered, that are full, or that refuse the login: an error says so, and nothing moved."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.servers.kinds import on_every_target
from tests.servers.sink_case import (
    FIRST,
    SCHEMAS,
    TABLE,
    TOPIC,
    Place,
    PostgresTarget,
    RedshiftTarget,
    SnowflakeTarget,
    rows_in,
    schema,
    write_batch,
)

from penstock.adapters.postgres.connection import connect
from penstock.core.errors import SinkError, TableStoppedError, UnavailableError
from penstock.core.tables import Column, IntegerType, TableId, TextType

if TYPE_CHECKING:
    from penstock.links.warehouse.sink import SqlSink

pytestmark = on_every_target


@pytest.fixture
def sink(place: Place) -> SqlSink:
    """A target with one row."""
    sink = place.open()
    sink.load(TABLE, [write_batch(place, FIRST, 1, 0, [("a", 1, "c")])], SCHEMAS)
    return sink


@pytest.mark.parametrize(("harm", "said", "mend"), [
    ("DROP COLUMN qty", r"orders\.qty .* somebody dropped it", "ADD COLUMN qty INTEGER DEFAULT 1"),
    ("ALTER COLUMN qty TYPE BIGINT", r"orders\.qty .* gave it the type BIGINT", "ALTER COLUMN qty TYPE INTEGER"),
    ("RENAME COLUMN qty TO amount", r"orders\.qty .* somebody dropped it", "RENAME COLUMN amount TO qty"),
])  # fmt: skip
def test_a_table_that_somebody_altered_is_named_and_goes_on_once_it_is_mended(
    place: Place, sink: SqlSink, harm: str, said: str, mend: str
) -> None:
    if isinstance(place.target, RedshiftTarget | SnowflakeTarget) and "TYPE" in harm:
        pytest.skip("Redshift gives a column no other type, and Snowflake's integers are all one type")
    place.do(f"ALTER TABLE shop.orders {harm}")
    more = [write_batch(place, FIRST, 1, 1, [("b", 2, "c")])]

    with pytest.raises(TableStoppedError, match=said):
        sink.load(TABLE, more, SCHEMAS)
    assert sink.positions(TABLE) == {(TOPIC, 0): 1}
    place.do(f"ALTER TABLE shop.orders {mend}")
    sink.load(TABLE, more, SCHEMAS)

    assert sorted(rows_in(sink, "SELECT id, qty FROM shop.orders")) == [("a", 1), ("b", 2)]


def test_a_column_that_must_not_be_null_and_is_not_ours_stops_the_table(place: Place, sink: SqlSink) -> None:
    if isinstance(place.target, RedshiftTarget):
        pytest.skip("Redshift adds no column that must not be NULL without a default")
    place.do("ALTER TABLE shop.orders ADD COLUMN checked INTEGER DEFAULT 0")
    place.do("ALTER TABLE shop.orders ALTER COLUMN checked SET NOT NULL")
    place.do("ALTER TABLE shop.orders ALTER COLUMN checked DROP DEFAULT")
    more = [write_batch(place, FIRST, 1, 1, [("b", 2, "c")])]

    with pytest.raises(TableStoppedError, match=r"(?i)checked"):
        sink.load(TABLE, more, SCHEMAS)
    place.do("ALTER TABLE shop.orders ALTER COLUMN checked DROP NOT NULL")

    assert sink.load(TABLE, more, SCHEMAS).rows == 1


def test_words_of_sql_are_names_like_others(place: Place) -> None:
    table = TableId("select", "table")
    reserved = [
        Column(name, IntegerType(32, unsigned=False), nullable=True) for name in ("order", "user", "from", "s", "t")
    ]
    wanted = replace(FIRST, table=table, columns=(*FIRST.columns, *reserved), key=("id", "order"))
    sink = place.open()

    for start in (0, 1):
        sink.load(table, [write_batch(place, wanted, 1, start, [("a", 1, 2, 3, 4, 5, 6, "u")])], {1: wanted})

    assert rows_in(sink, 'SELECT * FROM "select"."table"') == [("a", 1, 2, 3, 4, 5, 6)]


def stranger(place: Place, *grants: str) -> Place:
    """The same target, for a user who may only do what is granted."""
    if not isinstance(place.target, PostgresTarget):
        pytest.skip("a file has no users, and Redshift's are in test_redshift_sink")
    server = place.target.server
    name = f"stranger_{server.database}"
    place.do(f"CREATE ROLE {name} LOGIN PASSWORD 'secret'", *(grant.format(name=name) for grant in grants))
    return Place(PostgresTarget(replace(server, user=name, password="secret")), place.objects)


def forget(place: Place) -> None:
    assert isinstance(place.target, PostgresTarget)
    name = f"stranger_{place.target.server.database}"
    place.do(f"REASSIGN OWNED BY {name} TO CURRENT_USER", f"DROP OWNED BY {name}", f"DROP ROLE {name}")


def test_schemas_that_are_there_need_no_right_to_make_them_and_others_are_named(place: Place) -> None:
    makes = ["CREATE SCHEMA penstock", "CREATE SCHEMA shop", "GRANT ALL ON SCHEMA penstock, shop TO {name}"]
    limited = stranger(place, *makes)
    elsewhere = replace(FIRST, table=TableId("elsewhere", "orders"))
    sink = limited.open()

    loaded = sink.load(TABLE, [write_batch(place, FIRST, 1, 0, [("a", 1, "c")])], SCHEMAS)
    with pytest.raises(TableStoppedError, match=r"elsewhere\.orders .* does not permit it"):
        sink.load(elsewhere.table, [write_batch(place, elsewhere, 1, 0, [("a", 1, "c")])], {1: elsewhere})
    sink.close()
    forget(place)

    assert loaded.rows == 1


def test_credentials_that_expire_in_mid_run_are_told_and_the_run_goes_on_with_others(place: Place) -> None:
    limited = stranger(
        place, "GRANT CREATE ON DATABASE {name}".replace("DATABASE {name}", f"DATABASE {database(place)} TO {{name}}")
    )
    sink = limited.open()
    sink.load(TABLE, [write_batch(place, FIRST, 1, 0, [("a", 1, "c")])], SCHEMAS)
    more = [write_batch(place, FIRST, 1, 1, [("b", 2, "c")])]

    place.do(f"ALTER ROLE stranger_{database(place)} PASSWORD 'another'")
    place.ask(
        f"SELECT pg_terminate_backend(pid)::int FROM pg_stat_activity WHERE usename = 'stranger_{database(place)}'"
    )
    with pytest.raises(UnavailableError):
        sink.load(TABLE, more, SCHEMAS)
    with pytest.raises(SinkError, match="refused the login"):
        limited.open()
    place.do(f"ALTER ROLE stranger_{database(place)} PASSWORD 'secret'")
    again = limited.open()
    assert again.positions(TABLE) == {(TOPIC, 0): 1}
    rows = again.load(TABLE, more, SCHEMAS).rows
    again.close()
    sink.close()
    forget(place)

    assert rows == 1


def database(place: Place) -> str:
    if not isinstance(place.target, PostgresTarget):
        pytest.skip("a file has no users, and Redshift's are in test_redshift_sink")
    return place.target.server.database


def test_a_quota_that_is_reached_is_told_and_nothing_moved(place: Place, sink: SqlSink) -> None:
    if not isinstance(place.target, PostgresTarget):
        pytest.skip("full disks of the others are in test_duckdb_sink and test_redshift_trouble")
    rows: list[tuple[object, ...]] = [(f"{n:020}", n, "c") for n in range(20_000)]
    sink._warehouse.run("SET work_mem = '64kB'")
    sink._warehouse.run("SET temp_file_limit = '64kB'")

    with pytest.raises(TableStoppedError, match="has reached one of its limits"):
        sink.load(TABLE, [write_batch(place, FIRST, 1, 1, rows)], SCHEMAS)
    assert (rows_in(sink), sink.positions(TABLE)) == ([("a", 1)], {(TOPIC, 0): 1})
    sink._warehouse.run("RESET temp_file_limit")

    assert sink.load(TABLE, [write_batch(place, FIRST, 1, 1, rows)], SCHEMAS).rows == 20_000


def test_a_copy_that_is_cut_half_way_leaves_nothing(place: Place, sink: SqlSink) -> None:
    if not isinstance(place.target, PostgresTarget):
        pytest.skip("DuckDB reads the rows where they are; Redshift's COPY is in test_redshift_sink")
    long = schema(body=TextType(100_000, "ascii"))
    elsewhere = replace(long, table=TableId("shop", "long"))
    batch = write_batch(place, elsewhere, 1, 0, [(str(n), "x" * 50_000, "c") for n in range(400)])
    failed = threading.Event()

    def end_copy() -> None:
        query = "SELECT pg_terminate_backend(pid) FROM pg_stat_progress_copy WHERE bytes_processed > 1000000"
        with closing(connect(place.target.server)) as other:  # type: ignore[attr-defined]
            while not other.execute(query).fetchall() and not failed.is_set():
                time.sleep(0.001)

    watcher = threading.Thread(target=end_copy)
    watcher.start()
    try:
        with pytest.raises(UnavailableError):
            sink.load(elsewhere.table, [batch], {1: elsewhere})
    finally:
        failed.set()
        watcher.join()

    again = place.open()
    assert (place.tables(), again.positions(elsewhere.table)) == (["shop.orders"], {})
    assert again.load(elsewhere.table, [batch], {1: elsewhere}).rows == 400
