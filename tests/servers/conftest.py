"""Real servers, each started once per run, on free ports, with data in a directory that is deleted at the end.

Brokers, registries and targets are shared by all workers. Sources and trackers
are not: tests change their settings, and read all of their log.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from tests.servers.azurite import AzuriteServer, start_azurite
from tests.servers.chain import make_chain
from tests.servers.clouds import CLOUDS, CloudPlace
from tests.servers.fresh_databases import fresh_schema, state_database
from tests.servers.kinds import DAILY_TARGETS, STATE_DATABASES, TARGETS, first
from tests.servers.postgres_chain import PostgresChain, making_chains
from tests.servers.redshift_case import log_in
from tests.servers.shared_servers import DOOR, RunServers, ServersElsewhere
from tests.servers.sink_case import DuckdbTarget, Place, PostgresTarget, RedshiftTarget, snowflake_target
from tests.servers.snowflake_case import Landed, lead_to_snowflake

from penstock.adapters.objects.store import ObjectsSpec, open_objects
from penstock.adapters.postgres.connection import PostgresServer as PostgresLogin
from penstock.adapters.redshift.connection import RedshiftCluster
from penstock.core.errors import UsageError
from penstock.core.file_formats import FileFormat
from penstock.core.warehouse.redshift_copy import CopyRights
from penstock.dev.postgres import PostgresServer
from penstock.dev.redshift import RedshiftServer, start_redshift
from penstock.dev.redshift.cluster import ROLE
from penstock.dev.s3 import S3Server, start_s3
from penstock.dev.snowflake import SnowflakeServer, start_snowflake
from penstock.dev.zookeeper import ZookeeperServer
from penstock.embedded.class_archive import spark_archive
from penstock.embedded.debian import DebianPackage, ensure_prefix
from penstock.embedded.jars import JarSet, ensure_jars
from penstock.embedded.join_kernel import ensure_join_kernel
from penstock.embedded.kafka import KafkaBroker, start_kafka
from penstock.embedded.mariadb import NEWER, PASSWORD, Flavour, MariadbServer, start_mariadb
from penstock.embedded.mysql import PACKAGE, OracleMysql, start_mysql
from penstock.embedded.ports import choose_port
from penstock.embedded.schematizer import SchematizerServer
from penstock.embedded.unpacked_spark import unpacked_spark_home
from penstock.faults.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession
    from tests.servers.capture_case import CaseServers
    from tests.servers.delta_case import DeltaPlace


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let a lake, which is one target, meet once what a test says of each kind of target."""
    others = {
        item
        for item in items
        if {"place", "lake_place"} <= set(getattr(item, "fixturenames", ()))
        and isinstance(item, pytest.Function)
        and getattr(item, "callspec", None) is not None
        and item.callspec.params.get("place", TARGETS[0]) != TARGETS[0]
    }
    config.hook.pytest_deselected(items=list(others))
    items[:] = [item for item in items if item not in others]


_numbers = itertools.count(1)
_NO_SYNC: Final = ("--sync-binlog=0", "--innodb-flush-log-at-trx-commit=2")
"""What a killed server wrote stays; only a machine that ends abruptly would lose it."""


@pytest.fixture(scope="session")
def servers_home() -> Iterator[Path]:
    """The directory under which all servers that this process starts keep their data."""
    with tempfile.TemporaryDirectory(prefix="penstock-servers-") as home:
        yield Path(home)


@pytest.fixture(scope="session")
def run_servers(request: pytest.FixtureRequest, servers_home: Path) -> Iterator[RunServers | ServersElsewhere]:
    """The servers that all workers share."""
    worker: dict[str, str] | None = getattr(request.config, "workerinput", None)
    if worker is not None:
        yield ServersElsewhere(worker[DOOR])
        return
    with contextlib.closing(RunServers(servers_home)) as servers:
        yield servers


@pytest.fixture(scope="session")
def mariadb(servers_home: Path) -> Iterator[MariadbServer]:
    """A source: binlog on, ROW, FULL image and metadata, GTID; `user` has all rights."""
    with start_mariadb(servers_home / "mariadb", options=_NO_SYNC) as server:
        yield server


