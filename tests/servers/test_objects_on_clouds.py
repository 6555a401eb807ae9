"""A pipeline with CSV files on each kind of store: what it carries and deletes, and what check says of the store."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from tests.servers.chain import make_chain
from typer.testing import CliRunner

from penstock.adapters.duckdb.database import write_lock
from penstock.adapters.objects.store import open_objects
from penstock.cli.main import app
from penstock.jobs.links import ObjectsLink
from penstock.links.objects.publish import BatchPublisher
from penstock.wiring.files import objects_record
from penstock.wiring.fills import open_fills
from penstock.wiring.open import OBJECTS_LINK, batch_topic, open_pipeline_state, open_publisher

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from tests.servers.clouds import CloudPlace

    from penstock.config.specs import PipelineSpec
    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer


def sweep_one_by_one(spec: PipelineSpec, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Delete old files one at a time, and on and on; whoever loads the target meanwhile is not waited for."""
    for name in ("links.objects.retention._BATCHES_AT_ONCE", "links.objects.retention._TURNS_MAX"):
        monkeypatch.setattr(f"penstock.{name}", 1)
    for name in ("jobs.links.SWEEP_ON_SECONDS", "jobs.links._SWEEP_REST"):
        monkeypatch.setattr(f"penstock.{name}", 0)
    publisher = BatchPublisher(open_publisher(spec, OBJECTS_LINK, 1), batch_topic(spec), 1)
    with write_lock(target), closing(open_pipeline_state(spec)) as state, closing(publisher):
        link = ObjectsLink(spec, state, 1, 1)
        for _ in range(50):
            link._sweep(publisher, 1)


def test_rows_of_any_text_go_through_csv_on_a_store_and_old_files_go_when_the_target_has_them(
    tmp_path: Path,
    mariadb: MariadbServer,
    fresh_database: str,
    chain_parts: tuple[KafkaBroker, str, int],
    cloud: CloudPlace,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = f'url: "{cloud.url}", endpoint: "{cloud.endpoint}"'
    more = f"objects: {{{place}, format: csv, compression: gzip, keep_hours: 900}}"
    chain = make_chain(tmp_path, fresh_database, mariadb, chain_parts, more)
    objects = open_objects(cloud.spec())
    chain.write(
        "CREATE TABLE notes (id INT PRIMARY KEY, note TEXT, data VARBINARY(20))",
        r"INSERT INTO notes VALUES (1, 'a,\"b\"\r\n\\N', x'00ff22'), (2, '', NULL), (3, NULL, ''), (4, '\\N', 'x')",
    )

    chain.start()
    chain.carry()
    chain.write(r"UPDATE notes SET note = 'a\0b' WHERE id = 2", "DELETE FROM notes WHERE id = 3")
    chain.carry()
    checked = CliRunner().invoke(app, ["check", str(chain.file), "--connect"])
    written = objects.list(fresh_database)
    chain.file.write_text(chain.file.read_text().replace("keep_hours: 900", "keep_hours: 0"))
    sweep_one_by_one(chain.spec, tmp_path / fresh_database / "wh.duckdb", monkeypatch)
    chain.write("INSERT INTO notes VALUES (5, 'later', NULL)")
    chain.carry()

    assert chain.query("SELECT id, note, data FROM {schema}.notes ORDER BY id") == [
        (1, 'a,"b"\r\n\\N', b"\x00\xff\x22"),
        (2, "a\0b", None),
        (4, "\\N", b"x"),
        (5, "later", None),
    ]
    assert f"objects {cloud.url}: can be written, read, listed and deleted from" in " ".join(checked.stdout.split())
    assert [key.rpartition(".csv")[2] for key in written] == [".gz"] * len(written)
    assert len(written) >= 2
    assert len(objects.list(fresh_database)) == 1
    assert objects_record(chain.spec).files_from > 0
    (tmp_path / fresh_database / "wh.duckdb").unlink()
    chain.load()
    assert len(open_fills(chain.spec)) == 1
