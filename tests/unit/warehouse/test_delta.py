"""The exact SQL that Spark is given for Delta tables, read by a parser of its dialect, and changes of a table's log."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import sqlglot

from penstock.core.errors import TableStoppedError
from penstock.core.tables import (
    BytesType,
    Column,
    ColumnType,
    DateTimeType,
    DateType,
    DecimalType,
    EnumType,
    FloatType,
    IntegerType,
    TableId,
    TableSchema,
    TextType,
    TimeType,
    VectorType,
)
from penstock.core.warehouse.delta import (
    at_path,
    check_table,
    plan_append,
    plan_delta_merge,
    plan_no_rows,
    plan_rewrite,
    plan_truncate_entry,
)
from penstock.core.warehouse.delta_schema import amend_metadata, changes_in_log_alone
from penstock.core.warehouse.target_table import LogPlace

INT = IntegerType(32, unsigned=False)
LONG = IntegerType(64, unsigned=False)
ID = Column("id", INT, nullable=False)
NAME = Column("na`me", TextType(20, "utf8mb4"), nullable=True)
PATH = "`delta`.`file:///lake/w/t`"
LOG = (("_op", "string"), ("_file", "string"), ("_pos", "long"), ("_row", "integer"), ("_committed_at", "timestamp"))


def table(*columns: Column, key: tuple[str, ...] = ("id",)) -> TableSchema:
    return TableSchema(TableId("w", "t"), columns, key)


def column(type_: ColumnType, default: str | None = None, *, nullable: bool = True) -> Column:
    return Column("c", type_, nullable=nullable, default=default)


def parsed(statement: str) -> str:
    assert sqlglot.parse_one(statement, dialect="databricks").sql()
    return statement


def test_a_merge_takes_the_newest_change_of_each_key_and_drops_deletes() -> None:
    arriving = table(ID, NAME)
    statement = parsed(
        plan_delta_merge(at_path(table(ID, NAME, column(LONG, default="7")), PATH), arriving, "`staged`")
    )

    latest = "SELECT `id`, MAX(`__penstock_offset`) AS `__penstock_offset` FROM `staged` GROUP BY `id`"
    assert statement == (
        f"MERGE INTO {PATH} AS t USING (SELECT s.* FROM `staged` AS s JOIN ({latest}) AS latest "
        "ON s.`id` = latest.`id` AND s.`__penstock_offset` = latest.`__penstock_offset`) AS s ON s.`id` = t.`id` "
        "WHEN MATCHED AND s.`__penstock_op` = 'd' THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET t.`id` = s.`id`, t.`na``me` = s.`na``me`, t.`c` = CAST('7' AS BIGINT) "
        "WHEN NOT MATCHED AND NOT (s.`__penstock_op` = 'd') THEN INSERT (`id`, `na``me`, `c`) "
        "VALUES (s.`id`, s.`na``me`, CAST('7' AS BIGINT))"
    )


def test_a_merge_with_soft_deletes_keeps_rows_and_says_when_they_went() -> None:
    target = at_path(table(ID), PATH, "soft")
    deleted_at = "CASE WHEN s.`__penstock_op` = 'd' THEN TIMESTAMP_MILLIS(s.`__penstock_ts_ms`) END"

    statement = parsed(plan_delta_merge(target, table(ID), "`staged`"))

    assert statement.rpartition(" AS s ON ")[2] == (
        f"s.`id` = t.`id` WHEN MATCHED THEN UPDATE SET t.`id` = s.`id`, t.`_deleted_at` = {deleted_at} "
        f"WHEN NOT MATCHED THEN INSERT (`id`, `_deleted_at`) VALUES (s.`id`, {deleted_at})"
    )
    assert parsed(plan_no_rows(target)) == (
        "SELECT CAST(NULL AS INT) AS `id`, CAST(NULL AS TIMESTAMP) AS `_deleted_at` WHERE 1 = 0"
    )
    assert parsed(plan_rewrite(target, (), table(ID, column(INT, default="1")))) == (
        "SELECT s.`id` AS `id`, CAST('1' AS INT) AS `c`, s.`_deleted_at` AS `_deleted_at` "
        f"FROM (SELECT `id` AS `id`, `_deleted_at` AS `_deleted_at` FROM {PATH}) AS s"
    )


def test_a_change_log_gets_entries_and_says_where_it_was_emptied() -> None:
    log = table(ID, key=())

    assert parsed(plan_append(log, log, "`staged`")) == (
        "SELECT s.`id` AS `id`, s.`__penstock_op` AS `_op`, s.`__penstock_file` AS `_file`, s.`__penstock_pos` AS "
        "`_pos`, s.`__penstock_row` AS `_row`, TIMESTAMP_MILLIS(s.`__penstock_ts_ms`) AS `_committed_at` "
        "FROM `staged` AS s"
    )
    assert parsed(plan_truncate_entry(log, LogPlace("b\\in'1", 4, 0, 5))) == (
        "SELECT CAST(NULL AS INT) AS `id`, 't' AS `_op`, 'b\\\\in''1' AS `_file`, CAST(4 AS BIGINT) AS `_pos`, "
        "CAST(0 AS INT) AS `_row`, TIMESTAMP_MILLIS(5) AS `_committed_at`"
    )


def test_a_table_is_made_by_a_query_without_rows() -> None:
    assert parsed(plan_no_rows(at_path(table(ID, NAME), PATH))) == (
        "SELECT CAST(NULL AS INT) AS `id`, CAST(NULL AS STRING) AS `na``me` WHERE 1 = 0"
    )
    with pytest.raises(TableStoppedError, match="delta holds 38 decimal digits"):
        check_table(table(ID, column(DecimalType(39, 0))), "hard")


def test_a_rewrite_renames_casts_and_fills() -> None:
    before = table(ID, Column("a", INT, nullable=True), Column("b", INT, nullable=True))
    new = (column(BytesType(2, fixed=False), default="x"), Column("d", LONG, nullable=True))
    after = table(ID, Column("b", DecimalType(12, 2), nullable=True), *new)

    assert parsed(plan_rewrite(at_path(before, PATH), [("a", "b")], after)) == (
        "SELECT s.`id` AS `id`, CAST(s.`b` AS DECIMAL(12, 2)) AS `b`, X'78' AS `c`, CAST(NULL AS BIGINT) AS `d` "
        f"FROM (SELECT `id` AS `id`, `a` AS `b` FROM {PATH}) AS s"
    )


@pytest.mark.parametrize(
    ("old", "new", "light"),
    [
        (INT, LONG, True),
        (IntegerType(8, unsigned=False), IntegerType(16, unsigned=True), True),
        (LONG, IntegerType(64, unsigned=True), True),
        (INT, DecimalType(12, 2), True),
        (IntegerType(8, unsigned=False), DecimalType(5, 2), False),
        (DecimalType(5, 2), DecimalType(7, 3), True),
        (FloatType(32), FloatType(64), True),
        (INT, FloatType(64), False),
        (DateType(), DateTimeType(3), True),
        (TimeType(0), TimeType(6), True),
        (EnumType(("a",)), TextType(5, "utf8mb4"), True),
    ],
)
def test_what_delta_widens_is_a_change_of_the_log_alone(*, old: ColumnType, new: ColumnType, light: bool) -> None:
    assert changes_in_log_alone(table(ID, column(old)), table(ID, column(new))) is light


def test_only_columns_that_are_null_in_old_rows_come_without_new_files() -> None:
    assert changes_in_log_alone(table(ID), table(ID, column(INT)))
    assert not changes_in_log_alone(table(ID), table(ID, column(INT, default="1")))
    assert not changes_in_log_alone(table(ID), table(ID, column(INT, nullable=False)))


def test_columns_swap_names_go_come_and_widen_in_one_change_of_the_log() -> None:
    fields = [
        {"name": name, "type": type_, "nullable": True, "metadata": {"delta.columnMapping.physicalName": f"p-{name}"}}
        for name, type_ in (("id", "integer"), ("a", "string"), ("b", "integer"), ("old", "date"), *LOG)
    ]
    schema = json.dumps({"type": "struct", "fields": fields})
    metadata = json.dumps({"metaData": {"schemaString": schema, "configuration": {}}})
    after = table(
        ID,
        Column("b", TextType(9, "ascii"), nullable=True, comment="it's b"),
        Column("a", LONG, nullable=True),
        column(VectorType(3)),
    )

    keyed = json.loads(amend_metadata(metadata, [("a", "b"), ("b", "a")], replace(after, comment="all")))["metaData"]
    log = json.loads(amend_metadata(metadata, [("a", "b"), ("b", "a")], replace(after, key=())))["metaData"]

    found = {field["name"]: field for field in json.loads(keyed["schemaString"])["fields"]}
    assert list(found) == ["id", "b", "a", "c"]
    assert found["b"]["metadata"] == {"delta.columnMapping.physicalName": "p-a", "comment": "it's b"}
    assert found["a"]["type"] == "long"
    assert found["a"]["metadata"]["delta.typeChanges"] == [{"fromType": "integer", "toType": "long"}]
    assert found["c"] == {
        "name": "c",
        "type": {"type": "array", "elementType": "float", "containsNull": True},
        "nullable": True,
        "metadata": {},
    }
    assert (keyed["configuration"], keyed["description"]) == ({"delta.enableTypeWidening": "true"}, "all")
    assert [field["name"] for field in json.loads(log["schemaString"])["fields"]] == [
        "id", "b", "a", *dict(LOG), "c"
    ]  # fmt: skip
    assert "delta.typeChanges" not in str(log["schemaString"]).partition('"_op"')[2]


@pytest.mark.parametrize("begins", ["integer", "date"])
def test_a_column_of_local_times_is_told_in_the_protocol_with_it(begins: str) -> None:
    there = ["id"] if begins == "integer" else ["id", "at"]
    fields = [{"name": name, "type": begins, "nullable": True, "metadata": {}} for name in there]
    metadata = {"schemaString": json.dumps({"type": "struct", "fields": fields}), "configuration": {}}
    after = table(ID, Column("at", DateTimeType(6), nullable=True))

    amended = json.loads(amend_metadata(json.dumps({"metaData": metadata}), (), after))["metaData"]

    assert amended["configuration"]["delta.feature.timestampNtz"] == "supported"


def test_a_table_gets_and_loses_the_column_of_soft_deletes_in_its_log_alone() -> None:
    fields = [{"name": "id", "type": "integer", "nullable": True, "metadata": {}}]
    schema = json.dumps({"type": "struct", "fields": fields})
    plain = json.dumps({"metaData": {"schemaString": schema, "configuration": {}}})

    soft = amend_metadata(plain, (), table(ID), "soft")
    renamed = amend_metadata(soft, [("id", "no")], table(Column("no", INT, nullable=False), key=("no",)), "soft")
    hard = amend_metadata(soft, (), table(ID), "hard")

    def names(metadata: str) -> list[tuple[str, str]]:
        found = json.loads(json.loads(metadata)["metaData"]["schemaString"])["fields"]
        return [(field["name"], field["type"]) for field in found]

    assert names(soft) == [("id", "integer"), ("_deleted_at", "timestamp")]
    assert names(renamed) == [("no", "integer"), ("_deleted_at", "timestamp")]
    assert names(hard) == [("id", "integer")]
