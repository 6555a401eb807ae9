"""MariaDB's system-versioned tables arrive with their history, by the copy and by the log."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers.pipeline.conftest import PipelineCase

_PERIOD: Final = (
    "s TIMESTAMP(6) GENERATED ALWAYS AS ROW START{0}, e TIMESTAMP(6) GENERATED ALWAYS AS ROW END{0}, "
    "PERIOD FOR SYSTEM_TIME (s, e)"
)
_TABLES: Final = {
    "hidden": ("id INT PRIMARY KEY, v INT", "id, v, row_start, row_end"),
    "shown": (f"id INT PRIMARY KEY, v INT, {_PERIOD.format('')}", "id, v, s, e"),
    "invisible": (f"id INT, v INT, {_PERIOD.format(' INVISIBLE')}, PRIMARY KEY (id)", "id, v, s, e"),
}
_CHANGES: Final = (
    "INSERT INTO {0} (id, v) VALUES ({1}1, 10), ({1}2, 20), ({1}3, 30)",
    "UPDATE {0} SET v = v + 1 WHERE id < {1}3",
    "UPDATE {0} SET id = {1}7 WHERE id = {1}2",
    "DELETE FROM {0} WHERE id = {1}1",
    "REPLACE INTO {0} (id, v) VALUES ({1}3, 33)",
    "INSERT INTO {0} (id, v) VALUES ({1}3, 0) ON DUPLICATE KEY UPDATE v = 34",
)


def test_every_row_that_there_ever_was_arrives_with_its_period(make_case: Callable[..., PipelineCase]) -> None:
    case = make_case()
    for table, (columns, _) in _TABLES.items():
        case.write(f"CREATE TABLE {table} ({columns}) WITH SYSTEM VERSIONING")
        case.write(*(change.format(table, "") for change in _CHANGES))
    case.run_once()
    assert_equal(case)
    for table in _TABLES:
        case.write(*(change.format(table, "1") for change in _CHANGES), f"DELETE FROM {table} WHERE id = 7")

    case.run_once()

    assert case.records("db")[-1]["stopped"] == {}
    assert_equal(case)


def test_history_is_deleted_and_a_column_added_as_in_the_source(make_case: Callable[..., PipelineCase]) -> None:
    case = make_case()
    case.write("CREATE TABLE hidden (id INT PRIMARY KEY, v INT) WITH SYSTEM VERSIONING")
    case.write(*(change.format("hidden", "") for change in _CHANGES))
    case.run_once()
    with closing(case.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION system_versioning_alter_history = KEEP")
        cursor.execute("ALTER TABLE hidden ADD COLUMN w INT DEFAULT 5")
        cursor.execute("UPDATE hidden SET w = 6 WHERE id = 3")
        cursor.execute("DELETE HISTORY FROM hidden BEFORE SYSTEM_TIME NOW(6)")
        cursor.execute("UPDATE hidden SET w = 7 WHERE id = 7")

    case.run_once()

    assert case.records("db")[-1]["stopped"] == {}
    assert_equal(case, {"hidden": "id, v, w, row_start, row_end"})


def test_a_table_that_becomes_versioned_stops(make_case: Callable[..., PipelineCase]) -> None:
    case = make_case()
    case.write("CREATE TABLE hidden (id INT PRIMARY KEY, v INT)", "INSERT INTO hidden VALUES (1, 10)")
    case.run_once()
    case.write("ALTER TABLE hidden ADD SYSTEM VERSIONING", "UPDATE hidden SET v = 11")

    case.run_once()

    (stopped,) = case.records("db")[-1]["stopped"].values()
    assert "primary key" in stopped["error"]


def assert_equal(case: PipelineCase, tables: dict[str, str] | None = None) -> None:
    """Source and warehouse hold the same rows and periods, more of them than a SELECT shows, and know which are now."""
    for table, columns in (tables or {name: columns for name, (_, columns) in _TABLES.items()}).items():
        end = columns.rpartition(" ")[2]
        printed = columns.replace(end, f"UNIX_TIMESTAMP({end}) * 1000000")
        arrived = columns.replace(end, f"epoch_us({end}) AS {end}")
        start = columns.split(", ")[-2]
        printed = printed.replace(f" {start},", f" UNIX_TIMESTAMP({start}) * 1000000,")
        arrived = arrived.replace(f" {start},", f" epoch_us({start}) AS {start},")
        with closing(case.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00'")
            cursor.execute(f"SELECT {printed} FROM {table} FOR SYSTEM_TIME ALL")
            expected = sorted(tuple(map(int, row)) for row in cursor.fetchall())
            cursor.execute(f"SELECT id, v FROM {table}")
            now = sorted(cursor.fetchall())
        found = case.query(f"SELECT {arrived} FROM {case.database}.{table}")
        assert sorted(tuple(row.values()) for row in found) == expected, table
        newest = f"SELECT id, v FROM {case.database}.{table} WHERE {end} = '2038-01-19 03:14:07.999999+00'"
        assert sorted(tuple(row.values()) for row in case.query(newest)) == now, table
        assert len(expected) > len(now), table
