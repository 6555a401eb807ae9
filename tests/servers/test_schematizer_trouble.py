"""The Schematizer in trouble: killed under load, its database away, and callers who undo each other's work."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import httpx
import pytest
from tests.servers.fresh_databases import state_database
from tests.servers.kinds import first
from tests.servers.test_schematizer_security import children, service
from tests.servers.test_schematizer_service import ORDERS
from tests.unit.schematizer.served import served

from penstock.core.avro.schemas import key_schema, value_schema
from penstock.faults.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CALLERS = 200
WRITERS = 4
ROUNDS = 16


@pytest.fixture
def database_url(request: pytest.FixtureRequest, fresh_name: str, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty database of each kind; what MySQL does, MariaDB does too."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/trouble.db"
        return
    with state_database(request.getfixturevalue(request.param), fresh_name) as url:
        yield url


def fixed(name: str) -> dict[str, str]:
    return {"schema": json.dumps({"type": "fixed", "name": name, "size": 1})}


class Writer(threading.Thread):
    """Registers schemas, and deletes every third for ever, until nobody answers."""

    def __init__(self, url: str, name: str) -> None:
        super().__init__()
        self._url = url
        self.subject = f"load-{name}"
        self.kept: dict[str, int] = {}
        self.gone: dict[str, int] = {}
        self.unknown = ""

    def run(self) -> None:
        with httpx.Client(base_url=self._url, timeout=20) as client:
            try:
                for number in range(10_000):
                    self._write(client, number)
            except httpx.TransportError:
                return

    def _write(self, client: httpx.Client, number: int) -> None:
        self.unknown = name = f"{self.subject.replace('-', '_')}_{number}"
        subject = f"{self.subject}-{number}"
        answer = client.post(f"/subjects/{subject}/versions", json=fixed(name))
        assert answer.status_code == 200, answer.text
        self.kept[name] = answer.json()["id"]
        if number % 3 == 0:
            # From here on it may be gone, whether we hear of that or not.
            schema_id = self.kept.pop(name)
            client.delete(f"/subjects/{subject}").raise_for_status()
            client.delete(f"/subjects/{subject}", params={"permanent": "true"}).raise_for_status()
            self.gone[name] = schema_id
        self.unknown = ""


@pytest.mark.nightly
@pytest.mark.parametrize("database_url", first(1, "sqlite", "postgres", "mariadb"), indirect=True)
def test_what_was_acknowledged_outlives_kill_9_under_load(database_url: str, tmp_path: Path) -> None:
    options = ["--url", database_url, "--workers", "2"]
    with service(tmp_path, *options) as (pid, port):
        writers = [Writer(f"http://127.0.0.1:{port}", str(number)) for number in range(WRITERS)]
        for writer in writers:
            writer.start()
        deadline = time.monotonic() + 60
        while sum(len(writer.gone) + len(writer.kept) for writer in writers) < ROUNDS:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        for each in [*children(pid), pid]:
            os.kill(each, signal.SIGKILL)
        for writer in writers:
            writer.join()

    with service(tmp_path, *options) as (_, port), httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
        kept = {name: number for writer in writers for name, number in writer.kept.items()}
        gone = {name: number for writer in writers for name, number in writer.gone.items()}
        assert kept
        assert gone
        found = {each["id"]: each for each in client.get("/schemas").raise_for_status().json()}
        by_id = {number: json.loads(each["schema"])["name"] for number, each in found.items()}
        assert {name: by_id.get(number) for name, number in kept.items()} == {name: name for name in kept}
        # What was being written when the end came is whole, or not there.
        assert set(by_id.values()) - set(kept) <= {writer.unknown for writer in writers}
        for subject in client.get("/subjects").json():
            assert client.get(f"/subjects/{subject}/versions").json() == [1]
        for number in gone.values():
            assert client.get(f"/schemas/ids/{number}").status_code == 404
        newest = client.post("/subjects/after/versions", json=fixed("After")).raise_for_status().json()["id"]
        assert newest > max(*kept.values(), *gone.values())


@pytest.mark.parametrize("kind", first(1, "postgres", "mariadb"))
def test_a_database_that_goes_away_and_comes_back(kind: str, request: pytest.FixtureRequest, fresh_name: str) -> None:
    server = request.getfixturevalue(kind)
    with Proxy(kind, server.port) as proxy, state_database(server, fresh_name) as url:
        through = url.replace(f":{server.port}/", f":{proxy.port}/")
        with served(through) as client:
            assert client.post("/subjects/a/versions", json=fixed("A")).status_code == 200
            for break_ in (proxy.cut, proxy.refuse):
                break_()
                if break_ == proxy.refuse:
                    for method, path in (("GET", "/subjects"), ("GET", "/v1/topics"), ("POST", "/subjects/b/versions")):
                        away = client.request(method, path, json=fixed("B") if method == "POST" else None)
                        assert (away.status_code, away.json()["error_code"]) == (503, 50301), away.text
                        assert away.json()["code"] == "database_unavailable"
                        assert server.password not in away.text
                    assert client.get("/schemas/types").status_code == 200
                    proxy.heal()
                assert client.get("/subjects").json() == ["a"]
            assert client.post("/subjects/b/versions", json=fixed("B")).status_code == 200


@pytest.mark.nightly
@pytest.mark.parametrize("database_url", first(1, "postgres", "sqlite", "mariadb"), indirect=True)
def test_callers_who_delete_and_register_one_subject_get_answers_that_fit(database_url: str) -> None:
    def act(client: httpx.Client, number: int) -> tuple[int, str]:
        match number % 4:
            case 0:
                answer = client.delete("/subjects/contended", params={"permanent": str(number % 8 == 0).lower()})
            case 1:
                answer = client.delete("/subjects/contended/versions/latest")
            case _:
                answer = client.post("/subjects/contended/versions", json=fixed(f"F{number % 3}"))
        return answer.status_code, answer.text

    with served(database_url) as client:
        client.put("/config", json={"compatibility": "NONE"})
        with ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(lambda number: act(client, number), range(120)))
        unfit = [answer for answer in answers if answer[0] not in {200, 404}]
        assert unfit == []
        assert {200, 404} == {status for status, _ in answers}
        final = client.post("/subjects/contended/versions", json=fixed("Final")).json()
        versions = client.get("/subjects/contended/versions?deleted=true").json()
        assert versions == sorted(set(versions))
        assert versions[-1] == final["version"]
        assert client.get("/subjects/contended/versions/latest").json()["id"] == final["id"]


# Processes that share another database are in test_schematizer_service.
@pytest.mark.nightly
@pytest.mark.parametrize("database_url", first(1, "postgres", "sqlite", "mariadb"), indirect=True)
def test_200_first_registrations_at_workers_give_one_topic_and_one_schema(database_url: str, tmp_path: Path) -> None:
    body = {"namespace": "shopdb", "key_schema": key_schema(ORDERS), "value_schema": value_schema(ORDERS)}
    limits = httpx.Limits(max_connections=CALLERS, max_keepalive_connections=CALLERS)
    with (
        service(tmp_path, "--url", database_url, "--workers", "3") as (_, port),
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, limits=limits) as client,
        ThreadPoolExecutor(CALLERS) as pool,
    ):
        answers = list(pool.map(lambda _: client.post("/v1/tables", json=body), range(CALLERS)))
        topics = client.get("/v1/topics").json()["items"]
        schemas = client.get("/schemas").json()

    assert {(answer.status_code, answer.text) for answer in answers} == {(200, answers[0].text)}
    assert [topic["name"] for topic in topics] == ["shopdb.shop.orders"]
    assert len(schemas) == 2
