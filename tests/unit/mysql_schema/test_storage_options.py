from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.mysql.statements.storage_options import without_storage

TAKEN_OUT = {
    "create table t (a int) encryption='Y'": "create table t (a int) encryption='N'",
    "CREATE TABLE t (a INT) /*!80016 ENCRYPTION='Y' */": "CREATE TABLE t (a INT) /*!80016 ENCRYPTION='N' */",
    "ALTER TABLE t ADD b INT, ENCRYPTION 'Y'": "ALTER TABLE t ADD b INT, ENCRYPTION 'N'",
    "CREATE DATABASE d DEFAULT ENCRYPTION = 'Y'": "CREATE DATABASE d DEFAULT ENCRYPTION = 'N'",
    "create table t (a int) `ENCRYPTED`=YES `ENCRYPTION_KEY_ID`=5": (
        "create table t (a int) `ENCRYPTED`=NO `ENCRYPTION_KEY_ID`=1"
    ),
    "CREATE TABLE t (a INT) /*!50100 TABLESPACE `ts` */": (
        "CREATE TABLE t (a INT) /*!50100 TABLESPACE `innodb_file_per_table` */"
    ),
    "create table t (a int) partition by hash (a) (partition p tablespace = ts)": (
        "create table t (a int) partition by hash (a) (partition p tablespace = `innodb_file_per_table`)"
    ),
    "create table t (a text, fulltext key (a) /*!50100 WITH PARSER `mecab` */ )": (
        "create table t (a text, fulltext key (a) /*!50100  */ )"
    ),
}
KEPT = [
    "create table t (encryption varchar(5) default 'Y', tablespace int, parser int)",
    "create table t (encryption char(1), check (encryption = 'Y'), check (`encrypted` = 'Y'))",
    "alter table t add tablespace int, alter encryption set default 'Y'",
    "alter table t comment 'encryption = \\'Y\\''",
    "alter table t discard tablespace",
]


@pytest.mark.parametrize("sql", TAKEN_OUT)
def test_what_a_tracker_may_not_have_is_taken_out(sql: str) -> None:
    assert without_storage(sql) == TAKEN_OUT[sql]


@pytest.mark.parametrize("sql", KEPT)
def test_what_only_looks_so_is_kept(sql: str) -> None:
    assert without_storage(sql) == sql


@given(st.text())
def test_any_text_is_taken(sql: str) -> None:
    without_storage(sql)
