"""What a statement makes of each table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.core.mysql.statements.ddl import TableDdl, classify
from penstock.core.mysql.statements.table_effects import (
    TableChange,
    column_renames_of,
    effect_of,
    follow_renames,
    resolve_names,
)
from penstock.core.refusals import Refusal
from penstock.core.schema_changes import SchemaChangeKind
from penstock.core.tables import Column, IntegerType, TableId, TableSchema, TextType

T, U, V = (TableId("shop", name) for name in "tuv")
ID = Column("id", IntegerType(32, unsigned=False), nullable=False, declaration="int(11)")
WIDE = replace(ID, type=IntegerType(64, unsigned=False), declaration="bigint(20)")
SCHEMA = TableSchema(T, (ID,), ("id",))
WIDER = TableSchema(T, (WIDE,), ("id",))
OF_NUMBER = TableSchema(T, (replace(ID, name="number"),), ("number",))
OF_GREAT_NUMBER = TableSchema(T, (replace(ID, name="Number"),), ("Number",))
WITH_B = TableSchema(T, (replace(ID, name="b"),), ("b",))
ANOTHER_KEY = TableSchema(T, (ID,), ())
COUNTED = TableSchema(T, (replace(ID, is_auto_increment=True),), ("id",))
OF_SEQUENCE = TableSchema(T, (replace(ID, default_is_expression=True),), ("id",))
COUNTED_ON = TableSchema(T, (replace(ID, default_is_expression=True, is_auto_increment=True),), ("id",))
NAME = Column("name", TextType(9, "utf8mb4"), nullable=True, declaration="varchar(9)", collation="utf8mb4_general_ci")
IS_X = replace(ID, name="is_x", declaration="int GENERATED ALWAYS AS (`name` = 'x') STORED")
COMPUTED = TableSchema(T, (ID, NAME, IS_X), ("id",))
COMPUTED_IN_BINARY = TableSchema(T, (ID, replace(NAME, collation="utf8mb4_bin"), IS_X), ("id",))
ONLY_NAME = TableSchema(T, (ID, NAME), ("id",))
ONLY_NAME_IN_BINARY = TableSchema(T, (ID, replace(NAME, collation="utf8mb4_bin")), ("id",))


def ddl(sql: str) -> TableDdl:
    found = classify(sql)
    assert isinstance(found, TableDdl)
    return found


@pytest.mark.parametrize(
    ("sql", "change", "effect"),
    [
        ("truncate t", TableChange(SCHEMA, SCHEMA, named=True), SchemaChangeKind.TRUNCATE),
        ("truncate u", TableChange(SCHEMA, SCHEMA, named=False), None),
        ("drop table t", TableChange(SCHEMA, None, named=True), SchemaChangeKind.DROP),
        ("drop database shop", TableChange(SCHEMA, None, named=False), SchemaChangeKind.DROP),
        ("rename table t to other.t", TableChange(SCHEMA, None, named=True), SchemaChangeKind.DROP),
        ("create table t (id int)", TableChange(None, SCHEMA, named=True), SchemaChangeKind.CREATE),
        ("create table t like u", TableChange(None, SCHEMA, named=True), SchemaChangeKind.CREATE),
        ("create or replace table t (id int)", TableChange(SCHEMA, SCHEMA, named=True), SchemaChangeKind.CREATE),
        ("create table if not exists t (id int)", TableChange(SCHEMA, SCHEMA, named=True), None),
        ("alter table t modify id bigint", TableChange(SCHEMA, WIDER, named=True), SchemaChangeKind.SCHEMA),
        ("alter table t change id number int", TableChange(SCHEMA, OF_NUMBER, named=True), SchemaChangeKind.SCHEMA),
        ("alter table t comment 'x'", TableChange(SCHEMA, SCHEMA, named=True), None),
        ("alter table t drop a, change b id int", TableChange(WITH_B, SCHEMA, named=True), SchemaChangeKind.SCHEMA),
        ("alter table t drop b, add b int", TableChange(SCHEMA, SCHEMA, named=True), None),
        ("alter table t auto_increment = 9", TableChange(COUNTED, COUNTED, named=True), None),
        ("alter table t modify id int", TableChange(COUNTED, SCHEMA, named=True), None),
        (
            "alter table t modify name varchar(9) collate utf8mb4_bin",
            TableChange(ONLY_NAME, ONLY_NAME_IN_BINARY, named=True),
            None,
        ),
        ("alter table t drop primary key", TableChange(SCHEMA, ANOTHER_KEY, named=True), SchemaChangeKind.SCHEMA),
        (
            "alter table u rename t, drop primary key",
            TableChange(None, ANOTHER_KEY, named=True, origin=U, moved=SCHEMA),
            SchemaChangeKind.RENAME,
        ),
        ("rename table u to t", TableChange(None, SCHEMA, named=True, origin=U, moved=SCHEMA), SchemaChangeKind.RENAME),
        (
            "rename table t to v, u to t",
            TableChange(SCHEMA, WIDER, named=True, origin=U, moved=WIDER),
            SchemaChangeKind.RENAME,
        ),
        (
            "alter table u rename t, modify id bigint",
            TableChange(None, WIDER, named=True, origin=U, moved=SCHEMA),
            SchemaChangeKind.RENAME,
        ),
    ],
)
def test_what_becomes_of_a_table_is_told(sql: str, change: TableChange, effect: SchemaChangeKind | None) -> None:
    assert effect_of(ddl(sql), change) == effect


@pytest.mark.parametrize(
    ("sql", "change", "reason"),
    [
        (
            "rename table u to t",
            TableChange(SCHEMA, SCHEMA, named=True, origin=U),
            "the rows of shop.u, which was not carried",
        ),
        (
            "alter table u rename t",
            TableChange(None, SCHEMA, named=True, origin=U),
            "the rows of shop.u, which was not carried",
        ),
        ("create table t select 1", TableChange(None, SCHEMA, named=True), "as from a query"),
        (
            "alter table u convert partition p to table t",
            TableChange(None, SCHEMA, named=True),
            "rows in it that are not",
        ),
        ("alter table t change id number bigint", TableChange(WIDER, OF_NUMBER, named=True), "does not hold every"),
        (
            "alter table t rename column id to x",
            TableChange(SCHEMA, OF_NUMBER, named=True),
            "had or has no such column",
        ),
        (
            "alter table u rename t, rename column a to b",
            TableChange(None, SCHEMA, named=True, origin=U, moved=SCHEMA),
            "other names at once",
        ),
        (
            "alter table u rename t, modify Number int",
            TableChange(None, OF_GREAT_NUMBER, named=True, origin=U, moved=OF_NUMBER),
            "other names at once",
        ),
        ("alter table t drop partition p", TableChange(SCHEMA, SCHEMA, named=True), "without a row event"),
        (
            "alter ignore table u add unique (a), rename t",
            TableChange(None, SCHEMA, named=True, origin=U, moved=SCHEMA),
            "without a row event",
        ),
        ("alter table t modify id serial", TableChange(SCHEMA, COUNTED, named=True), "AUTO_INCREMENT"),
        (
            "alter table t modify id int auto_increment",
            TableChange(OF_SEQUENCE, COUNTED_ON, named=True),
            "AUTO_INCREMENT",
        ),
        (
            "alter table t modify name varchar(9) collate utf8mb4_bin",
            TableChange(COMPUTED, COMPUTED_IN_BINARY, named=True),
            "computed from name, which changed from varchar(9) utf8mb4_general_ci to varchar(9) utf8mb4_bin",
        ),
        ("alter table t drop id, add ID int", TableChange(SCHEMA, SCHEMA, named=True), "added it again"),
        (
            "alter table u drop column if exists id, add id int, rename t",
            TableChange(None, SCHEMA, named=True, origin=U, moved=SCHEMA),
            "added it again",
        ),
        ("alter table t modify id int", TableChange(WIDER, SCHEMA, named=True), "does not hold every value"),
    ],
)
def test_what_only_a_copy_could_tell_is_refused(sql: str, change: TableChange, reason: str) -> None:
    found = effect_of(ddl(sql), change)

    assert isinstance(found, Refusal)
    assert reason in found.reason


def test_renames_are_followed_one_after_the_other() -> None:
    assert follow_renames([(T, V), (U, T)], [T, U]) == {V: T, T: U}
    assert follow_renames([(T, V), (U, T), (V, U)], [T, U]) == {T: U, U: T}
    assert follow_renames([(T, V), (V, T)], [T]) == {}
    assert follow_renames([(V, U)], [T]) == {}


def test_names_are_found_in_the_default_schema_and_in_another_case_where_there_is_no_other() -> None:
    tables = [T, TableId("shop", "U"), U]

    found = resolve_names(
        [(None, "t"), ("SHOP", "T"), (None, "U"), (None, "u"), ("x", "y")], "shop", tables, folds=True
    )

    assert found == [T, T, TableId("shop", "U"), U, TableId("x", "y")]


def test_where_case_counts_a_name_is_none_of_another_case() -> None:
    found = resolve_names([(None, "t"), (None, "T"), ("SHOP", "t")], "shop", [T, U], folds=False)

    assert found == [T, TableId("shop", "T"), TableId("SHOP", "t")]


def columns(*names: str) -> TableSchema:
    return TableSchema(T, tuple(replace(ID, name=name) for name in names), (names[0],))


@pytest.mark.parametrize(
    ("before", "after", "sql", "renames"),
    [
        ("ab", "ba", "rename column a to b, rename column b to a", (("a", "b"), ("b", "a"))),
        ("ab", "aC", "change B C int", (("b", "C"),)),
        ("ab", "aB", "change b B int", (("b", "B"),)),
        ("ab", "aB", "modify B int", (("b", "B"),)),
        ("abc", "bAC", "modify A int after b, change c C int", (("c", "C"), ("a", "A"))),
        ("ab", "b", "drop b, change a b int", (("a", "b"),)),
        ("ab", "B", "drop b, change a B int", (("a", "B"),)),
        ("ab", "ab", "change if exists x y int", ()),
        ("ab", "ab", "change if exists x a int", ()),
    ],
)
def test_the_columns_that_got_another_name_are_told_as_the_tables_spell_them(
    before: str, after: str, sql: str, renames: tuple[tuple[str, str], ...]
) -> None:
    change = TableChange(columns(*before), columns(*after), named=True)

    assert column_renames_of(ddl(f"alter table t {sql}"), change) == renames
    renamed = columns(*before).with_columns_renamed(renames)
    assert {c.name for c in renamed.columns} == set(after)
