"""The Schematizer as processes of their own, and our client of it."""

from __future__ import annotations

import contextlib
import pickle
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import httpx
import pytest
from tests.servers.commands import run_command, start_command
from tests.servers.forked import ended

from penstock.adapters.registry.client import HttpRegistry
from penstock.core.avro.schemas import key_schema, value_schema
from penstock.core.errors import PenstockError, TableStoppedError, UnavailableError, UsageError
from penstock.core.tables import Column, IntegerType, TableId, TableSchema, TextType, UnsupportedType

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.process import BaseProcess
    from pathlib import Path

    from penstock.embedded.mariadb import MariadbServer

ORDERS = TableSchema(
    TableId("shop", "orders"),
    (
        Column("id", IntegerType(64, unsigned=False), nullable=False, declaration="bigint"),
        Column("note", TextType(64, "utf8mb4"), nullable=True, declaration="varchar(64)"),
    ),
    ("id",),
)
CALLERS = 200


@contextlib.contextmanager
def service(home: Path, database_url: str, name: str = "one") -> Iterator[tuple[BaseProcess, str]]:
    """A running service and its URL; it is ended with SIGTERM."""
    port_file, log = home / f"{name}.port", home / f"{name}.log"
    options = ["--port", "0", "--port-file", str(port_file), "--url", database_url]
    process = start_command(log, "schematizer", "serve", *options)
    try:
        deadline = time.monotonic() + 60
        while not port_file.exists():
            assert process.is_alive(), log.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield process, f"http://127.0.0.1:{port_file.read_text().strip()}"
    finally:
        process.terminate()
        ended(process, 30)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("schematizer")


@pytest.fixture(scope="module")
def url(home: Path) -> Iterator[str]:
    with service(home, f"sqlite:///{home}/schematizer.db") as (_, address):
        yield address


def register_first_times(database_url: str, home: Path) -> list[httpx.Response]:
    """200 callers register one table for the first time, at three services that have just made their database."""
    body = {"namespace": "shopdb", "key_schema": key_schema(ORDERS), "value_schema": value_schema(ORDERS)}
    with contextlib.ExitStack() as stack:
        urls = [stack.enter_context(service(home, database_url, name))[1] for name in ("first", "second", "third")]
        clients = [
            stack.enter_context(httpx.Client(base_url=url, timeout=60, limits=httpx.Limits(max_connections=CALLERS)))
            for url in urls
        ]
        with ThreadPoolExecutor(CALLERS) as pool:
            calls = [pool.submit(clients[n % 3].post, "/v1/tables", json=body) for n in range(CALLERS)]
        answers = [call.result() for call in calls]
        topics = clients[0].get("/v1/topics").json()["items"]
        subjects = clients[1].get("/subjects").json()
    assert [topic["name"] for topic in topics] == ["shopdb.shop.orders"]
    assert subjects == ["shopdb.shop.orders-key", "shopdb.shop.orders-value"]
    return answers


@pytest.mark.nightly
def test_200_concurrent_first_registrations_give_one_topic_and_one_schema(tmp_path: Path) -> None:
    answers = register_first_times(f"sqlite:///{tmp_path}/schematizer.db", tmp_path)

    assert {answer.status_code for answer in answers} == {200}
    assert {answer.text for answer in answers} == {answers[0].text}


@pytest.mark.nightly
def test_so_they_do_on_mariadb(mariadb: MariadbServer, fresh_database: str, tmp_path: Path) -> None:
    url = f"mariadb://{mariadb.user}:{mariadb.password}@{mariadb.host}:{mariadb.port}/{fresh_database}"

    answers = register_first_times(url, tmp_path)

    assert {answer.status_code for answer in answers} == {200}
    assert {answer.text for answer in answers} == {answers[0].text}


@pytest.mark.nightly
def test_services_that_start_at_once_on_a_new_database_all_come_up(tmp_path: Path) -> None:
    options = ["--port", "0", "--url", f"sqlite:///{tmp_path}/schematizer.db"]
    logs = [tmp_path / f"{number}.log" for number in range(3)]
    processes = [start_command(log, "schematizer", "serve", *options) for log in logs]

    try:
        for log, process in zip(logs, processes, strict=True):
            deadline = time.monotonic() + 60
            while "schematizer listens on http://127.0.0.1:" not in (log.read_text() if log.exists() else ""):
                assert process.is_alive(), log.read_text()
                assert time.monotonic() < deadline
                time.sleep(0.02)
    finally:
        for process in processes:
            process.terminate()
            ended(process, 30)


@pytest.mark.nightly
def test_the_service_ends_soon_after_sigterm_with_a_connection_open(tmp_path: Path) -> None:
    with (
        service(tmp_path, f"sqlite:///{tmp_path}/schematizer.db") as (process, url),
        httpx.Client(base_url=url, timeout=10) as client,
    ):
        client.get("/subjects")
        began = time.monotonic()

        process.terminate()
        ended(process, 30)

        assert time.monotonic() - began < 5


