"""Two sources in one pipeline, each with a tracker of its own, into two targets; without Spark."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
import yaml
from confluent_kafka import Producer
from tests.servers.conftest import tracker_home
from tests.servers.fresh_databases import state_database
from tests.servers.sessions import log_in

from penstock.adapters.kafka import ends
from penstock.adapters.mysql.connection import MysqlServer, connect
from penstock.adapters.mysql.history import head
from penstock.adapters.mysql.tracker import MysqlTracker
from penstock.cli.status_json import describe
from penstock.config.crash_points import VARIABLE
from penstock.config.load import load
from penstock.core.errors import UnavailableError
from penstock.embedded.mariadb import PASSWORD, Flavour, start_mariadb
from penstock.faults.round import carry_apart
from penstock.jobs.in_process import carry
from penstock.links.capture.spec import CaptureSpec
from penstock.ports.queries import ReadLimits
from penstock.wiring.capture import open_live
from penstock.wiring.epochs import next_epoch
from penstock.wiring.health import find_problems
from penstock.wiring.open import OBJECTS_LINK, schema_changes_topic
from penstock.wiring.pipeline_status import read_status
from penstock.wiring.sink_kinds.table import sql_kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import pymysql

    from penstock.core.positions import BinlogPosition
    from penstock.dev.postgres import PostgresServer
    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer

os.environ["CASE_PASSWORD"] = PASSWORD
_NOBODY_LISTENS = 1
_NIGHTLY = pytest.mark.nightly


@dataclass(frozen=True, slots=True)
class Shop:
    """One source: a database of the same name and table as the other's."""

    server: MariadbServer
    database: str

    def write(self, *statements: str) -> None:
        with closing(self._connect()) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def orders(self) -> list[tuple[object, ...]]:
        with closing(self._connect()) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT id, item FROM orders ORDER BY id")
            return list(cursor.fetchall())

    def head(self) -> BinlogPosition:
        """Where its log ends."""
        server = MysqlServer(self.server.host, self.server.port, self.server.user, self.server.password)
        with closing(connect(server)) as connection:
            return head(connection)

    def _connect(self) -> pymysql.Connection:
        server = self.server
        return log_in(server, self.database)


@dataclass(frozen=True, slots=True)
class Shops:
    """The pipeline of both, and its targets."""

    file: Path
    east: Shop
    west: Shop

    def rows(self, sink: str, schema: str, name: str = "orders") -> list[tuple[object, ...]]:
        spec = load(self.file)
        table = sql_kind(spec, spec.sink(sink)).query(f"SELECT id, item FROM {schema}.{name} ORDER BY id", ReadLimits())
        return [tuple(row.values()) for row in table.rows.to_pylist()]

    def crash(self, point: str, link: str) -> None:
        log = self.file.with_name("round.log")
        assert carry_apart(self.file, link, {VARIABLE: point}, log) == -signal.SIGKILL, log.read_text()

    def write_behind_an_open_announcement(self, *statements: str) -> Producer:
        """Have the running capture of the second source publish `statements` behind what another announces; that."""
        spec = load(self.file)
        with closing(open_live(CaptureSpec(spec, spec.sources[1].name, next_epoch(spec)))) as live:
            servers = spec.kafka.bootstrap_servers
            other = Producer({"bootstrap.servers": servers, "transactional.id": spec.pipeline, "linger.ms": 0})
            other.init_transactions(30)
            other.begin_transaction()
            other.produce(schema_changes_topic(spec), b"it is taken back")
            assert other.flush(30) == 0
            self.west.write(*statements)
            live.run(60.0, self.west.head())
        return other

    def with_east_away(self) -> Path:
        """The same pipeline, whose first source nobody answers for."""
        config = yaml.safe_load(self.file.read_text())
        config["sources"][0]["port"] = _NOBODY_LISTENS
        file = self.file.with_name("away.yaml")
        file.write_text(yaml.safe_dump(config))
        return file

    def assert_carried(self) -> None:
        """Each target has what each source has, and not of the other."""
        name = self.east.database
        assert self.rows("warehouse", name) == self.east.orders()
        assert self.rows("reports", name) == self.east.orders()
        assert self.rows("warehouse", f"west_{name}") == self.west.orders()


