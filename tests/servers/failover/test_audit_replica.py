"""Audits that read a replica in place of its master: what they find, and that its lag is no difference."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import duckdb
import psycopg
import pytest
import yaml
from tests.servers.chain import Chain, make_chain
from tests.servers.failover.pair import Pair, copy_server, run, slave_status, start_pair, wait_for
from tests.servers.failover.test_mysql import follow
from tests.servers.source_log import address, connected

from penstock.adapters.mysql.connection import connect
from penstock.adapters.mysql.replica_wait import await_applied, read_master
from penstock.config.audits import AuditReplicaSpec, AuditSpec
from penstock.core.errors import UnfitServerError
from penstock.embedded.mysql import start_mysql
from penstock.wiring.audit import run_audit
from penstock.wiring.checks import examine_pipeline

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers.source_log import Source

    from penstock.core.audit.findings import TableFindings
    from penstock.dev.postgres import PostgresServer
    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer
    from penstock.embedded.mysql import OracleMysql

ROWS = 300
QUIET_SECONDS = 45.0


@dataclass(frozen=True, slots=True)
class Followed:
    """A pipeline whose source has a replica, and whose target has all of its table `orders`."""

    chain: Chain
    replica: Source

    def audit(
        self, wait_seconds: float = 20.0, port: int | None = None, seconds_max: int | None = None
    ) -> TableFindings:
        """Audit the table from the replica, or from what listens at `port`."""
        replica = AuditReplicaSpec(host=self.replica.host, port=port or self.replica.port)
        bounds = {"wait_seconds": wait_seconds, "seconds_max": seconds_max}
        spec = AuditSpec.model_validate({"source": self.chain.source, "sink": "wh", "replica": replica, **bounds})
        (found,) = run_audit(self.chain.spec, spec, lambda _: None).tables
        return found

    def write(self, first: int) -> None:
        """Add, change and delete rows in the source, and let the target have that."""
        name = self.chain.name
        self.chain.write(
            f"INSERT INTO {name}.orders VALUES ({first}, 'new'), ({first + 1}, 'new')",
            f"UPDATE {name}.orders SET customer = 'changed {first}' WHERE id = 3",
            f"DELETE FROM {name}.orders WHERE id = {first - 1}",
        )
        self.chain.carry()

    def corrupt(self, statement: str) -> None:
        """Change the target behind the pipeline's back; `{t}` is the table."""
        with duckdb.connect(str(self.chain.spec.home / "wh.duckdb")) as connection:
            connection.execute(statement.replace("{t}", f"{self.chain.name}.orders"))

    def here(self, *statements: str) -> None:
        """Run statements in the replica alone; `{t}` is the table."""
        name = f"{self.chain.name}.orders"
        run(self.replica, "SET SESSION sql_log_bin = 0", *(each.replace("{t}", name) for each in statements))

    @contextmanager
    def held_up(self) -> Iterator[None]:
        """Let the replica receive, and apply nothing to the table for the length of a `with` block."""
        with closing(connected(self.replica)) as connection, connection.cursor() as cursor:
            cursor.execute(f"LOCK TABLES {self.chain.name}.orders READ")
            yield


def make_followed(
    home: Path,
    name: str,
    master: Source,
    replica: Source,
    parts: tuple[KafkaBroker, str, int],
    target: PostgresServer | None = None,
) -> Followed:
    """Make a pipeline, into DuckDB unless there is a `target`; the replica follows already."""
    run(master, f"CREATE DATABASE {name}")
    chain = make_chain(home, name, master, parts)
    if target is not None:
        sink = f"kind: postgres, host: {target.host}, port: {target.port}, database: {target.database}"
        login = f"user: {target.user}, password_env: AUDIT_TARGET_PASSWORD"
        text = chain.file.read_text()
        chain.file.write_text(text.replace(f"kind: duckdb, path: {home / name}/wh.duckdb", f"{sink}, {login}"))
    chain.write("CREATE TABLE orders (id INT PRIMARY KEY, customer VARCHAR(40))")
    rows = ", ".join(f"({n}, 'c{n}')" for n in range(1, ROWS + 1))
    chain.write(f"INSERT INTO orders VALUES {rows}")
    chain.start()
    chain.carry()
    return Followed(chain, replica)


