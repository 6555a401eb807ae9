from __future__ import annotations

import pytest

from penstock.core.mysql.statements.foreign_keys import Cascade, with_children
from penstock.core.mysql.statements.sql_tokens import query_of, read_tokens
from penstock.core.mysql.statements.statement_reach import (
    changes_old_rows,
    foreign_call,
    named_anywhere,
    stays_inside,
)
from penstock.core.tables import TableId


@pytest.mark.parametrize(
    ("sql", "call"),
    [
        ("INSERT INTO t VALUES (1), (2)", ""),
        ("INSERT INTO t (a, b) VALUES (1, UPPER('f(x)')) ON DUPLICATE KEY UPDATE a = VALUES(a)", ""),
        ("REPLACE INTO `s`.`t` (a) SELECT COUNT(*) FROM u FORCE INDEX (`PRIMARY`) WHERE a IN (1)", ""),
        ("SET STATEMENT max_statement_time=1 FOR INSERT INTO put (a) VALUES (1)", ""),
        ("ANALYZE FORMAT=JSON INSERT INTO put (a) VALUES (1)", ""),
        ("ANALYZE INSERT INTO t (a) VALUES (put(1))", "put"),
        ("LOAD DATA INFILE 'x' INTO TABLE `t` LINES TERMINATED BY '\\n' (`a`, @`b`) SET b = TRIM(@b)", ""),
        ("DELETE FROM t WHERE a = 1 /* f(1) */", ""),
        ("INSERT INTO t VALUES (put(1))", "put"),
        ("INSERT INTO t VALUES (put (1))", "put"),
        ("INSERT INTO t VALUES (`put`(1))", "put"),
        ('INSERT INTO t VALUES ("put"(1))', "put"),
        ("INSERT INTO t VALUES (s.upper('a'))", "upper"),
        ("INSERT INTO t VALUES (count (1))", "count"),
        ("INSERT INTO t VALUES (/*! put(1) */)", "put"),
        ("INSERT INTO put SELECT put(1)", "put"),
        ("UPDATE t SET a = 1 WHERE EXISTS (SELECT put(1))", "put"),
        ("LOAD DATA INFILE 'x' INTO TABLE t (a) SET b = put(a)", "put"),
    ],
)
def test_a_call_of_what_no_server_has_built_in_is_found(sql: str, call: str) -> None:
    assert foreign_call(read_tokens(sql)) == call


@pytest.mark.parametrize(
    ("sql", "written", "stays"),
    [
        ("INSERT INTO mysql.beat VALUES (1) ON DUPLICATE KEY UPDATE a = 2", ["mysql"], True),
        ("DELETE FROM mysql.beat WHERE name = 'SELECT'", ["mysql"], True),
        ("UPDATE mysql.beat, shop.t SET t.a = 1", ["mysql", "shop"], False),
        ("INSERT INTO mysql.beat SELECT a FROM shop.v", ["mysql"], False),
        ("INSERT INTO mysql.beat TABLE shop.v", ["mysql"], False),
        ("INSERT INTO sys.sys_config VALUES (1)", ["sys"], False),
        ("SELECT 1", [], False),
    ],
)
def test_a_write_to_the_servers_own_schema_reaches_nothing_else(sql: str, written: list[str], *, stays: bool) -> None:
    assert stays_inside(read_tokens(sql), [TableId(schema, "beat") for schema in written]) is stays


def test_names_are_found_with_the_schema_before_them_or_the_default_one() -> None:
    names = named_anywhere(read_tokens("INSERT INTO a.b SELECT c.d, \"e\" FROM `f` JOIN g.h WHERE 12 = 'i'"), "shop")

    assert {TableId("a", "b"), TableId("g", "h"), TableId("shop", "f"), TableId("shop", "e")} <= set(names)
    assert not {"12", "i"} & {name.name for name in names}


@pytest.mark.parametrize(
    ("sql", "call"),
    [
        ("CREATE TABLE put (a INT(11), KEY k (a)) SELECT 1 AS a", ""),
        ("CREATE TEMPORARY TABLE t (a INT(11)) AS (SELECT put(1) AS a)", "put"),
        ("CREATE TABLE t WITH c AS (SELECT put(1) AS a) SELECT a FROM c", "put"),
        ("CREATE TEMPORARY TABLE t (a INT DEFAULT (put(1)))", ""),
        ("CREATE TABLE t TABLE v", ""),
        ("CREATE TABLE t (a INT) VALUES (1), (put(2))", "put"),
    ],
)
def test_calls_of_a_table_that_is_created_are_those_of_its_query(sql: str, call: str) -> None:
    assert foreign_call(query_of(read_tokens(sql))) == call


@pytest.mark.parametrize(
    ("sql", "changes"),
    [
        ("INSERT INTO t VALUES ('UPDATE')", False),
        ("INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE a = 2", True),
        ("REPLACE INTO t VALUES (1)", True),
        ("LOAD DATA INFILE 'x' REPLACE INTO TABLE t", True),
        ("LOAD DATA INFILE 'x' INTO TABLE t", False),
        ("DELETE FROM t", True),
    ],
)
def test_foreign_keys_act_where_rows_change_that_were_there(sql: str, *, changes: bool) -> None:
    assert changes_old_rows(read_tokens(sql)) == changes


def test_children_of_children_change_too_and_a_circle_ends() -> None:
    a, b, c, d = (TableId("shop", name) for name in "abcd")
    cascades = [Cascade(b, "1", a), Cascade(c, "2", b), Cascade(a, "3", c), Cascade(d, "4", d)]

    assert with_children([a], cascades) == {a, b, c}
    assert with_children([d], cascades) == {d}
