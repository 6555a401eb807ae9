"""Our client of the Schematizer while a real one is away, comes back, or is another."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.servers.test_schematizer_service import ORDERS

from penstock.adapters.registry.client import HttpRegistry
from penstock.adapters.registry.schema_file import SchemaFile
from penstock.core.avro.schemas import value_schema
from penstock.core.errors import PenstockError, UnavailableError
from penstock.core.tables import TableId
from penstock.embedded.schematizer import start_schematizer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.embedded.schematizer import SchematizerServer

CUSTOMERS = replace(ORDERS, table=TableId("shop", "customers"))
# What a pipeline that is started again does: another process, with nothing in memory.
READ = """
import sys
from pathlib import Path
from penstock.adapters.registry.client import HttpRegistry
print(HttpRegistry(sys.argv[1], cache_directory=Path(sys.argv[2])).value_schema(int(sys.argv[3])), end="")
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SchematizerServer]:
    with start_schematizer(tmp_path / "registry") as started:
        yield started


def read_in_another_process(url: str, cache: Path, schema_id: int) -> str:
    command = [sys.executable, "-c", READ, url, str(cache), str(schema_id)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def test_known_schemas_answer_while_the_registry_is_away_and_all_do_when_it_is_back(
    server: SchematizerServer, tmp_path: Path
) -> None:
    url, cache = server.url, tmp_path / "schemas"
    registry = HttpRegistry(url, cache_directory=cache)
    registered = registry.register("shopdb", ORDERS)
    known = registered.value_schema_id
    other = HttpRegistry(url).register("shopdb", CUSTOMERS).value_schema_id
    server.stop()

    assert registry.value_schema(known) == value_schema(ORDERS)
    assert registry.register("shopdb", ORDERS) == registered
    assert HttpRegistry(url, cache_directory=cache).value_schema(known) == value_schema(ORDERS)
    assert pickle.loads(pickle.dumps(registry)).value_schema(known) == value_schema(ORDERS)  # noqa: S301 - ours
    assert read_in_another_process(url, cache, known) == value_schema(ORDERS)
    fresh = HttpRegistry(url, cache_directory=cache)
    with pytest.raises(UnavailableError, match=f"schema {other} was never read here") as caught:
        fresh.value_schema(other)
    assert caught.value.retryable
    assert "check that it runs" in caught.value.hint
    with pytest.raises(UnavailableError, match="cannot be used"):
        fresh.register("shopdb", CUSTOMERS)

    with start_schematizer(server.home, port=server.port):
        assert fresh.value_schema(other) == value_schema(CUSTOMERS)
        assert fresh.register("shopdb", CUSTOMERS).value_schema_id == other
        assert read_in_another_process(url, cache, other) == value_schema(CUSTOMERS)


@pytest.mark.nightly
def test_a_registration_is_not_taken_from_disk_because_the_table_may_stand_elsewhere_by_now(
    server: SchematizerServer, tmp_path: Path
) -> None:
    narrower = replace(ORDERS, columns=ORDERS.columns[:1])
    here = HttpRegistry(server.url, cache_directory=tmp_path / "schemas")
    first = here.register("shopdb", ORDERS)
    elsewhere = HttpRegistry(server.url)
    elsewhere.register("shopdb", replace(narrower, key=()))
    back = elsewhere.register("shopdb", ORDERS)
    server.stop()

    assert back.topic != first.topic
    with pytest.raises(UnavailableError):
        HttpRegistry(server.url, cache_directory=tmp_path / "schemas").register("shopdb", ORDERS)


@pytest.mark.nightly
def test_a_registry_that_lost_its_data_is_told_and_its_schemas_are_not_read(
    server: SchematizerServer, tmp_path: Path
) -> None:
    cache = tmp_path / "schemas"
    known = HttpRegistry(server.url, cache_directory=cache).register("shopdb", ORDERS).value_schema_id
    server.stop()
    for file in server.home.glob("schematizer.db*"):
        file.unlink()

    with start_schematizer(server.home, port=server.port):
        assert HttpRegistry(server.url).register("shopdb", CUSTOMERS).value_schema_id == known
        again = HttpRegistry(server.url, cache_directory=cache)
        with pytest.raises(PenstockError, match=f"another schema {known} than it had before") as caught:
            again.value_schema(known)

    assert not caught.value.retryable


def test_while_it_is_away_schemas_on_disk_do_not_wait_for_it_one_by_one(tmp_path: Path) -> None:
    url = "http://127.0.0.1:1"
    for schema_id in (1, 2, 3):
        SchemaFile(tmp_path, url).put(schema_id, str(schema_id))
    registry = HttpRegistry(url, cache_directory=tmp_path)
    registry.value_schema(1)
    asked_until = registry._away_until

    assert [registry.value_schema(schema_id) for schema_id in (2, 3)] == ["2", "3"]
    assert registry._away_until == asked_until > 0