@pytest.mark.nightly
def test_an_answer_does_not_wait_for_the_callers_acknowledgement(url: str) -> None:
    def seconds(client: httpx.Client) -> float:
        began = time.monotonic()
        client.get("/mode").raise_for_status()
        return time.monotonic() - began

    with httpx.Client(base_url=url, timeout=10) as client:
        fastest = min(seconds(client) for _ in range(20))

    assert fastest < 0.030


def test_what_was_answered_survives_kill_9(tmp_path: Path) -> None:
    database_url = f"sqlite:///{tmp_path}/schematizer.db"
    with service(tmp_path, database_url) as (process, url):
        before = HttpRegistry(url).register("shopdb", ORDERS)
        process.kill()

    with service(tmp_path, database_url, "again") as (_, url):
        again = HttpRegistry(url)

        assert again.value_schema(before.value_schema_id) == value_schema(ORDERS)
        assert again.register("shopdb", ORDERS) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--url", "nonsense"], "not the URL of a database"),
        pytest.param(["--url", "oracle://a/b"], "not supported", marks=pytest.mark.nightly),
        (["--workers", "2", "--url", "sqlite:////proc/none.db"], "cannot be used"),
    ],
)
def test_a_service_that_cannot_start_says_why(arguments: list[str], message: str) -> None:
    said = run_command("schematizer", "serve", "--port", "0", *arguments)

    assert said.returncode in {1, 2}
    assert message in said.stdout + said.stderr
    assert "Traceback" not in said.stderr


@pytest.mark.nightly
def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        said = run_command("schematizer", "serve", "--port", port, "--url", f"sqlite:///{tmp_path}/never.db")

    assert said.returncode == 2
    assert f"cannot listen on 127.0.0.1:{port}" in said.stderr


def test_show_prints_topics_and_one_topics_schemas(url: str) -> None:
    HttpRegistry(url).register("shown", ORDERS)

    topics = run_command("schematizer", "show", "--url", url).stdout
    topic = run_command("schematizer", "show", "--url", url, "shown.shop.orders").stdout

    assert "shown.shop.orders" in topics
    assert "nobody yet" in topics
    assert "value version 1" in topic
    assert '"penstock.key"' in topic


def test_show_says_so_where_nobody_answers() -> None:
    said = run_command("schematizer", "show", "--url", "http://127.0.0.1:1")

    assert said.returncode == 1
    assert "no registry answers" in said.stdout + said.stderr


def test_a_client_registers_and_reads_back(url: str) -> None:
    registry = HttpRegistry(url)

    registered = registry.register("client", ORDERS)

    assert registered.schema == ORDERS
    assert (registered.topic, registered.follows) == ("client.shop.orders", "")
    assert registered.key_schema_id is not None
    assert registry.value_schema(registered.value_schema_id) == value_schema(ORDERS)
    assert registry.register("client", ORDERS) is registered


def test_a_client_follows_its_table_along_the_chain(url: str) -> None:
    registry = HttpRegistry(url)
    narrower = TableSchema(ORDERS.table, (Column("id", IntegerType(32, unsigned=False), nullable=False),), ("id",))

    topics = [registry.register("chain", shape).topic for shape in (ORDERS, narrower, ORDERS)]

    assert topics == ["chain.shop.orders", "chain.shop.orders.v2", "chain.shop.orders.v3"]


def test_a_client_travels_without_its_connections(url: str) -> None:
    registry = HttpRegistry(url)
    registered = registry.register("travel", ORDERS)
    registry.close()

    copy = pickle.loads(pickle.dumps(registry))  # noqa: S301 - our own bytes, as Spark sends them

    assert copy.register("travel", ORDERS) == registered


@pytest.mark.nightly
def test_a_schema_that_was_read_once_is_known_when_the_service_is_gone(tmp_path: Path) -> None:
    with service(tmp_path, f"sqlite:///{tmp_path}/schematizer.db") as (_, url):
        registry = HttpRegistry(url)
        registered = registry.register("shopdb", ORDERS)
        registry.value_schema(registered.value_schema_id)

    assert registry.value_schema(registered.value_schema_id) == value_schema(ORDERS)
    assert registry.register("shopdb", ORDERS) == registered
    with pytest.raises(UnavailableError, match="cannot be used"):
        registry.value_schema(registered.value_schema_id + 1)


def test_an_unknown_schema_is_an_error_that_says_so(url: str) -> None:
    with pytest.raises(PenstockError, match="Schema 999999 not found") as caught:
        HttpRegistry(url).value_schema(999_999)

    assert not caught.value.retryable


def test_a_table_that_the_registry_refuses_stops(url: str) -> None:
    with pytest.raises(TableStoppedError, match=r"shop\.orders"):
        HttpRegistry(url).register("a\nb", ORDERS)


def test_a_table_with_a_column_that_cannot_be_carried_stops(url: str) -> None:
    table = TableSchema(ORDERS.table, (Column("g", UnsupportedType("geometry"), nullable=True),), ())

    with pytest.raises(TableStoppedError, match=r"shop\.orders\.g"):
        HttpRegistry(url).register("shopdb", table)


def test_a_service_that_is_no_schematizer_is_told() -> None:
    with pytest.raises(UsageError, match="not the URL"):
        HttpRegistry("127.0.0.1:8081")
