"""Schemas on disk: several processes, damage, and a bound."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TYPE_CHECKING

import pytest

from penstock.adapters.registry import schema_file
from penstock.adapters.registry.schema_file import SchemaFile

if TYPE_CHECKING:
    from pathlib import Path

URL = "http://127.0.0.1:8081"


def keep_many(directory: Path, first: int) -> None:
    """Keep a hundred schemas; run in a process of its own."""
    file = SchemaFile(directory, URL)
    for schema_id in range(first, first + 100):
        file.put(schema_id, f'"{schema_id}"')


def test_what_is_kept_is_known_to_another_process_of_the_same_registry_only(tmp_path: Path) -> None:
    SchemaFile(tmp_path / "new", URL).put(7, '"string"')

    assert SchemaFile(tmp_path / "new", URL).get(7) == '"string"'
    assert SchemaFile(tmp_path / "new", URL).get(8) is None
    assert SchemaFile(tmp_path / "new", f"{URL}1").get(7) is None


def test_several_processes_keep_schemas_at_once(tmp_path: Path) -> None:
    with ProcessPoolExecutor(3, mp_context=get_context("spawn")) as pool:
        for done in [pool.submit(keep_many, tmp_path, first) for first in (0, 50, 100)]:
            done.result(timeout=60)

    file = SchemaFile(tmp_path, URL)
    assert [file.get(schema_id) for schema_id in range(200)] == [f'"{schema_id}"' for schema_id in range(200)]


def test_a_schema_that_is_known_stays_as_it_is(tmp_path: Path) -> None:
    file = SchemaFile(tmp_path, URL)

    file.put(1, '"int"')
    file.put(1, '"long"')

    assert file.get(1) == '"int"'


@pytest.mark.parametrize("damage", [b"not a database", b""])
def test_a_damaged_file_is_begun_anew(tmp_path: Path, damage: bytes) -> None:
    file = SchemaFile(tmp_path, URL)
    file.put(1, '"int"')
    file.path.write_bytes(damage)

    assert file.get(1) is None
    file.put(1, '"int"')
    assert file.get(1) == '"int"'


def test_a_text_that_was_changed_on_disk_is_not_taken(tmp_path: Path) -> None:
    file = SchemaFile(tmp_path, URL)
    file.put(1, '"int"')
    with sqlite3.connect(file.path) as connection:
        connection.execute("UPDATE schemas SET text = '\"long\"'")
    connection.close()

    assert file.get(1) is None


def test_a_place_that_cannot_be_written_keeps_nothing_and_fails_nobody(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    file = SchemaFile(tmp_path / "file" / "below", URL)

    file.put(1, '"int"')

    assert file.get(1) is None


def test_an_id_that_no_registry_gives_is_not_known(tmp_path: Path) -> None:
    file = SchemaFile(tmp_path, URL)
    file.put(1, '"int"')

    file.put(1 << 70, '"int"')

    assert file.get(1 << 70) is None
    assert file.get(1) == '"int"'


def test_the_file_stays_below_its_bound_and_forgets_the_oldest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_file, "_FILE_BYTES_MAX", 256 << 10)
    file = SchemaFile(tmp_path, URL)
    text = '"' + "x" * 10_000 + '"'

    for schema_id in range(100):
        file.put(schema_id, text)

    assert file.path.stat().st_size <= 256 << 10
    assert file.get(99) == text
    assert file.get(0) is None
    file.put(100, "x" * (1 << 20))
    assert file.get(100) is None