@pytest.fixture(scope="module")
def pair(initialised: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A MariaDB and its replica."""
    with start_pair(initialised, tmp_path_factory.mktemp("audited")) as made:
        made.replicate()
        yield made


@pytest.fixture(scope="module")
def followed(
    tmp_path_factory: pytest.TempPathFactory,
    pair: Pair,
    kafka: KafkaBroker,
    schematizer: str,
    tracker_server: MariadbServer,
) -> Followed:
    """A pipeline of that MariaDB. Each test leaves it as it ought to be."""
    name, parts = f"audited{os.environ.get('PYTEST_XDIST_WORKER', '')}", (kafka, schematizer, tracker_server.port)
    return make_followed(tmp_path_factory.mktemp("followed"), name, pair.master, pair.replica, parts)


@pytest.fixture
def mysql_parts(
    kafka: KafkaBroker, schematizer: str, mysql_tracker_server: OracleMysql
) -> tuple[KafkaBroker, str, int]:
    """What `make_chain` works with for a source that is MySQL's."""
    return kafka, schematizer, mysql_tracker_server.port


@pytest.mark.nightly
def test_an_audit_from_a_replica_names_what_is_wrong_in_the_target_and_reads_nothing_of_the_source(
    followed: Followed,
) -> None:
    equal = followed.audit()
    followed.corrupt("UPDATE {t} SET customer = 'someone' WHERE id = 7")
    followed.here("UPDATE {t} SET customer = 'only here' WHERE id = 9")

    wrong = followed.audit()
    followed.corrupt("UPDATE {t} SET customer = 'c7' WHERE id = 7")
    followed.here("UPDATE {t} SET customer = 'c9' WHERE id = 9")

    assert (equal.state, equal.rows) == ("equal", ())
    assert equal.source_rows == equal.target_rows >= ROWS
    assert {row.key: dict(row.columns) for row in wrong.rows} == {
        ("7",): {"customer": ("c7", "someone")},
        ("9",): {"customer": ("only here", "c9")},
    }


@pytest.mark.nightly
def test_rows_that_a_replica_has_not_got_yet_are_no_difference(followed: Followed) -> None:
    with ThreadPoolExecutor(1) as threads, ExitStack() as stack:
        stack.enter_context(followed.held_up())
        followed.write(ROWS + 1)
        late = followed.audit(wait_seconds=0.3)
        began = time.monotonic()
        ended = followed.audit(wait_seconds=60.0, seconds_max=1)
        seconds = time.monotonic() - began
        waiting = threads.submit(followed.audit)
        time.sleep(0.5)
        is_waiting = not waiting.done()
        stack.close()
        caught_up = waiting.result(60)

    assert (late.state, late.rows, late.score) == ("lagging", (), None)
    assert f":{followed.replica.port} has not applied what penstock@127.0.0.1" in late.why
    assert (ended.state, ended.rows, seconds < 30) == ("failed", (), True)
    assert "longer than the whole audit may" in ended.why
    assert is_waiting
    assert (caught_up.state, caught_up.rows) == ("equal", ())


@pytest.mark.nightly
def test_a_replica_that_does_not_replicate_or_lacks_something_fails_the_table_and_makes_no_row_differ(
    followed: Followed, tracker_server: MariadbServer
) -> None:
    run(followed.replica, "STOP SLAVE SQL_THREAD")
    has_all = followed.audit()
    followed.write(ROWS + 11)
    stopped = followed.audit()
    run(followed.replica, "STOP SLAVE", "SET GLOBAL replicate_wild_ignore_table = 'logs.%,mysql.t%'", "START SLAVE")
    wait_for(lambda: slave_status(followed.replica)["Slave_SQL_Running"] == "Yes")
    partial = followed.audit()
    run(followed.replica, "STOP SLAVE", "SET GLOBAL replicate_wild_ignore_table = 'mysql.t%'", "START SLAVE")
    goes_on = followed.audit()
    followed.here("RENAME TABLE {t} TO {t}_away")
    lacking = followed.audit()
    followed.here("RENAME TABLE {t}_away TO {t}")
    no_replica = followed.audit(port=tracker_server.port)

    assert has_all.state == "equal"
    assert (stopped.state, partial.state, lacking.state, no_replica.state) == ("failed",) * 4
    assert "does not replicate: its replication stands; what to do: type on it: SHOW REPLICA STATUS" in stopped.why
    assert "does not replicate all that penstock@127.0.0.1" in partial.why
    assert "Replicate_Wild_Ignore_Table is logs.%,mysql.t%" in partial.why
    assert f"has no table {followed.chain.name}.orders, or does not show it" in lacking.why
    assert "is no replica" in no_replica.why
    assert goes_on.state == "equal"


@pytest.mark.nightly
def test_the_check_waits_for_the_replica_of_an_audit(followed: Followed) -> None:
    chain, said = followed.chain, []
    text = chain.file.read_text()
    for port in (followed.replica.port, chain.server.port):
        replica = {"host": "127.0.0.1", "port": port}
        audits = {"audits": [{"source": chain.source, "sink": "wh", "replica": replica}]}
        chain.file.write_text(text + yaml.safe_dump(audits))
        said += [each for each in examine_pipeline(chain.spec) if each.subject.startswith("audit of")]
    chain.file.write_text(text)

    good, bad = said
    assert (good.level, good.message) == ("ok", "has all that its source has")
    assert (bad.level, bad.message) == ("error", f"penstock@127.0.0.1:{chain.server.port} is no replica")


@pytest.mark.nightly
def test_a_replica_without_gtids_is_waited_for_by_places_in_the_log(
    initialised: Path, tmp_path: Path, fresh_name: str, chain_parts: tuple[KafkaBroker, str, int]
) -> None:
    with start_pair(initialised, tmp_path / "pair") as pair:
        pair.replicate(by_gtid=False)
        followed = make_followed(tmp_path, fresh_name, pair.master, pair.replica, chain_parts)
        run(pair.master, "FLUSH BINARY LOGS")
        followed.chain.carry()
        rotated = followed.audit()
        with followed.held_up():
            followed.write(ROWS + 1)
            late = followed.audit(wait_seconds=0.3)
        caught_up = followed.audit()

    assert (late.state, late.rows) == ("lagging", ())
    assert [(each.state, each.why) for each in (rotated, caught_up)] == [("equal", "")] * 2


@pytest.mark.nightly
@pytest.mark.parametrize("way", ["gtid", "place"])
def test_a_replica_of_mysql_is_waited_for(
    way: str, tmp_path: Path, fresh_name: str, initialised_mysql: Path, mysql_parts: tuple[KafkaBroker, str, int]
) -> None:
    gtids = [] if way == "gtid" else ["--gtid-mode=OFF", "--enforce-gtid-consistency=OFF"]
    for name in ("one", "two"):
        copy_server(initialised_mysql, tmp_path / name)
    with (
        start_mysql(tmp_path / "one", options=gtids) as master,
        start_mysql(tmp_path / "two", options=[*gtids, "--server-id=2"]) as replica,
    ):
        follow(replica, master, "gtid" if way == "gtid" else "heartbeat")
        followed = make_followed(tmp_path, fresh_name, master, replica, mysql_parts)
        equal = followed.audit()
        run(master, "FLUSH BINARY LOGS")
        followed.chain.carry()
        rotated = followed.audit()
        followed.corrupt("DELETE FROM {t} WHERE id = 8")
        wrong = followed.audit()
        followed.corrupt("INSERT INTO {t} VALUES (8, 'c8')")
        with followed.held_up():
            followed.write(ROWS + 1)
            late = followed.audit(wait_seconds=0.3)
        caught_up = followed.audit()
        run(replica, "STOP REPLICA SQL_THREAD")
        followed.write(ROWS + 3)
        stopped = followed.audit()
        itself = followed.audit(port=master.port)

    assert [(each.state, each.why) for each in (equal, rotated, caught_up)] == [("equal", "")] * 3
    assert [(row.key, row.state) for row in wrong.rows] == [(("8",), "missing")]
    assert [(each.state, each.rows) for each in (late, stopped, itself)] == [
        ("lagging", ()),
        ("failed", ()),
        ("failed", ()),
    ]
    assert "does not replicate" in stopped.why
    assert "is no replica" in itself.why


@pytest.mark.nightly
def test_who_may_not_ask_a_replica_is_told_the_grant(pair: Pair) -> None:
    run(pair.master, "CREATE USER few@'%' IDENTIFIED BY 'few'", "GRANT SELECT ON *.* TO few@'%'")
    pair.catch_up()
    with closing(connect(address(pair.master))) as connection:
        master = read_master(connection)

    with closing(connect(replace(address(pair.replica), user="few", password="few"))) as replica:
        with pytest.raises(UnfitServerError) as denied:
            await_applied(replica, master, 20.0)
        run(pair.replica, "SET SESSION sql_log_bin = 0", "GRANT SLAVE MONITOR ON *.* TO few@'%'")
    with closing(connect(replace(address(pair.replica), user="few", password="few"))) as replica:
        await_applied(replica, master, 20.0)

    assert "GRANT SLAVE MONITOR ON *.* TO few" in denied.value.hint


@pytest.mark.nightly
def test_a_replica_of_another_server_is_refused(initialised: Path, tmp_path: Path, followed: Followed) -> None:
    with start_pair(initialised, tmp_path / "other") as other:
        run(other.master, "SET GLOBAL server_id = 5")
        other.replicate()
        wait_for(lambda: slave_status(other.replica).get("Master_Server_Id") == "5")
        refused = followed.audit(port=other.replica.port)

    assert refused.state == "failed"
    assert "replicates from a server with server_id 5, and" in refused.why


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_audits_from_a_replica_that_lags_by_turns_raise_no_false_alarm_under_writes(
    tmp_path: Path, fresh_name: str, pair: Pair, chain_parts: tuple[KafkaBroker, str, int], postgres: PostgresServer
) -> None:
    os.environ["AUDIT_TARGET_PASSWORD"] = postgres.password
    followed = make_followed(tmp_path, fresh_name, pair.master, pair.replica, chain_parts, postgres)
    stop, table = threading.Event(), f"{fresh_name}.orders"

    def write() -> None:
        with followed.chain.cursor() as cursor:
            number = 0
            # Each row every few seconds: the same row is seldom changed between two looks at it.
            while not stop.wait(0.05):
                number += 1
                cursor.execute(f"REPLACE INTO orders VALUES ({number % ROWS + 1}, 'v{number}')")
                cursor.execute(f"DELETE FROM orders WHERE id = {number * 7 % ROWS + 1}")

    def carry() -> None:
        while not stop.is_set():
            followed.chain.carry()

    def hold_up() -> None:
        while not stop.wait(0.7):
            with followed.held_up():
                stop.wait(0.3)

    with ThreadPoolExecutor(3) as threads:
        at_work = [threads.submit(each) for each in (write, carry, hold_up)]
        try:
            began, found = time.monotonic(), []
            while time.monotonic() - began < QUIET_SECONDS:
                found.append(followed.audit(60))
            with psycopg.connect(**login_of(postgres), autocommit=True) as connection:
                connection.execute(f"INSERT INTO {table} VALUES (100001, 'extra')".encode())
            found.append(followed.audit(60))
        finally:
            stop.set()
        for each in at_work:
            each.result(60)

    *quiet, wrong = found
    assert {(each.state, each.rows) for each in quiet} <= {("equal", ()), ("lagging", ())}
    assert "equal" in {each.state for each in quiet}, [each.why for each in quiet]
    assert [(row.key, row.state) for row in wrong.rows] == [(("100001",), "extra")]


def login_of(server: PostgresServer) -> dict[str, Any]:
    """How psycopg logs in to it."""
    names = ("host", "port", "user", "password")
    return {"dbname": server.database, "connect_timeout": 10, **{name: getattr(server, name) for name in names}}
