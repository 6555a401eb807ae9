"""Folders of Delta tables and of Parquet files, read as an audit reads them, without Spark."""

from __future__ import annotations

import json
import shutil
import tempfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import LocalStore

from penstock.adapters.duckdb.audited_files import AuditedFiles
from penstock.adapters.objects.local_copies import LocalCopies
from penstock.adapters.objects.store import Objects, ObjectsSpec, open_objects
from penstock.core.audit.delta_log import choose_entries
from penstock.core.audit.file_dialect import DELTA, PARQUET
from penstock.core.audit.findings import NotCompared
from penstock.core.errors import SinkError, UnavailableError
from penstock.core.tables import Column, IntegerType, TableId, TableSchema
from penstock.core.warehouse.load_plan import SchemaInPlace
from penstock.links.audit.compare import Bounds
from penstock.links.audit.lake_tables import DeltaTables, ParquetTables
from penstock.links.audit.lake_target import LakeTargetState
from penstock.links.warehouse.lake_state import LakeState, TableProgress
from penstock.links.warehouse.table_state import TableState
from penstock.wiring.audit_urls import TableAt, audit_urls

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

TABLE = TableId("shop", "Orders")
COLUMNS = {"id": "long", "total": "decimal(12,2)", "at": "timestamp", "note": "string", "tags": {"type": "array"}}


@pytest.fixture
def delta(tmp_path: Path) -> Iterator[AuditedFiles]:
    """A folder of Delta tables."""
    store = open_objects(ObjectsSpec(tmp_path.as_uri()))
    tables = DeltaTables(store, lambda keys: tuple(str(tmp_path / key) for key in keys))
    with closing(AuditedFiles(DELTA, tables.find, str(tmp_path))) as opened:
        yield opened


def test_a_table_is_what_its_log_says_with_columns_that_were_renamed_added_and_widened(
    delta: AuditedFiles, tmp_path: Path
) -> None:
    _write(tmp_path, "first.parquet", "SELECT 1 AS c1, CAST(2.50 AS DECIMAL(10,2)) AS c2")
    _write(tmp_path, "gone.parquet", "SELECT 9 AS c1, CAST(9 AS DECIMAL(10,2)) AS c2")
    _write(
        tmp_path,
        "s p.parquet",
        "SELECT CAST(2 AS BIGINT) AS c1, CAST(3 AS DECIMAL(12,2)) AS c2, TIMESTAMP '2024-01-01' AS c3, 'x' AS c4",
    )
    _commit(tmp_path, 0, _described(COLUMNS), _added("first.parquet"), _added("gone.parquet"), _numbered(7))
    _commit(tmp_path, 1, _removed("gone.parquet"), _added("s%20p.parquet"), _numbered(8))

    files = delta.look(TABLE)

    assert files is not None
    assert files.numbers == {"us": 8}
    rows = delta.fetch('SELECT id, CAST(total AS VARCHAR), epoch_us("at"), note FROM shop."Orders" ORDER BY id')
    assert rows == [(1, "2.50", None, None), (2, "3.00", 1_704_067_200_000_000, "x")]
    assert delta.fetch("SELECT COUNT(*) FROM information_schema.columns WHERE column_name = 'tags'") == [(0,)]


def test_a_checkpoint_stands_for_the_commits_before_it(delta: AuditedFiles, tmp_path: Path) -> None:
    for number in (1, 2):
        _write(tmp_path, f"{number}.parquet", f"SELECT CAST({number} AS BIGINT) AS c1")
    _commit(tmp_path, 11, _added("2.parquet"))
    actions = [_described({"id": "long"}), _added("1.parquet"), _numbered(3)]
    described = {"partitionColumns": pa.list_(pa.string()), "schemaString": pa.string()}
    layout = pa.schema(
        [
            ("metaData", pa.struct(list(described.items()))),
            ("add", pa.struct([("path", pa.string())])),
            ("txn", pa.struct([("appId", pa.string()), ("version", pa.int64())])),
        ]
    )
    checkpoint = tmp_path / "shop/Orders/_delta_log" / f"{10:020d}.checkpoint.parquet"
    pq.write_table(pa.Table.from_pylist(actions, layout), checkpoint)

    files = delta.look(TABLE)

    assert files is not None
    assert files.numbers == {"us": 3}
    assert delta.fetch('SELECT id FROM shop."Orders" ORDER BY id') == [(1,), (2,)]


def test_queries_see_one_version_until_the_table_is_looked_at_again(delta: AuditedFiles, tmp_path: Path) -> None:
    _write(tmp_path, "1.parquet", "SELECT CAST(1 AS BIGINT) AS c1")
    _commit(tmp_path, 0, _described({"id": "long"}), _added("1.parquet"))
    delta.look(TABLE)
    _commit(tmp_path, 1, _removed("1.parquet"))
    count = 'SELECT COUNT(*) FROM shop."Orders"'

    before = delta.fetch(count)
    delta.renew()

    assert (before, delta.fetch(count)) == ([(1,)], [(0,)])


