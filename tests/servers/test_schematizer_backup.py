"""Backups of a registry: from every kind of database, into every kind."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import sqlite3
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs
from tests.servers.fresh_databases import state_database
from tests.servers.test_schematizer_databases import at_first_revision
from tests.servers.test_schematizer_databases import fill as fill_first_release
from tests.unit.schematizer.served import served
from tests.unit.schematizer.test_schematizer_app import ORDERS, register

from penstock.core.errors import UsageError
from penstock.core.tables import Column, TableId, TextType
from penstock.schematizer.storage.backup import backup, restore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx

NAMES = ("a/b.c%2F d%größe?#é", "plain")


@pytest.fixture
def ring(request: pytest.FixtureRequest, fresh_name: str, tmp_path: Path) -> Iterator[list[str]]:
    """Empty databases, of every kind that can be had here, and of the first one again."""
    with contextlib.ExitStack() as stack:
        urls = [f"sqlite:///{tmp_path}/first.db"]
        for fixture in ("mariadb", "mysql_server", "postgres"):
            with contextlib.suppress(pytest.skip.Exception):
                server = request.getfixturevalue(fixture)
                urls.append(stack.enter_context(state_database(server, f"{fresh_name}_{fixture}")))
        yield [*urls, f"sqlite:///{tmp_path}/last.db"]


def fill(client: httpx.Client) -> None:
    """Have something of everything, and something that is gone."""
    for name in NAMES:
        register(client, name, ORDERS)
        narrower = replace(ORDERS, columns=(*ORDERS.columns, Column("n", TextType(9, "utf8mb4"), nullable=False)))
        register(client, name, narrower)
    register(client, "plain", replace(ORDERS, table=TableId("shop", "größe"), comment="😀 of it"))
    client.put("/v1/sources/plain/shop/orders", json={"owner_email": "ada@example.com", "doc": "ü" * 70_000})
    client.put("/v1/sources/plain/shop/orders/elements/note", json={"doc": "what", "contains_pii": True})
    note = client.post("/v1/notes", json={"schema_id": 2, "text": "first"}).json()
    client.put(f"/v1/notes/{note['id']}", json={"text": "second"})
    client.put("/config/lab-value", json={"compatibility": "NONE"})
    for number in range(4):
        body = {
            "schema": json.dumps({"type": "fixed", "name": "F", "size": number + 1}),
            "metadata": {"tags": {"a": ["b"]}},
        }
        client.post("/subjects/lab-value/versions", json=body).raise_for_status()
    client.delete("/subjects/lab-value/versions/1").raise_for_status()
    for permanently in ("false", "true"):
        client.delete("/subjects/lab-value/versions/4", params={"permanent": permanently}).raise_for_status()
    user = {"type": "record", "name": "U", "fields": [{"name": "f", "type": "F"}]}
    uses = [{"name": "F", "subject": "lab-value", "version": 2}]
    client.post("/subjects/:.lab:u/versions", json={"schema": json.dumps(user), "references": []})
    client.post("/subjects/users/versions", json={"schema": json.dumps(user), "references": uses}).raise_for_status()
    client.put("/mode/users", json={"mode": "READONLY"}).raise_for_status()


def all_of(client: httpx.Client) -> dict[str, object]:
    """What both faces tell of everything."""
    paths = ["/v1/sources", "/v1/topics", "/v1/notes", "/v1/history", "/subjects?deleted=true", "/mode/users"]
    paths += ["/schemas?deleted=true&subjectPrefix=:*:", "/config/lab-value", "/v1/search?q=orders", "/v1/namespaces"]
    paths += [f"/schemas/ids/{number}" for number in range(1, 20)]
    paths.append("/v1/sources/plain/shop/orders/elements")
    return {path: client.get(path).json() for path in paths}


def next_id(client: httpx.Client) -> int:
    body = {"schema": json.dumps({"type": "fixed", "name": "Next", "size": 1})}
    found: int = client.post("/subjects/next-value/versions", json=body).raise_for_status().json()["id"]
    return found


@pytest.mark.nightly
def test_a_registry_moves_from_database_to_database_with_all_that_it_has(ring: list[str], tmp_path: Path) -> None:
    with served(ring[0]) as client:
        fill(client)
        before = all_of(client)
        counts = backup(ring[0], tmp_path / "0")
        expected_id = next_id(client)
    assert counts["schemas"] > 5
    assert counts["history"] >= 4

    for number, url in enumerate(ring[1:], start=1):
        assert restore(url, tmp_path / str(number - 1)) == counts, url
        assert backup(url, tmp_path / str(number)) == counts, url
        with pytest.raises(UsageError, match="not empty"):
            restore(url, tmp_path / "0")
        restore(url, tmp_path / "0", replace=True)
        with served(url) as client:
            assert all_of(client) == before, url
            assert next_id(client) == expected_id, url

    first, last = (lines_of(tmp_path / name) for name in ("0", str(len(ring) - 1)))
    assert {table["name"]: table for table in first[0]["tables"]} == {each["name"]: each for each in last[0]["tables"]}
    assert sorted(map(json.dumps, last[1])) == sorted(map(json.dumps, first[1]))


def lines_of(file: Path) -> tuple[dict[str, Any], list[object]]:
    """The head of a backup, and its rows under their tables' names."""
    head, *rows = (json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()[:-1])
    return head, [[head["tables"][number]["name"], values] for number, values in rows]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup of a small registry."""
    home = tmp_path_factory.mktemp("backup")
    with served(f"sqlite:///{home}/one.db") as client:
        register(client, "plain", ORDERS)
    backup(f"sqlite:///{home}/one.db", home / "whole")
    return home / "whole"


def damaged(whole: bytes) -> Iterator[bytes]:
    lines = gzip.decompress(whole).splitlines(keepends=True)
    for cut in (0, 1, 10, len(whole) // 2, len(whole) - 9, len(whole) - 1):
        yield whole[:cut]
    yield whole + b"x"
    yield whole + gzip.compress(b"[0, []]\n")
    for changed in (lines[:-1], lines[:3] + lines[4:], [*lines[:3], lines[3], *lines[3:]], [*lines, lines[-1]]):
        yield gzip.compress(b"".join(changed))
    yield gzip.compress(b"".join(lines).replace(b"orders", b"0rders"))
    yield gzip.compress(b"[]\n")
    yield b"no backup"
    flipped = bytearray(whole)
    flipped[len(flipped) // 2] ^= 1
    yield bytes(flipped)


def test_a_cut_or_damaged_file_is_refused_and_nothing_is_written(written: Path, tmp_path: Path) -> None:
    for number, content in enumerate(damaged(written.read_bytes())):
        file, database = tmp_path / f"{number}.backup", tmp_path / f"{number}.db"
        file.write_bytes(content)

        with pytest.raises(UsageError, match=r"cut or damaged|no backup|a row that is none|damaged"):
            restore(f"sqlite:///{database}", file)

        assert not database.exists(), number


def test_a_backup_of_an_older_release_is_brought_up_to_date(tmp_path: Path) -> None:
    old, new = (f"sqlite:///{tmp_path}/{name}.db" for name in ("old", "new"))
    with at_first_revision(old) as connection:
        fill_first_release(connection)
    backup(old, tmp_path / "old.backup")
    with served(new) as client:
        assert client.get("/v1/sources").json()["items"] == []

    restore(new, tmp_path / "old.backup")

    with served(new) as client:
        assert [each["table"] for each in client.get("/v1/sources").json()["items"]] == ["shop.empty", "shop.größe"]
        assert client.get("/v1/schemas/2").json()["fingerprint"] == "p"


def test_what_is_no_registry_is_not_touched(written: Path, tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "strange.db")) as connection:
        connection.execute("CREATE TABLE mine (id INTEGER)")

    with pytest.raises(UsageError, match="not a registry's"):
        restore(f"sqlite:///{tmp_path}/strange.db", written)
    with pytest.raises(UsageError, match="no registry"):
        backup(f"sqlite:///{tmp_path}/strange.db", tmp_path / "none.backup")
    assert not (tmp_path / "none.backup").exists()


def test_half_a_character_that_an_older_release_kept_does_not_stop_a_backup(tmp_path: Path) -> None:
    first, second = (f"sqlite:///{tmp_path}/{name}.db" for name in ("first", "second"))
    with served(first) as client:
        client.post("/subjects/s/versions", json={"schema": '"int"', "metadata": {"tags": {}}}).raise_for_status()
    kept = json.dumps({"properties": {"größe": "\ud800"}})
    with contextlib.closing(sqlite3.connect(tmp_path / "first.db")) as connection:
        connection.execute("UPDATE schemas SET metadata_json = ?", (kept,))
        connection.commit()

    backup(first, tmp_path / "half.backup")
    restore(second, tmp_path / "half.backup")

    with contextlib.closing(sqlite3.connect(tmp_path / "second.db")) as connection:
        assert json.loads(connection.execute("SELECT metadata_json FROM schemas").fetchone()[0]) == json.loads(kept)


def test_other_tables_of_the_database_are_neither_in_a_backup_nor_touched_by_a_restore(tmp_path: Path) -> None:
    shared, other = (f"sqlite:///{tmp_path}/{name}.db" for name in ("shared", "other"))
    with served(shared) as client:
        register(client, "plain", ORDERS)
    with contextlib.closing(sqlite3.connect(tmp_path / "shared.db")) as connection:
        connection.execute("CREATE TABLE mine (id INTEGER, at TIMESTAMP)")
        connection.execute("INSERT INTO mine VALUES (1, '2026-01-01')")
        connection.commit()

    counts = backup(shared, tmp_path / "shared.backup")
    elsewhere = restore(other, tmp_path / "shared.backup")
    replaced = restore(shared, tmp_path / "shared.backup", replace=True)

    assert counts == elsewhere == replaced
    with contextlib.closing(sqlite3.connect(tmp_path / "shared.db")) as connection:
        assert connection.execute("SELECT * FROM mine").fetchall() == [(1, "2026-01-01")]
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert counts.keys() == tables - {"mine", "alembic_version", "sqlite_sequence"}


def test_tables_that_an_older_release_took_from_others_are_left_out(written: Path, tmp_path: Path) -> None:
    head, *rows = gzip.decompress(written.read_bytes()).splitlines(keepends=True)[:-1]
    told = json.loads(head)
    told["tables"].append({"name": "spatial_ref_sys", "columns": [["srid", "integer"]], "next_id": 2})
    lines = [json.dumps(told).encode() + b"\n", *rows, json.dumps([len(told["tables"]) - 1, [1]]).encode() + b"\n"]
    counts = [sum(json.loads(line)[0] == number for line in lines[1:]) for number in range(len(told["tables"]))]
    digest = hashlib.sha256(b"".join(lines)).hexdigest()
    end = json.dumps({"rows": counts, "sha256": digest}, separators=(",", ":")).encode() + b"\n"
    (tmp_path / "older.backup").write_bytes(gzip.compress(b"".join(lines) + end))

    with capture_logs() as logs:
        restored = restore(f"sqlite:///{tmp_path}/new.db", tmp_path / "older.backup")

    assert "spatial_ref_sys" not in restored
    assert restored["schemas"] > 0
    assert [entry["tables"] for entry in logs] == [["spatial_ref_sys"]]
