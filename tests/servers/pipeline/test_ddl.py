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
    "CREATE TABLE users (id INT PRIMARY KEY, name VARCHAR(20), note VARCHAR(20))",
    "INSERT INTO users SELECT seq, CONCAT('n', seq), 'x' FROM seq_1_to_400",
    "CREATE TABLE a (id INT PRIMARY KEY, note VARCHAR(20))",
    "CREATE TABLE b LIKE a",
    "INSERT INTO a VALUES (1, 'a'), (2, 'a')",
    "INSERT INTO b VALUES (2, 'b'), (3, 'b'), (4, 'b')",
    "CREATE TABLE log (what VARCHAR(9))",
    "INSERT INTO log VALUES ('one'), ('one')",
    "CREATE TABLE keyed (id INT PRIMARY KEY, code INT NOT NULL, note VARCHAR(20))",
    "INSERT INTO keyed SELECT seq, 1000 - seq, 'first' FROM seq_1_to_300",
    "CREATE TABLE keyless (code INT NOT NULL, note VARCHAR(20))",
    "INSERT INTO keyless VALUES (1, 'a'), (2, 'b'), (3, 'c')",
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
    # As gh-ost and pt-online-schema-change do it: a shadow table with the new shape, filled, kept up and swapped in.
    "CREATE TABLE _users_gho LIKE users",
    "ALTER TABLE _users_gho ADD COLUMN score BIGINT NOT NULL DEFAULT 0, DROP COLUMN note",
    "INSERT INTO _users_gho (id, name) SELECT id, name FROM users",
    "UPDATE users SET name = 'in both' WHERE id % 3 = 0",
    "UPDATE _users_gho SET name = 'in both' WHERE id % 3 = 0",
    "RENAME /* gh-ost */ TABLE users TO _users_del, _users_gho TO users",
    "INSERT INTO users SELECT seq, 'behind the swap', seq FROM seq_401_to_450",
    "DELETE FROM users WHERE id % 5 = 0",
    "RENAME TABLE a TO hold, b TO a, hold TO b",
    "UPDATE a SET note = 'was b, is a'",
    "ALTER TABLE a CHANGE note remark VARCHAR(30), RENAME COLUMN id TO number, ADD COLUMN id INT",
    "UPDATE a SET remark = 'changed', id = 5 WHERE number = 3",
    "INSERT INTO b VALUES (7, 'was a, is b')",
    "ALTER TABLE log RENAME TO old_log, ADD COLUMN more INT",
    "INSERT INTO old_log VALUES ('two', 2)",
    "CREATE TABLE log (what VARCHAR(9))",
    "INSERT INTO log VALUES ('new')",
    "UPDATE keyed SET note = 'by id' WHERE id % 3 = 0",
    "ALTER TABLE keyed DROP PRIMARY KEY, ADD PRIMARY KEY (code)",
    "UPDATE keyed SET note = 'by code', id = id + 1000 WHERE code % 4 = 0",
    "UPDATE keyed SET code = code + 5000 WHERE code % 5 = 0",
    "DELETE FROM keyed WHERE code % 7 = 0",
    "ALTER TABLE keyed DROP PRIMARY KEY, ADD PRIMARY KEY (id, code), ADD COLUMN more INT DEFAULT 3",
    "INSERT INTO keyed VALUES (1, 1, 'twice', 4), (1, 2, 'twice', 5)",
    "DELETE FROM keyless WHERE code = 2",
    "ALTER TABLE keyless ADD PRIMARY KEY (code)",
    "UPDATE keyless SET note = 'changed' WHERE code = 3",
    "INSERT INTO keyless VALUES (2, 'again')",
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
    "DROP TABLE _users_del, a, log, old_log",
    # A table that stopped goes on once it is made anew.
    "ALTER TABLE b MODIFY note VARCHAR(15)",
    "ALTER TABLE keyed DROP PRIMARY KEY",
    "INSERT INTO keyed VALUES (1, 1, 'twice', 4)",
    "INSERT INTO b VALUES (8, 'not carried')",
    "DROP TABLE b",
    "CREATE TABLE b (id BIGINT PRIMARY KEY)",
    "INSERT INTO b VALUES (9)",
    "CREATE TABLE hidden_users LIKE users",
    "INSERT INTO hidden_users VALUES (1, 'not carried', 2)",
    "RENAME TABLE users TO _users_old, hidden_users TO users",
    "INSERT INTO users VALUES (2, 'nor this', 2)",
    # Without strict mode the source makes 0 of NULL, which is no row in the log.
    "CREATE TABLE with_null (id INT PRIMARY KEY, v INT)",
    "INSERT INTO with_null VALUES (1, NULL)",
    "SET SESSION sql_mode = ''",
    "ALTER TABLE with_null MODIFY v INT NOT NULL",
)


def test_tables_are_emptied_dropped_made_anew_and_renamed_in_the_order_of_the_log(
    make_case: Callable[..., PipelineCase], fresh_database: str
) -> None:
    case = make_case(partitions=3, tables=[f"{fresh_database}.*", f"!{fresh_database}.hidden_*"])
    case.write(*FIRST)
    case.run_once()
    case.write(*EMPTIED)
    case.run_once()

    assert case.records("db")[-1]["stopped"] == {}
    whole = {"orders", "audit", "users", "_users_del", "a", "b", "log", "old_log", "keyed", "keyless"}
    assert {name: c.examples for name, c in case.compare().items() if name in whole} == dict.fromkeys(whole, ())
    assert case.query(f"SELECT id FROM {case.database}.gone ORDER BY id") == [{"id": 1}, {"id": 2}, {"id": 3}]
    assert set(case.notes()) == {f"{case.database}.gone", f"{case.database}._users_gho"}
    assert "its rows are kept here" in case.notes()[f"{case.database}.gone"]

    case.write(*MADE_ANEW)
    case.run_once()

    stopped = case.records("db")[-1]["stopped"]
    assert set(stopped) == {f"{case.database}.users", f"{case.database}.with_null"}
    assert "without strict mode" in stopped[f"{case.database}.with_null"]["error"]
    assert f"{case.database}.hidden_users, which was not carried" in stopped[f"{case.database}.users"]["error"]
    anew = {"orders", "audit", "gone", "_users_old", "b", "keyed"}
    assert {name: c.examples for name, c in case.compare().items() if name in anew} == dict.fromkeys(anew, ())
    assert not anew & {name.rpartition(".")[2] for name in case.notes()}
