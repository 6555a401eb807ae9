"""Statements that empty, drop, make anew and rename tables, from end to end."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers.pipeline.conftest import PipelineCase

FIRST = (
    "CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(40))",
    "INSERT INTO orders SELECT seq, 'first' FROM seq_1_to_500",
    "CREATE TABLE audit (who VARCHAR(20), what INT)",
    "INSERT INTO audit VALUES ('a', 1), ('a', 1), (NULL, 2)",
    "CREATE TABLE gone (id INT PRIMARY KEY)",
    "INSERT INTO gone VALUES (1), (2)",
)
EMPTIED = (
    "INSERT INTO orders SELECT seq, 'before' FROM seq_501_to_700",
    "INSERT INTO audit VALUES ('b', 3)",
    "TRUNCATE /* nightly */ TABLE orders",
    "TRUNCATE audit",
    "INSERT INTO orders SELECT seq, 'behind' FROM seq_1_to_300",
    "INSERT INTO audit VALUES ('a', 1), ('c', 4)",
    "UPDATE orders SET note = 'changed' WHERE id % 7 = 0",
    "TRUNCATE TABLE orders",
    "ALTER TABLE orders ADD COLUMN karma INT NOT NULL DEFAULT 7",
    "INSERT INTO orders (id, note) SELECT seq, 'last' FROM seq_100_to_250",
    "DELETE FROM audit WHERE who = 'c'",
    "INSERT INTO gone VALUES (3)",
    "DROP TABLE gone",
)
MADE_ANEW = (
    "DROP TABLE orders, audit",
    "CREATE TABLE audit (who VARCHAR(9) PRIMARY KEY)",
    "INSERT INTO audit VALUES ('keyed')",
    "CREATE TABLE orders (id VARCHAR(20) PRIMARY KEY, price DECIMAL(9,2))",
    "INSERT INTO orders SELECT CONCAT('o', seq), seq / 4 FROM seq_1_to_90",
    "CREATE TABLE gone AS SELECT seq AS id, 'again' AS note FROM seq_1_to_5",
    "CREATE OR REPLACE TABLE audit AS SELECT 'no key' AS who",
    "INSERT INTO audit VALUES ('more')",
)


def test_tables_are_emptied_dropped_and_made_anew_in_the_order_of_the_log(
    make_case: Callable[..., PipelineCase],
) -> None:
    case = make_case(partitions=3)
    case.write(*FIRST)
    case.run_once()
    case.write(*EMPTIED)
    case.run_once()

    assert case.records("db")[-1]["stopped"] == {}
    compared = case.compare()
    assert {name: c.examples for name, c in compared.items() if name != "gone"} == {"orders": (), "audit": ()}
    assert case.query(f"SELECT id FROM {case.database}.gone ORDER BY id") == [{"id": 1}, {"id": 2}, {"id": 3}]
    assert "its rows are kept here" in case.notes()[f"{case.database}.gone"]

    case.write(*MADE_ANEW)
    case.run_once()

    assert case.records("db")[-1]["stopped"] == {}
    case.assert_equal()
    assert set(case.compare()) == {"orders", "audit", "gone"}
    assert case.notes() == {}
