from __future__ import annotations

import pytest

from penstock.core.mysql.origin import tells_whole_life
from penstock.core.tables import TableId

T = TableId("a", "t")
CREATE = "create table t (id int)"

WHOLE = [
    [CREATE],
    [CREATE, "alter table t add x int", "create index i on t (x)"],
    ["drop table if exists t", "create table if not exists t (id int)"],
    ["create database a", "create table if not exists t (id int)"],
    ["drop database if exists a", "create database if not exists a", "create table if not exists t (id int)"],
    ["grant all on *.* to x", "begin", CREATE, "analyze table t"],
    [CREATE, "create table u (id int)", "drop table u", "insert into u values (1)"],
    ["create table u (id int)", "rename table u to v", "alter table v add x int", CREATE],
    [CREATE, "create table t (id int)"],
]
NOT_WHOLE = [
    [],
    ["create table u (id int)"],
    ["create table if not exists t (id int)"],
    ["create database if not exists a", "create table if not exists t (id int)"],
    ["alter table t add x int"],
    [CREATE, "alter table u add x int"],
    [CREATE, "truncate t"],
    [CREATE, "drop table t", CREATE],
    [CREATE, "alter table t rename column a to b"],
    [CREATE, "alter table t drop partition p"],
    [CREATE, "insert into t values (1)"],
    [CREATE, "select f()"],
    ["create table u (id int)", "rename table u to t"],
    ["create or replace table t (id int)"],
    ["create table t select 1"],
    [CREATE, "frobnicate"],
]


def is_whole(statements: list[str]) -> bool:
    return tells_whole_life([(sql, "a") for sql in statements], [T], lambda table: table == T)


@pytest.mark.parametrize("statements", WHOLE)
def test_a_log_that_creates_its_tables_is_whole(statements: list[str]) -> None:
    assert is_whole(statements)


@pytest.mark.parametrize("statements", NOT_WHOLE)
def test_a_log_that_leaves_any_doubt_is_not_whole(statements: list[str]) -> None:
    assert not is_whole(statements)