@pytest.mark.parametrize(
    ("action", "why"),
    [
        ({"protocol": {"minReaderVersion": 3, "readerFeatures": ["rowsOfTomorrow"]}}, "rowsOfTomorrow"),
        ({"protocol": {"minReaderVersion": 4}}, "readers of it must know more"),
        ({"add": {"path": "1.parquet", "deletionVector": {"storageType": "u"}}}, "deletion vectors"),
        ({"metaData": {"partitionColumns": ["day"], "schemaString": '{"fields": []}'}}, "partitioned"),
        ({"metaData": {}}, "is not understood"),
    ],
)
def test_a_table_that_is_not_understood_is_refused_and_never_compared(
    delta: AuditedFiles, tmp_path: Path, action: Mapping[str, object], why: str
) -> None:
    _commit(tmp_path, 0, _described({"id": "long"}), action)

    with pytest.raises(SinkError, match=why):
        delta.look(TABLE)


@pytest.mark.parametrize("is_added_first", [True, False])
def test_a_file_that_gets_a_deletion_vector_is_refused_and_read_again_once_it_is_rewritten(
    delta: AuditedFiles, tmp_path: Path, *, is_added_first: bool
) -> None:
    for name in ("1.parquet", "2.parquet"):
        _write(tmp_path, name, "SELECT CAST(1 AS BIGINT) AS c1")
    _commit(tmp_path, 0, _described({"id": "long"}), _added("1.parquet"))
    with_vector = {"add": {"path": "1.parquet", "deletionVector": {"storageType": "u"}}}
    both = [with_vector, _removed("1.parquet")]
    _commit(tmp_path, 1, *(both if is_added_first else reversed(both)))

    with pytest.raises(SinkError, match="deletion vectors"):
        delta.look(TABLE)

    _commit(tmp_path, 2, _added("2.parquet"), _removed("1.parquet"))
    delta.look(TABLE)
    assert delta.fetch('SELECT COUNT(*) FROM shop."Orders"') == [(1,)]


def test_a_table_that_is_turned_away_from_is_not_read_again(delta: AuditedFiles, tmp_path: Path) -> None:
    _commit(tmp_path, 0, _described({"id": "long"}))
    delta.look(TABLE)
    _commit(tmp_path, 2, _added("1.parquet"))
    other = TableId("shop", "Others")

    delta.renew()

    assert delta.look(other) is None
    assert delta.fetch("SELECT 1") == [(1,)]


def test_copies_of_files_are_of_one_table_in_its_newest_version(tmp_path: Path) -> None:
    for name in ("1.parquet", "2.parquet"):
        _write(tmp_path, name, f"SELECT CAST({name[0]} AS BIGINT) AS c1")
    _commit(tmp_path, 0, _described({"id": "long"}), _added("1.parquet"))
    with closing(_copies(tmp_path)) as copies, closing(_opened(tmp_path, copies)) as opened:
        opened.look(TABLE)
        first = _names(copies)
        _commit(tmp_path, 1, _removed("1.parquet"), _added("2.parquet"))
        opened.renew()
        rows = opened.fetch('SELECT id FROM shop."Orders"')
        second = _names(copies)
        opened.renew()
        opened.fetch('SELECT id FROM shop."Orders"')
        kept = _names(copies)
        _commit(tmp_path, 2, _removed("2.parquet"))
        opened.look(TABLE)

        assert rows == [(2,)]
        assert (len(first), len(second), _names(copies)) == (1, 1, set())
        assert first != second == kept
    assert not Path(copies.folder).exists()


def test_a_disk_that_takes_no_copies_is_told_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(tmp_path, "1.parquet", "SELECT CAST(1 AS BIGINT) AS c1")
    _commit(tmp_path, 0, _described({"id": "long"}), _added("1.parquet"))
    with closing(_copies(tmp_path)) as copies, closing(_opened(tmp_path, copies)) as opened:
        shutil.rmtree(copies.folder)

        with pytest.raises(UnavailableError, match="cannot copy files of a table") as full:
            opened.look(TABLE)

    assert "TMPDIR" in full.value.hint
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(UnavailableError, match="no folder for an audit's copies"):
        _copies(tmp_path)


def test_a_nested_column_of_a_delta_table_is_not_compared_and_makes_no_table_different(tmp_path: Path) -> None:
    _write(tmp_path, "1.parquet", "SELECT CAST(1 AS BIGINT) AS c1, 5000000 AS c2, ['a'] AS c3")
    _commit(tmp_path, 0, _described({"id": "long", "lasts": "long", "tags": {"type": "array"}}), _added("1.parquet"))
    with duckdb.connect(str(tmp_path / "w.duckdb")) as connection:
        connection.execute('CREATE SCHEMA shop; CREATE TABLE shop."Orders" (id BIGINT, lasts INTERVAL, tags VARCHAR[])')
        connection.execute("INSERT INTO shop.\"Orders\" VALUES (1, INTERVAL 5 SECONDS, ['a'])")
    sides = [TableAt(f"duckdb:///{tmp_path}/w.duckdb", TABLE), TableAt(f"delta:///{tmp_path}", TABLE)]

    (found,) = audit_urls(sides[0], sides[1], Bounds(partition_size=8, k=4)).tables

    assert (found.state, found.source_rows, found.rows) == ("equal", 1, ())
    why = "values of VARCHAR[] and a nested type are not compared yet"
    assert found.not_compared == (NotCompared("tags", why),)


