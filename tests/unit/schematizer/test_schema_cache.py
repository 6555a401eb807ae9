"""Schemas in memory: a schema that was deleted for ever while it was read is not kept."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import event
from tests.unit.schematizer.served import begin_migrated, served

from penstock.schematizer.confluent.schemas import get_schema
from penstock.schematizer.registry.schema_cache import SchemaCache
from penstock.schematizer.storage.database import open_database

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.schematizer.storage.database import Database

USER = {"schema": json.dumps({"type": "record", "name": "User", "fields": []})}


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """A registry with one schema, of the subject `u`."""
    url = f"sqlite:///{tmp_path}/registry.db"
    begin_migrated(url)
    with served(url) as client:
        client.post("/subjects/u/versions", json=USER).raise_for_status()
    database = open_database(url)
    yield database
    database.close()


def test_an_answer_is_kept_unless_something_was_deleted_since_it_was_read() -> None:
    cache = SchemaCache()
    cache.put(1, b"one", cache.drops)
    before = cache.drops

    cache.drop(2)
    cache.put(2, b"two", before)

    assert cache.get(1) == b"one"
    assert cache.get(2) is None
    cache.put(2, b"two", cache.drops)
    assert cache.get(2) == b"two"


def test_a_schema_that_is_deleted_while_it_is_read_is_not_kept(database: Database) -> None:
    cache = SchemaCache()
    is_deleted = True

    def delete(*_: object) -> None:
        if is_deleted:
            cache.drop(1)

    event.listen(database.engine, "after_cursor_execute", delete)

    answers = [asyncio.run(get_schema(database, cache, 1))]
    assert cache.get(1) is None
    is_deleted = False
    answers.append(asyncio.run(get_schema(database, cache, 1)))

    assert [json.loads(bytes(answer.body))["schema"] for answer in answers] == [USER["schema"]] * 2
    assert cache.get(1) == bytes(answers[1].body)


def test_an_id_that_was_deleted_for_ever_is_never_another_schemas(tmp_path: Path) -> None:
    url, other = f"sqlite:///{tmp_path}/shared.db", {"schema": '"string"', "id": 1, "version": 1}
    with served(url) as one, served(url) as two:
        one.post("/subjects/u/versions", json=USER).raise_for_status()
        remembered = two.get("/schemas/ids/1").json()
        for permanently in ("false", "true"):
            one.delete("/subjects/u", params={"permanent": permanently}).raise_for_status()
        one.put("/mode", json={"mode": "IMPORT"}).raise_for_status()

        refused = one.post("/subjects/v/versions", json=other)
        back = one.post("/subjects/v/versions", json={**USER, "id": 1, "version": 1})

        assert (refused.status_code, refused.json()["error_code"]) == (422, 42205)
        assert "deleted for ever" in refused.json()["message"]
        assert back.status_code == 200
        assert one.get("/schemas/ids/1").json() == two.get("/schemas/ids/1").json() == remembered
        for permanently in ("false", "true"):
            one.delete("/subjects/v", params={"permanent": permanently}).raise_for_status()
        assert one.post("/subjects/w/versions", json=other).status_code == 422
