"""Redshift in trouble: bad states, hang-ups, kills and conflicts lose nothing, and are told."""

from __future__ import annotations

import itertools
import threading
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest
from tests.servers.kinds import first
from tests.servers.redshift_case import log_in, run, target, with_one_row
from tests.servers.sink_case import FIRST, SCHEMAS, TABLE, TOPIC, Place, rows_in, write_batch

from penstock.adapters.redshift.warehouse import RedshiftWarehouse
from penstock.core.errors import SinkError, TableWaitsError, UnavailableError
from penstock.dev.redshift import start_redshift
from penstock.dev.redshift.control import Fault
from penstock.faults.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from redshift_connector.cursor import Cursor

    from penstock.dev.redshift import RedshiftServer
    from penstock.dev.s3 import S3Server
    from penstock.links.warehouse.sink import SqlSink

_ANSWERS_MIN = 30


@pytest.fixture
def place(redshift_place: Place) -> Place:
    """A database of a Redshift, with files that COPY reads."""
    return redshift_place


@pytest.fixture
def sink(place: Place) -> SqlSink:
    """A target with one row."""
    return with_one_row(place)


@pytest.fixture
def healthy(redshift: RedshiftServer) -> Iterator[RedshiftServer]:
    """The server, which is well again at the end, whatever a test does to it."""
    yield redshift
    redshift.fault(None)


def break_at(sink: SqlSink, number: int, harm: Callable[[], None]) -> list[int]:
    """Do `harm` when the client waits for its answer `number`, from 0; what is returned is empty then."""
    warehouse = sink._warehouse
    assert isinstance(warehouse, RedshiftWarehouse)
    connection, left = warehouse._connection, [number + 1]
    wait = connection.handle_messages

    def counting(cursor: Cursor) -> None:
        if left:
            left[0] -= 1
            if not left[0]:
                left.clear()
                harm()
        wait(cursor)

    connection.handle_messages = counting  # type: ignore[method-assign]
    return left


@pytest.mark.parametrize(("fault", "error", "said"), [
    (Fault("paused", ""), UnavailableError, "cannot be reached"),
    (Fault("cut", "COPY"), UnavailableError, "cannot be reached"),
    (Fault("cut", "COMMIT"), UnavailableError, "cannot be reached"),
    (Fault("read_only", "CREATE"), UnavailableError, "is read-only"),
    (Fault("disk_full", "COPY"), SinkError, "has a full disk: .*1016"),
    (Fault("disk_full", 'INSERT INTO "shop"'), SinkError, "has a full disk"),
    (Fault("queue_timeout", "COPY"), TableWaitsError, "WLM"),
    (Fault("query_killed", "DELETE"), TableWaitsError, "cancelled on user's request"),
    (Fault("timeout", "INSERT"), TableWaitsError, "ended a statement of Penstock's"),
])  # fmt: skip
def test_bad_states_are_told_and_nothing_moves_until_they_are_over(
    place: Place, sink: SqlSink, healthy: RedshiftServer, fault: Fault, error: type[Exception], said: str
) -> None:
    more = [write_batch(place, FIRST, 1, 1, [("b", 2, "c")])]

    healthy.fault(fault)
    with pytest.raises(error, match=f"(?s){said}"):
        sink.load(TABLE, more, SCHEMAS)
    healthy.fault(None)

    sink.close()
    with closing(place.open()) as again:
        assert (rows_in(again), again.positions(TABLE)) == ([("a", 1)], {(TOPIC, 0): 1})
        assert again.load(TABLE, more, SCHEMAS).rows == 1
        assert rows_in(again) == [("a", 1), ("b", 2)]


@pytest.mark.parametrize("statement", first(
    4,
    "COPY", 'INSERT INTO "shop"', 'DELETE FROM "penstock', "COMMIT",
    "LOCK", "CREATE TEMPORARY", "pg_last_copy_count", 'DELETE FROM "shop"', "DROP TABLE", 'INSERT INTO "penstock',
))  # fmt: skip
def test_wherever_the_cluster_hangs_up_rows_and_state_agree(
    place: Place, sink: SqlSink, healthy: RedshiftServer, statement: str
) -> None:
    more = [write_batch(place, FIRST, 1, 1, [("a", 2, "u"), ("b", 2, "c")])]

    healthy.fault(Fault("cut", statement, times=1))
    with pytest.raises(UnavailableError):
        sink.load(TABLE, more, SCHEMAS)
    healthy.fault(None)

    sink.close()
    with closing(place.open()) as again:
        assert (rows_in(again), again.positions(TABLE)) == ([("a", 1)], {(TOPIC, 0): 1})
        again.load(TABLE, more, SCHEMAS)
        assert (rows_in(again), again.positions(TABLE)) == ([("a", 2), ("b", 2)], {(TOPIC, 0): 3})