@pytest.fixture(scope="session")
def mysql_package() -> DebianPackage:
    """Oracle's MySQL of Debian unstable, unpacked on this machine; tests skip where it cannot be had."""
    return _had(PACKAGE)


@pytest.fixture(scope="session")
def newer_mariadb_package() -> DebianPackage:
    """MariaDB 11.8 of Debian 13, unpacked on this machine; tests skip where it cannot be had."""
    return _had(NEWER)


@pytest.fixture(scope="session")
def mysql_server(servers_home: Path, mysql_package: DebianPackage) -> Iterator[OracleMysql]:
    """A source as `mariadb` is one, but Oracle's MySQL; tests skip where it cannot be had."""
    del mysql_package
    with start_mysql(servers_home / "mysql", options=_NO_SYNC) as server:
        yield server


@pytest.fixture(scope="session")
def newer_mariadb(servers_home: Path, newer_mariadb_package: DebianPackage) -> Iterator[MariadbServer]:
    """A source as `mariadb` is one, of version 11.8; tests skip where it cannot be had."""
    with start_mariadb(servers_home / "newer_mariadb", package=newer_mariadb_package, options=_NO_SYNC) as server:
        yield server


@pytest.fixture(scope="session")
def tracker_server(servers_home: Path) -> Iterator[MariadbServer]:
    """A server without binlog, for a schema tracker."""
    with start_mariadb(tracker_home(servers_home / "tracker"), Flavour.TRACKER) as server:
        yield server


@pytest.fixture(scope="session")
def mysql_tracker_server(servers_home: Path, mysql_package: DebianPackage) -> Iterator[OracleMysql]:
    """A server for the schema tracker of a MySQL source; tests skip where it cannot be had."""
    del mysql_package
    with start_mysql(tracker_home(servers_home / "mysql_tracker"), Flavour.TRACKER) as server:
        yield server


@pytest.fixture(scope="session")
def postgres(run_servers: RunServers | ServersElsewhere) -> PostgresServer:
    """A PostgreSQL; `user` has all rights."""
    server = run_servers.get("postgres")
    assert isinstance(server, PostgresServer)
    return server


@pytest.fixture(scope="session")
def s3(run_servers: RunServers | ServersElsewhere) -> S3Server:
    """An S3 server with a bucket."""
    server = run_servers.get("s3")
    assert isinstance(server, S3Server)
    return server


@pytest.fixture(scope="session")
def gcs(servers_home: Path) -> Iterator[S3Server]:
    """A server of Google's XML API, which checks no tokens, with an empty bucket."""
    with start_s3(servers_home / "gcs", checks_keys=False) as server:
        yield server


@pytest.fixture(scope="session")
def azure(servers_home: Path) -> Iterator[AzuriteServer]:
    """An Azure server with an empty container; tests skip where Azurite is not installed."""
    with start_azurite(servers_home / "azure") as server:
        yield server


@pytest.fixture(params=first(1, *CLOUDS))
def cloud(request: pytest.FixtureRequest, fresh_name: str, monkeypatch: pytest.MonkeyPatch) -> CloudPlace:
    """An empty folder on each kind of store, whose keys are in the environment."""
    kind = CLOUDS[request.param]
    for name, value in kind.keys.items():
        monkeypatch.setenv(name, value)
    return CloudPlace(kind, request.getfixturevalue(request.param).port, fresh_name)


@pytest.fixture(scope="session")
def redshift(servers_home: Path, s3: S3Server) -> Iterator[RedshiftServer]:
    """A Redshift to test against, which finds files on `s3`; `user` has all rights."""
    with start_redshift(servers_home / "redshift", s3=s3) as server:
        yield server


@pytest.fixture(scope="session")
def snowflake(servers_home: Path) -> Iterator[SnowflakeServer]:
    """A Snowflake to test against."""
    with start_snowflake(servers_home / "snowflake") as server:
        yield server