def _copies(lake: Path) -> LocalCopies:
    """Copies of files of a store that is not on this machine, for all that it says."""
    return LocalCopies(Objects(ObjectsSpec(lake.as_uri()), LocalStore(prefix=lake), None))


def _opened(lake: Path, copies: LocalCopies) -> AuditedFiles:
    store = open_objects(ObjectsSpec(lake.as_uri()))
    return AuditedFiles(DELTA, DeltaTables(store, copies.paths).find, copies.folder)


def _names(copies: LocalCopies) -> set[str]:
    return {path.name for path in Path(copies.folder).iterdir()}


def test_commits_that_are_missing_are_no_table(delta: AuditedFiles, tmp_path: Path) -> None:
    _commit(tmp_path, 0, _described({"id": "long"}))
    _commit(tmp_path, 2, _added("1.parquet"))

    with pytest.raises(SinkError, match="commits are missing"):
        delta.look(TABLE)
    with pytest.raises(ValueError, match="several parts"):
        choose_entries([f"{12:020d}.checkpoint.0000000001.0000000002.parquet", f"{12:020d}.json"])


def test_a_file_that_is_gone_is_told(delta: AuditedFiles, tmp_path: Path) -> None:
    _commit(tmp_path, 0, _described({"id": "long"}), _added("nowhere.parquet"))

    with pytest.raises(UnavailableError, match=r"nowhere\.parquet"):
        delta.look(TABLE)


def test_parquet_files_are_a_table_as_a_file_and_as_a_folder(tmp_path: Path) -> None:
    _write(tmp_path, "1.parquet", "SELECT 1 AS id")
    _write(tmp_path, "deep/2.parquet", "SELECT 2 AS id")
    _write(tmp_path, "_temporary/3.parquet", "SELECT 3 AS id")
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT 5 AS id) TO '{tmp_path}/shop/single.parquet'")
    tables = ParquetTables(
        open_objects(ObjectsSpec(tmp_path.as_uri())), lambda keys: tuple(str(tmp_path / key) for key in keys)
    )

    with closing(AuditedFiles(PARQUET, tables.find, str(tmp_path))) as opened:
        opened.look(TABLE)
        assert opened.fetch('SELECT id FROM shop."Orders" ORDER BY id') == [(1,), (2,)]
        opened.look(TableId("shop", "single"))
        assert opened.fetch("SELECT id FROM shop.single") == [(5,)]
        assert opened.look(TableId("shop", "nobody")) is None


def _write(lake: Path, name: str, query: str) -> None:
    path = lake / "shop/Orders" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet)")


def _commit(lake: Path, version: int, *actions: Mapping[str, object]) -> None:
    log = lake / "shop/Orders/_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    (log / f"{version:020d}.json").write_text("\n".join(json.dumps(action) for action in actions))


def _described(columns: Mapping[str, object]) -> dict[str, Any]:
    fields = [
        {"name": name, "type": type_, "metadata": {"delta.columnMapping.physicalName": f"c{number}"}}
        for number, (name, type_) in enumerate(columns.items(), 1)
    ]
    return {"metaData": {"partitionColumns": [], "schemaString": json.dumps({"type": "struct", "fields": fields})}}


def _added(path: str) -> dict[str, Any]:
    return {"add": {"path": path}}


def _removed(path: str) -> dict[str, Any]:
    return {"remove": {"path": path}}


def _numbered(version: int) -> dict[str, Any]:
    return {"txn": {"appId": "us", "version": version}}


def test_a_lake_knows_its_tables_and_what_their_newest_commits_say(delta: AuditedFiles, tmp_path: Path) -> None:
    lake_state = LakeState(open_objects(ObjectsSpec(tmp_path.as_uri())), "shop", "shopdb")
    target = LakeTargetState(delta.look, lake_state, "us")
    gone = TableProgress(_state("gone"), leaving=True)
    lake_state.set_life(TableId("shop", "gone"), gone)
    _commit(tmp_path, 0, _described({"id": "long"}), _numbered(7))
    for number, out_of_range in ((7, 3), (8, 4)):
        lake_state.write(TABLE, number, TableProgress(replace(_state("Orders"), out_of_range=out_of_range)))
    lake_state.set_life(TABLE)

    known = target.table(TABLE)

    assert target.living() == [TABLE]
    assert known is not None
    # The file of number 8 was written before a commit that never came.
    assert (known.out_of_range, known.ended) == (3, False)
    left = target.table(TableId("shop", "gone"))
    assert left is not None
    assert left.ended
    assert target.table(TableId("shop", "nobody")) is None


def _state(name: str) -> TableState:
    schema = TableSchema(
        TableId("shop", name), (Column("id", IntegerType(64, unsigned=False), nullable=False),), ("id",)
    )
    return TableState(schema, SchemaInPlace(1, (0, 0, 0)), (0, 0, 0))