@pytest.fixture(scope="module")
def second_servers(servers_home: Path) -> Iterator[tuple[MariadbServer, MariadbServer]]:
    """Another source, and its tracker."""
    with ExitStack() as started:
        source = started.enter_context(start_mariadb(servers_home / "second_mariadb"))
        home = tracker_home(servers_home / "second_tracker")
        yield source, started.enter_context(start_mariadb(home, Flavour.TRACKER))


@pytest.fixture
def pairs(
    mariadb: MariadbServer, tracker_server: MariadbServer, second_servers: tuple[MariadbServer, MariadbServer]
) -> dict[str, tuple[MariadbServer, MariadbServer]]:
    """Each source with its tracker."""
    return {"east": (mariadb, tracker_server), "west": second_servers}


@pytest.fixture
def shops(
    tmp_path: Path,
    fresh_name: str,
    pairs: dict[str, tuple[MariadbServer, MariadbServer]],
    postgres: PostgresServer,
    chain_parts: tuple[KafkaBroker, str, int],
) -> Iterator[Shops]:
    kafka, schematizer, _ = chain_parts
    sources = []
    for name, (server, tracker) in pairs.items():
        address = MysqlServer(tracker.host, tracker.port, tracker.user, tracker.password)
        MysqlTracker(address).restore('{"schemas": []}')
        login = {"host": server.host, "user": server.user, "password_env": "CASE_PASSWORD"}
        source = {"name": f"{name}_{fresh_name}", "kind": "mysql", **login, "port": server.port, "start": "snapshot"}
        sources.append({**source, "tables": [f"{fresh_name}.*"], "tracker": {**login, "port": tracker.port}})
        create = f"CREATE DATABASE {fresh_name}", f"CREATE TABLE {fresh_name}.orders (id INT PRIMARY KEY, item TEXT)"
        Shop(server, "mysql").write(*create)
    east, west = (Shop(server, fresh_name) for server, _ in pairs.values())
    place = {"host": postgres.host, "port": postgres.port, "user": postgres.user, "password_env": "REPORTS_PASSWORD"}
    os.environ["REPORTS_PASSWORD"] = postgres.password
    config = {
        "pipeline": fresh_name,
        "home": str(tmp_path / "home"),
        "kafka": {"bootstrap_servers": kafka.bootstrap_servers},
        "schematizer": {"url": schematizer},
        "sources": sources,
        "sinks": [
            {"name": "warehouse", "kind": "duckdb", "path": str(tmp_path / "warehouse.duckdb")},
            {"name": "reports", "kind": "postgres", "database": fresh_name, **place},
        ],
        "links": [
            {"from": f"east_{fresh_name}", "to": "warehouse"},
            {"from": f"east_{fresh_name}", "to": "reports"},
            {"from": f"west_{fresh_name}", "to": "warehouse", "schema": f"west_{fresh_name}"},
        ],
    }
    file = tmp_path / "pipeline.yaml"
    file.write_text(yaml.safe_dump(config))
    with state_database(postgres, fresh_name):
        yield Shops(file, east, west)
    for shop in (east, west):
        shop.write(f"DROP DATABASE {fresh_name}")


@pytest.mark.nightly
def test_equal_tables_of_two_sources_arrive_each_in_its_own_place_with_kills_in_between(shops: Shops) -> None:
    east, west = (source.name for source in load(shops.file).sources)
    shops.east.write("INSERT INTO orders VALUES (1, 'east tea'), (2, 'east cup')")
    shops.west.write("INSERT INTO orders VALUES (1, 'west tea')")
    carry(load(shops.file))
    shops.assert_carried()

    shops.east.write("UPDATE orders SET item = 'east pot' WHERE id = 2")
    shops.west.write("ALTER TABLE orders ADD COLUMN price INT", "INSERT INTO orders VALUES (3, 'west cup', 7)")
    shops.crash("statement.applied", west)
    shops.crash("publish.sent", east)
    carry(load(shops.file), west)
    carry(load(shops.file), east)
    shops.crash("objects.file_written", "objects")
    carry(load(shops.file), "objects")
    shops.crash("load.positions_set", f"{west}-to-warehouse")
    shops.crash("load.committed", f"{east}-to-warehouse")
    carry(load(shops.file))

    shops.assert_carried()