@pytest.fixture(params=first(2, *STATE_DATABASES))
def state_url(request: pytest.FixtureRequest, fresh_name: str, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty state database of each kind; skips MySQL where it cannot be had."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/state.db"
        return
    server = request.getfixturevalue(request.param)
    with state_database(server, fresh_name) as url:
        yield url


@pytest.fixture
def redshift_place(redshift: RedshiftServer, s3: S3Server, fresh_name: str) -> Iterator[Place]:
    """An empty Redshift, and a folder on S3 for its files, which are CSV."""
    url = f"s3://{s3.bucket}/{fresh_name}"
    objects = open_objects(ObjectsSpec(url, s3.endpoint, s3.region, s3.access_key_id, s3.secret_access_key))
    cluster = RedshiftCluster(redshift.host, redshift.port, fresh_name, redshift.user, redshift.password, "disable")
    target = RedshiftTarget(cluster, objects, url, CopyRights(ROLE))
    with contextlib.closing(log_in(redshift)) as connection:
        connection.execute(f"CREATE DATABASE {fresh_name}".encode())
        with contextlib.closing(Place(target, objects, FileFormat("csv", "gzip"))) as place:
            yield place
        connection.execute(f"DROP DATABASE {fresh_name}".encode())


@pytest.fixture
def snowflake_place(snowflake: SnowflakeServer, fresh_name: str, tmp_path: Path) -> Iterator[Place]:
    """An empty database of a Snowflake, and a place for its files."""
    objects = open_objects(ObjectsSpec((tmp_path / "objects").as_uri()))
    with contextlib.closing(Place(snowflake_target(snowflake, fresh_name), objects)) as place:
        yield place


@pytest.fixture
def landed(
    snowflake: SnowflakeServer,
    tmp_path: Path,
    mariadb: MariadbServer,
    fresh_database: str,
    chain_parts: tuple[KafkaBroker, str, int],
) -> Iterator[Landed]:
    """A pipeline from MariaDB into a landing zone of a Snowflake."""
    with contextlib.closing(
        lead_to_snowflake(make_chain(tmp_path, fresh_database, mariadb, chain_parts), snowflake)
    ) as zone:
        yield zone


@pytest.fixture(params=first(1, *DAILY_TARGETS))
def place(request: pytest.FixtureRequest, fresh_name: str, tmp_path: Path) -> Iterator[Place]:
    """An empty target of each kind, and a place for its files."""
    if request.param in {"redshift", "snowflake"}:
        yield request.getfixturevalue(f"{request.param}_place")
        return
    objects = open_objects(ObjectsSpec((tmp_path / "objects").as_uri()))
    if request.param == "duckdb":
        with contextlib.closing(Place(DuckdbTarget(tmp_path / "shop.duckdb"), objects)) as place:
            yield place
        return
    server = request.getfixturevalue("postgres")
    login = PostgresLogin(server.host, server.port, fresh_name, server.user, server.password, {})
    with (
        state_database(server, fresh_name),
        contextlib.closing(Place(PostgresTarget(login), objects)) as place,
    ):
        yield place


@pytest.fixture
def lake_place(spark: SparkSession, tmp_path: Path) -> Iterator[DeltaPlace]:
    """An empty folder of Delta tables, and a place for its files."""
    from tests.servers.delta_case import DeltaPlace, DeltaTarget  # noqa: PLC0415 - it imports PySpark

    objects = open_objects(ObjectsSpec((tmp_path / "objects").as_uri()))
    with contextlib.closing(DeltaPlace(DeltaTarget(spark, (tmp_path / "lake").as_uri()), objects)) as place:
        yield place


def tracker_home(home: Path) -> Path:
    """A home for a tracker with the password that sources have: files of pipelines name one variable for both."""
    home.mkdir()
    (home / "password").write_text(PASSWORD)
    return home


@pytest.fixture(params=["mariadb", "mysql_server"])
def any_source(request: pytest.FixtureRequest) -> MariadbServer | OracleMysql:
    """A source of either kind: the test runs on both, and skips where the second cannot be had."""
    server: MariadbServer | OracleMysql = request.getfixturevalue(request.param)
    return server


@pytest.fixture(scope="session")
def kafka(run_servers: RunServers | ServersElsewhere) -> KafkaBroker:
    """A broker of one node."""
    broker = run_servers.get("kafka")
    assert isinstance(broker, KafkaBroker)
    return broker


@pytest.fixture(scope="session")
def schematizer(run_servers: RunServers | ServersElsewhere) -> str:
    """The URL of a running Schematizer."""
    server = run_servers.get("schematizer")
    assert isinstance(server, SchematizerServer)
    return server.url


@pytest.fixture
def case_servers(
    tmp_path: Path, mariadb: MariadbServer, tracker_server: MariadbServer, schematizer: str
) -> CaseServers:
    """What captures without Spark are made with."""
    from tests.servers.capture_case import CaseServers  # noqa: PLC0415 - it imports what a capture works with

    return CaseServers(tmp_path, mariadb, tracker_server, schematizer)


@pytest.fixture
def chain_parts(kafka: KafkaBroker, schematizer: str, tracker_server: MariadbServer) -> tuple[KafkaBroker, str, int]:
    """What `make_chain` works with for a MariaDB source."""
    return kafka, schematizer, tracker_server.port


@pytest.fixture(scope="session")
def zookeeper(run_servers: RunServers | ServersElsewhere) -> ZookeeperServer:
    """A ZooKeeper, which keeps sessions of 1 second and more."""
    server = run_servers.get("zookeeper")
    assert isinstance(server, ZookeeperServer)
    return server


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one Spark session of this process, local, with the Kafka connector, Delta and the kernel of joins."""
    # Importing PySpark takes a second, which only tests that use it should wait for.
    from penstock.spark.delta.session import delta_settings  # noqa: PLC0415
    from penstock.spark.session import SessionSpec, open_session  # noqa: PLC0415

    jars = (*ensure_jars(JarSet.SPARK_KAFKA), *ensure_jars(JarSet.SPARK_DELTA), ensure_join_kernel())
    options, home = spark_archive().options(), unpacked_spark_home()
    # To make and compile code for each plan takes longer than to run it on a few rows; pipelines of tests that start
    # Spark by themselves have it.
    conf = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    session = open_session(SessionSpec("penstock-tests", "local[*]", delta_settings(conf), jars, options, home=home))
    yield session
    session.stop()


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Proxy, KafkaBroker]]:
    """A broker that tells clients to come by way of a proxy."""
    home = tmp_path_factory.mktemp("proxied")
    port = choose_port(home / "port")
    with Proxy("kafka", port) as proxy, start_kafka(home, port=port, advertised_port=proxy.port) as broker:
        yield proxy, broker


@pytest.fixture
def fresh_name() -> str:
    """A name that no other test of this run uses, fit for databases, topics and pipelines."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    return f"fresh_{worker}{'_' if worker else ''}{next(_numbers)}"


@pytest.fixture
def fresh_database(mariadb: MariadbServer, fresh_name: str) -> Iterator[str]:
    """The name of an empty database on `mariadb`, dropped after the test."""
    with fresh_schema(mariadb, fresh_name) as name:
        yield name


@pytest.fixture
def database(any_source: MariadbServer | OracleMysql, fresh_name: str) -> Iterator[str]:
    """The name of an empty database on `any_source`, dropped after the test."""
    with fresh_schema(any_source, fresh_name) as name:
        yield name


def _had(package: DebianPackage) -> DebianPackage:
    """Fetch a package unless it is there; skip the test if this machine cannot."""
    try:
        ensure_prefix(package)
    except UsageError as error:
        pytest.skip(f"{error.message} (this test is optional: it needs apt and a Debian mirror)")
    return package


@pytest.fixture
def make_postgres(
    postgres: PostgresServer, kafka: KafkaBroker, schematizer: str, fresh_name: str, tmp_path: Path
) -> Iterator[Callable[..., PostgresChain]]:
    """Make a pipeline whose source is a database of its own on `postgres`."""
    with making_chains(tmp_path, fresh_name, postgres, (kafka, schematizer)) as make:
        yield make