@pytest.mark.parametrize(
    "harm",
    [pytest.param(Proxy.cut, id="cut"), pytest.param(Proxy.half_close, id="answers lost")],
)
@pytest.mark.nightly
def test_wherever_the_connection_breaks_rows_and_state_agree(
    place: Place, sink: SqlSink, redshift: RedshiftServer, harm: Callable[[Proxy], None]
) -> None:
    """Each load is broken one answer later than the one before it, until one comes through."""
    # In the order in which loads lock them: the session that broke may still be at work.
    both = f"SELECT qty, next_offset FROM {place.state}.positions CROSS JOIN shop.orders WHERE id = 'a'"
    loaded = []
    with Proxy("redshift", redshift.port) as proxy:
        own = replace(target(place), cluster=replace(target(place).cluster, port=proxy.port))
        for number in itertools.count():
            start = 1 + 2 * number
            more = [write_batch(place, FIRST, 1, start, [("a", start, "u"), (f"k{number:02}", start, "c")])]
            with closing(replace(place, target=own, opened=[]).open()) as broken:
                left = break_at(broken, number, partial(harm, proxy))
                with suppress(UnavailableError):
                    broken.load(TABLE, more, SCHEMAS)
            assert rows_in(sink, both) in ([(start, start + 2)], [(max(start - 2, 1), start)])
            # This waits for the end of the session that broke.
            loaded.append(not sink.load(TABLE, more, SCHEMAS).rows)
            assert sink.positions(TABLE) == {(TOPIC, 0): start + 2}
            assert rows_in(sink) == [("a", start), *((f"k{n:02}", 1 + 2 * n) for n in range(number + 1))]
            if left:
                break

    assert number > _ANSWERS_MIN
    # The COMMIT's answer was lost, and what was committed was not loaded twice.
    assert harm is Proxy.cut or any(loaded[:-1])


@pytest.mark.nightly
def test_a_cluster_that_is_killed_has_all_of_a_load_or_nothing_of_it(
    s3: S3Server, place: Place, tmp_path: Path
) -> None:
    seen = set()
    cluster = replace(target(place).cluster, database="dev")
    for number, seconds in enumerate((0.02, 0.05, 0.1, 0.2, 0.4)):
        key = f"k{number}"
        more = [write_batch(place, FIRST, 1, start, [(key, start, "u")]) for start in range(number * 5, number * 5 + 5)]
        with start_redshift(tmp_path / "redshift", s3=s3) as server:
            own = replace(target(place), cluster=replace(cluster, port=server.port))
            sink = replace(place, target=own, opened=[]).open()
            end = threading.Timer(seconds, server.kill)
            end.start()
            with suppress(UnavailableError):
                sink.load(TABLE, more, SCHEMAS)
            end.join()
            sink.close()
        with start_redshift(tmp_path / "redshift", s3=s3) as server:
            own = replace(target(place), cluster=replace(cluster, port=server.port))
            with closing(replace(place, target=own, opened=[]).open()) as sink:
                reached = sink.positions(TABLE).get((TOPIC, 0), 0)
                seen.add(reached - number * 5)
                sink.load(TABLE, more, SCHEMAS)
                assert rows_in(sink, f"SELECT qty FROM shop.orders WHERE id = '{key}'") == [(number * 5 + 4,)]

    assert seen <= {0, 5}


def test_a_connection_keeps_no_text_of_what_it_has_run(sink: SqlSink) -> None:
    warehouse = sink._warehouse
    assert isinstance(warehouse, RedshiftWarehouse)

    kept = [cache["statement"] for of_style in warehouse._connection._caches.values() for cache in of_style.values()]

    assert kept == [{}]


def test_an_isolation_error_is_tried_again_and_no_more_often_than_it_may(
    place: Place, sink: SqlSink, healthy: RedshiftServer
) -> None:
    healthy.fault(Fault("isolation", 'DELETE FROM "shop"', times=2))
    assert sink.load(TABLE, [write_batch(place, FIRST, 1, 1, [("b", 2, "c")])], SCHEMAS).rows == 1

    healthy.fault(Fault("isolation", 'DELETE FROM "shop"'))
    with pytest.raises(TableWaitsError, match="1023"):
        sink.load(TABLE, [write_batch(place, FIRST, 1, 2, [("c", 3, "c")])], SCHEMAS)
    healthy.fault(None)

    assert sink.load(TABLE, [write_batch(place, FIRST, 1, 2, [("c", 3, "c")])], SCHEMAS).rows == 1
    assert [row[0] for row in rows_in(sink)] == ["a", "b", "c"]


def test_loads_side_by_side_into_a_serializable_database_agree(place: Place, redshift: RedshiftServer) -> None:
    cluster = target(place).cluster
    with closing(log_in(redshift)) as connection:
        run(connection, f"ALTER DATABASE {cluster.database} ISOLATION LEVEL SERIALIZABLE")
    sinks = [place.open("shopdb" if number < 2 else "other") for number in range(3)]
    failures: list[BaseException] = []

    def load(sink: SqlSink, name: str) -> None:
        table = replace(TABLE, name=name)
        try:
            for start in range(5):
                batch = write_batch(place, replace(FIRST, table=table), 1, start, [("a", start, "u")])
                sink.load(table, [batch], {1: replace(FIRST, table=table)})
        except BaseException as error:  # noqa: BLE001 - told by the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=load, args=(sink, f"t{number}")) for number, sink in enumerate(sinks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    assert [place.ask(f"SELECT qty FROM shop.t{number}") for number in range(3)] == [[(4,)]] * 3


def test_a_table_that_somebody_holds_waits_and_says_so(
    place: Place, sink: SqlSink, redshift: RedshiftServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.adapters.redshift.warehouse._LOCK_SECONDS", 1)
    more = [write_batch(place, FIRST, 1, 1, [("b", 2, "c")])]

    with closing(log_in(redshift, autocommit=False, dbname=target(place).cluster.database)) as somebody:
        run(somebody, "LOCK shop.orders")
        with pytest.raises(TableWaitsError, match=r"did not grant a lock of shop\.orders in time"):
            sink.load(TABLE, more, SCHEMAS)

    assert sink.load(TABLE, more, SCHEMAS).rows == 1