def test_a_source_that_is_away_holds_up_neither_the_other_nor_what_it_brought_in_before(shops: Shops) -> None:
    east, west = (source.name for source in load(shops.file).sources)
    shops.east.write("INSERT INTO orders VALUES (1, 'east tea')")
    carry(load(shops.file))
    before = shops.east.orders()
    shops.east.write("INSERT INTO orders VALUES (2, 'east cup')")
    shops.west.write("INSERT INTO orders VALUES (1, 'west tea')")
    away = load(shops.with_east_away())

    with pytest.raises(UnavailableError):
        carry(away)

    assert shops.rows("warehouse", f"west_{shops.west.database}") == shops.west.orders()
    assert shops.rows("reports", shops.east.database) == before
    status = read_status(away, ask_sources=True)
    told = describe(away.pipeline, status, find_problems(status, "shop.yaml"))
    assert {each.source: bool(each.unanswered) for each in status.sources} == {east: True, west: False}
    assert told["healthy"] is False
    carry(load(shops.file))
    shops.assert_carried()


@pytest.mark.parametrize(
    "statements",
    [
        ["TRUNCATE orders"],
        pytest.param(["DROP TABLE orders", "CREATE TABLE orders (id INT PRIMARY KEY, item TEXT)"], marks=_NIGHTLY),
        pytest.param(["RENAME TABLE orders TO o", "CREATE TABLE orders LIKE o", "DROP TABLE o"], marks=_NIGHTLY),
    ],
    ids=["truncate", "create", "rename"],
)
def test_what_a_source_tells_behind_an_open_announcement_of_another_comes_before_its_rows(
    shops: Shops, monkeypatch: pytest.MonkeyPatch, statements: Sequence[str]
) -> None:
    shops.west.write("INSERT INTO orders VALUES (1, 'west tea')")
    carry(load(shops.file))
    other = shops.write_behind_an_open_announcement(*statements, "INSERT INTO orders VALUES (2, 'west cup')")
    monkeypatch.setattr(ends, "UNDECIDED_SECONDS", 1.0)
    with pytest.raises(UnavailableError, match=r"has not finished the transactions in penstock.*schemas"):
        carry(load(shops.file), OBJECTS_LINK)

    other.abort_transaction(30)
    monkeypatch.undo()
    carry(load(shops.file))

    shops.assert_carried()
    assert shops.west.orders() == [(2, "west cup")]


@pytest.mark.nightly
def test_a_capture_that_is_opened_behind_an_open_announcement_of_another_waits_for_its_own(
    shops: Shops, monkeypatch: pytest.MonkeyPatch
) -> None:
    west = load(shops.file).sources[1].name
    carry(load(shops.file))
    alter = "ALTER TABLE orders ADD COLUMN price INT"
    other = shops.write_behind_an_open_announcement(alter, "INSERT INTO orders VALUES (1, 'west tea', 7)")
    shops.west.write("INSERT INTO orders VALUES (2, 'west cup', 8)")
    monkeypatch.setattr(ends, "UNDECIDED_SECONDS", 1.0)
    with pytest.raises(UnavailableError, match=r"has not finished the transactions in penstock.*schemas"):
        carry(load(shops.file), west)

    other.abort_transaction(30)
    monkeypatch.undo()
    carry(load(shops.file))

    shops.assert_carried()


@pytest.mark.nightly
def test_a_table_that_gets_another_name_keeps_its_rows_in_the_schema_of_its_link(shops: Shops) -> None:
    shops.east.write("INSERT INTO orders VALUES (1, 'east tea')")
    shops.west.write("INSERT INTO orders VALUES (1, 'west tea')")
    carry(load(shops.file))
    sold = shops.west.orders()

    shops.west.write("RENAME TABLE orders TO sold", "CREATE TABLE orders (id INT PRIMARY KEY, item TEXT)")
    shops.west.write("INSERT INTO orders VALUES (5, 'west pot')")
    carry(load(shops.file))

    shops.assert_carried()
    assert shops.rows("warehouse", f"west_{shops.west.database}", "sold") == sold
