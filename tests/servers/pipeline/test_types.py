"""Values of every type arrive as they are in the source: by the copy, by the log, in keys, and through ALTER."""

from __future__ import annotations

from contextlib import closing
from decimal import Decimal
from typing import TYPE_CHECKING, Final

import pyarrow.parquet as pq
import pytest
import yaml
from tests.servers.pipeline.type_values import MARIADB, MYSQL
from tests.servers.pipeline.typed_tables import TypedTables, ask, run

from penstock.demo import warehouse_rows
from penstock.wiring.open import open_pipeline_state

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers.pipeline.conftest import PipelineCase

_WIDEST: Final = "9" * 35 + "." + "9" * 30
_ZEROS: Final = (
    "(1, '0000-00-00', '2024-00-15 01:02:03.000004', '0000-00-00 00:00:00')",
    "(2, '2024-02-29', '2023-02-31 00:00:00', '2038-01-19 03:14:07.999999')",
    "(3, '0000-12-31', NULL, NULL)",
)


def test_every_type_of_mariadb_arrives(make_case: Callable[..., PipelineCase], monkeypatch: pytest.MonkeyPatch) -> None:
    _assert_all_arrives(TypedTables(make_case(), MARIADB), monkeypatch)


@pytest.mark.nightly
def test_every_type_of_mysql_arrives(mysql_case: PipelineCase, monkeypatch: pytest.MonkeyPatch) -> None:
    _assert_all_arrives(TypedTables(mysql_case, MYSQL), monkeypatch)


def test_dates_that_no_calendar_has_arrive_as_null_if_wanted_and_a_decimal_too_wide_for_duckdb_stops_only_there(
    make_case: Callable[..., PipelineCase],
) -> None:
    case = make_case(zero_dates="to_null")
    config = yaml.safe_load(case.file.read_text())
    config["objects"] = {"inline_bytes_max": 0}
    case.file.write_text(yaml.safe_dump(config))
    run(case, iter([
        "CREATE TABLE visits (id INT PRIMARY KEY, d DATE NOT NULL, t DATETIME(6), s TIMESTAMP(6) NULL)",
        f"INSERT INTO visits VALUES {', '.join(_ZEROS)}",
        "CREATE TABLE wide (id INT PRIMARY KEY, d DECIMAL(65,30))",
        f"INSERT INTO wide VALUES (1, -{_WIDEST}), (2, NULL)",
    ]))  # fmt: skip
    case.run_once()
    run(case, iter([
        "INSERT INTO visits SELECT id + 10, d, t, s FROM visits",
        "UPDATE visits SET d = '2024-02-29', t = '0001-01-01' WHERE id = 1",
        "UPDATE visits SET d = 0, t = 0, s = 0 WHERE id = 2",
        "UPDATE visits SET id = 4 WHERE id = 3",
        "ALTER TABLE visits ADD COLUMN e DATE DEFAULT '2024-02-29'",
        f"INSERT INTO wide VALUES (3, {_WIDEST})",
    ]))  # fmt: skip

    case.run_once()

    columns = "id, CAST(d AS VARCHAR) AS d, CAST(t AS VARCHAR) AS t, CAST(s AS VARCHAR) AS s, CAST(e AS VARCHAR) AS e"
    found = case.query(f"SELECT {columns} FROM {case.database}.visits ORDER BY id")
    leap, late = "2024-02-29", "2038-01-19 03:14:07.999999+00"
    assert [tuple(row.values()) for row in found] == [
        (1, leap, "0001-01-01 00:00:00", None, leap),
        (2, None, None, None, leap),
        (4, None, None, None, leap),
        (11, None, None, None, leap),
        (12, leap, None, late, leap),
        (13, None, None, None, leap),
    ]
    with closing(open_pipeline_state(case.spec)) as state:
        stopped = state.stopped_tables("db-to-warehouse")
    assert set(stopped) == {f"{case.database}.wide"}
    assert "duckdb holds 38 decimal digits" in stopped[f"{case.database}.wide"]
    assert _in_files(case, "wide") == {1: Decimal(f"-{_WIDEST}"), 2: None, 3: Decimal(_WIDEST)}


@pytest.mark.nightly
def test_dates_that_no_calendar_has_arrive_as_text_if_wanted(make_case: Callable[..., PipelineCase]) -> None:
    case = make_case(zero_dates="as_text")
    run(case, iter([
        "CREATE TABLE visits (id INT PRIMARY KEY, d DATE NOT NULL, t DATETIME(6), s TIMESTAMP(6) NULL)",
        f"INSERT INTO visits VALUES {', '.join(_ZEROS)}",
        "CREATE TABLE days (d DATE, t DATETIME(3), v INT, PRIMARY KEY (d, t))",
        "INSERT INTO days VALUES (0, 0, 1), ('2024-02-29', 0, 2), (0, '2024-00-15 01:02:03.004', 3)",
    ]))  # fmt: skip
    case.run_once()
    run(case, iter([
        "INSERT INTO visits SELECT id + 10, d, t, s FROM visits",
        "UPDATE visits SET d = '2024-02-29', t = '0001-01-01', s = '2024-02-29' WHERE id = 1",
        "UPDATE visits SET d = 0, t = 0, s = 0 WHERE id = 2",
        "INSERT INTO days VALUES ('2023-02-31', 0, 4)",
        "UPDATE days SET v = 10 WHERE v = 1",
        "UPDATE days SET d = '2024-02-28' WHERE v = 2",
        "DELETE FROM days WHERE v = 3",
        "ALTER TABLE days ADD COLUMN e DATE NOT NULL DEFAULT '2024-02-29'",
        "ALTER TABLE days ADD COLUMN f DATETIME(3) DEFAULT '2024-2-29'",
    ]))  # fmt: skip

    case.run_once()

    for table, columns in (("visits", ("id", "d", "t", "s")), ("days", ("d", "t", "v", "e", "f"))):
        printed = ", ".join(f"CAST({name} AS CHAR)" for name in columns)
        arrived = ", ".join(f"CAST({name} AS VARCHAR) AS {name}" for name in columns)
        found = case.query(f"SELECT {arrived} FROM {case.database}.{table}")
        assert sorted(tuple(row.values()) for row in found) == sorted(ask(case, f"SELECT {printed} FROM {table}"))
    assert case.records("db")[-1]["stopped"] == {}


def _assert_all_arrives(tables: TypedTables, monkeypatch: pytest.MonkeyPatch) -> None:
    """Carry rows by the copy, then changes by the log; compare by SQL of the tests, and as the demo does, in pages."""
    tables.create()
    tables.case.run_once()
    tables.assert_equal()
    tables.change()

    tables.case.run_once()

    assert tables.case.records("db")[-1]["stopped"] == {}
    tables.assert_equal()
    monkeypatch.setattr(warehouse_rows, "_PAGE_ROWS", 3)
    tables.case.assert_equal()


def _in_files(case: PipelineCase, table: str) -> dict[object, object]:
    """Return the column `d` by `id`, as the batch files of a table have it."""
    files = [path for path in case.spec.home.rglob("*.parquet") if f".{table}" in str(path)]
    rows = [row for path in files for row in pq.read_table(path).to_pylist()]
    return {row["id"]: row["d"] for row in rows}
