"""What a rule makes of a merge: exact SQL, and what is said of a rule that does not fit a table."""

from __future__ import annotations

from dataclasses import replace

import duckdb
import pyarrow as pa
import pytest
import sqlglot
from sqlglot import exp
from tests.unit.audit.test_landing_fold import ask, landing

from penstock.core.audit.landing import folded_rows, untreated_rows, why_unknown
from penstock.core.errors import TableStoppedError
from penstock.core.files import LACKS, OP
from penstock.core.patterns import TablePatterns
from penstock.core.tables import Column, IntegerType, TableId, TableSchema, TextType
from penstock.core.warehouse.landing import LandingZone, plan_landed_merge, plan_rebuild, plan_table, plan_task
from penstock.core.warehouse.landing_rules import TREATED, ColumnFound, ZoneRule
from penstock.core.warehouse.landing_state import StreamFound, TaskFound, ZoneFound, find_troubles, treats_otherwise
from penstock.links.warehouse.landing_limits import require_whole_changes

ORDERS = TableId("shop", "orders")
ID = Column("id", IntegerType(64, unsigned=False), nullable=False)
NOTE = Column("note", TextType(40, "utf8mb4"), nullable=True)
SCHEMA = TableSchema(ORDERS, (ID, NOTE), ("id",))
PLAIN = LandingZone("landing", "load_wh", "30 SECONDS")
OF_SHOP = TablePatterns(("shop.*",))
RULE = ZoneRule(
    OF_SHOP,
    "\"note\" <> 'test' -- theirs",
    (("note", 'UPPER("note")'), ("size", 'CAST(LENGTH("note") AS NUMBER(9, 0))')),
)
ZONE = replace(PLAIN, rules=(ZoneRule(TablePatterns(("other.*",)), "FALSE"), RULE))


def test_rows_are_treated_behind_the_newest_message_of_each_key_and_one_that_is_not_wanted_is_deleted() -> None:
    merge, plain = plan_landed_merge(ZONE, SCHEMA), plan_landed_merge(PLAIN, SCHEMA)

    begin, source, rest = (
        plain.partition("USING (")[0],
        plain.partition("USING (")[2],
        "".join(plain.partition(") AS s ON ")[1:]),
    )
    source = source.partition(") AS s ON ")[0]
    wanted = "\"__penstock_op\" <> 'd' AND (\"note\" <> 'test' -- theirs\n)"
    expected = (
        f"{begin}USING (SELECT CASE WHEN (\"note\" <> 'test' -- theirs\n) THEN \"__penstock_op\" ELSE 'd' END "
        'AS "__penstock_op", "id", '
        f'CASE WHEN {wanted} THEN (UPPER("note")\n) END AS "note", '
        f'CASE WHEN {wanted} THEN (CAST(LENGTH("note") AS NUMBER(9, 0))\n) END AS "size" '
        f"FROM ({source}) {TREATED}{rest}"
    )
    expected = expected.replace('SET "note" = s."note"', 'SET "note" = s."note", "size" = s."size"')
    expected = expected.replace(
        '"note") VALUES (s."id", s."note")', '"note", "size") VALUES (s."id", s."note", s."size")'
    )
    assert merge == expected
    assert isinstance(sqlglot.parse_one(merge, dialect="snowflake"), exp.Merge)


def test_a_new_column_is_added_with_the_type_of_its_cast_before_the_task_needs_it() -> None:
    first, *_ = plan_task(ZONE, SCHEMA)

    assert first == 'ALTER TABLE "shop"."orders" ADD COLUMN IF NOT EXISTS "size" DECIMAL(9, 0)'
    assert isinstance(sqlglot.parse_one(first, dialect="snowflake"), exp.Alter)


def test_an_entry_that_says_nothing_leaves_the_rows_of_its_tables_as_they_are() -> None:
    zone = replace(ZONE, rules=(ZoneRule(OF_SHOP), *ZONE.rules))
    partial = replace(SCHEMA, partial_rows=True)

    assert plan_landed_merge(zone, SCHEMA) == plan_landed_merge(PLAIN, SCHEMA)
    assert plan_landed_merge(zone, partial) == plan_landed_merge(PLAIN, partial)


@pytest.mark.parametrize("rule", [ZoneRule(OF_SHOP, "\"note\" <> 'x'"), ZoneRule(OF_SHOP, "", RULE.columns)])
def test_a_merge_with_a_rule_takes_whole_rows_and_fails_where_the_newest_message_of_a_row_lacks_a_value(
    rule: ZoneRule,
) -> None:
    merge = plan_landed_merge(replace(PLAIN, rules=(rule,)), replace(SCHEMA, partial_rows=True))
    source = merge.partition("USING (")[2].partition(") AS s ON ")[0]
    query = source.replace('"landing"."shop.orders/stream"', '"landing"."shop.orders"')
    inserted, lacking, whole = ("c", 1, "a", True), ("u", 1, None, False), ("u", 1, "b", True)

    assert isinstance(sqlglot.parse_one(merge, dialect="snowflake"), exp.Merge)
    with landing([inserted, lacking, whole]) as connection:
        assert [(*row[:2], row[2].casefold()) for row in ask(connection, query)] == [("u", 1, "b")]
    with landing([inserted, lacking]) as connection, pytest.raises(duckdb.ConversionException, match="lacks values"):
        ask(connection, query)


def test_a_change_that_lacks_a_value_stops_its_table_with_what_to_type() -> None:
    schema = replace(SCHEMA, partial_rows=True)
    whole, lacking = (pa.table({OP: ["u", "d"], LACKS: [flags, "01"]}) for flags in ("00", "01"))

    require_whole_changes(schema, whole)
    with pytest.raises(TableStoppedError) as stopped:
        require_whole_changes(schema, lacking)
    assert 'table "orders" (PostgreSQL: ALTER TABLE ... REPLICA IDENTITY FULL' in stopped.value.hint


def test_an_audit_says_why_it_does_not_know_what_a_filter_keeps_out() -> None:
    assert why_unknown(ZONE, SCHEMA, ["id"]) == ""
    assert why_unknown(PLAIN, SCHEMA, ["note"]) == ""
    assert "keeps rows out by note: it came later than some rows" in why_unknown(ZONE, SCHEMA, ["note"])


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        (ZoneRule(OF_SHOP, "email LIKE 'x'"), "names EMAIL, which is no column of it"),
        (ZoneRule(OF_SHOP, "TRUE", (("id", '"id" + 1'),)), "rows are merged by it"),
        (ZoneRule(OF_SHOP, "", (("size", 'LENGTH("note")'),)), "does not say its type"),
        (ZoneRule(OF_SHOP, "", (("NOTE", 'CAST("note" AS VARCHAR)'),)), "differs only in case"),
    ],
)
def test_a_rule_that_does_not_fit_stops_the_table_and_is_told_in_its_status(rule: ZoneRule, told: str) -> None:
    zone = replace(PLAIN, rules=(rule,))
    there = TaskFound(is_started=True, schedule="30 SECONDS", virtual_warehouse="LOAD_WH", definition="MERGE")
    found = ZoneFound({"shop.orders/task": there}, {"shop.orders/stream": StreamFound(is_stale=False)})

    with pytest.raises(TableStoppedError, match=told):
        plan_landed_merge(zone, SCHEMA)
    assert [told in each.text for each in find_troubles(zone, SCHEMA, found)] == [True]


@pytest.mark.parametrize(
    ("before", "after", "otherwise"),
    [(PLAIN, ZONE, True), (ZONE, PLAIN, True), (ZONE, ZONE, False), (PLAIN, PLAIN, False)],
)
def test_rows_that_another_rule_has_made_are_known_by_the_task_that_is_there(
    before: LandingZone,
    after: LandingZone,
    otherwise: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    assert treats_otherwise(after, SCHEMA, plan_landed_merge(before, SCHEMA)) == otherwise


def test_the_task_of_another_rule_is_made_once_the_stream_shows_all_messages_and_nothing_reads_it() -> None:
    again = [
        'ALTER TASK IF EXISTS "landing"."shop.orders/task" SUSPEND',
        (
            'CREATE OR REPLACE STREAM "landing"."shop.orders/stream" '
            'ON TABLE "landing"."shop.orders" APPEND_ONLY = TRUE SHOW_INITIAL_ROWS = TRUE'
        ),
        *plan_task(ZONE, SCHEMA),
    ]

    assert plan_table(ZONE, SCHEMA, again=True)[-len(again) :] == again
    assert plan_rebuild(ZONE, SCHEMA) == again


def test_a_column_that_the_source_adds_and_the_rule_makes_stops_the_table() -> None:
    after = replace(SCHEMA, columns=(ID, NOTE, replace(NOTE, name="size")))
    RULE.require_free(SCHEMA, SCHEMA)
    RULE.require_free(after, after)

    with pytest.raises(TableStoppedError) as refused:
        RULE.require_free(SCHEMA, after)
    assert refused.value.hint.endswith('ALTER TABLE "shop"."orders" DROP COLUMN "size"')


def test_rules_that_differ_in_the_white_space_of_a_text_are_two() -> None:
    one, other, same = (
        replace(PLAIN, rules=(ZoneRule(OF_SHOP, where),))
        for where in ("\"note\" = 'a b'", "\"note\" = 'a  b'", "\"note\"  =\n'a b'")
    )
    there = plan_landed_merge(one, SCHEMA)

    assert treats_otherwise(other, SCHEMA, there)
    assert not treats_otherwise(same, SCHEMA, there + " ;")


def test_a_task_that_is_gone_may_have_merged_by_another_rule() -> None:
    assert treats_otherwise(PLAIN, SCHEMA, None)


def test_an_audit_reads_the_rows_that_are_kept_out_from_the_landing_table() -> None:
    public = '"shop"."orders"'
    rows = untreated_rows(ZONE, SCHEMA, public)

    assert rows == (
        f'(SELECT "id", "note" FROM {public} UNION ALL SELECT "id", "note" FROM {folded_rows(ZONE, SCHEMA)} '
        "WHERE NOT COALESCE((\"note\" <> 'test' -- theirs\n), FALSE)) AS u"
    )
    assert untreated_rows(PLAIN, SCHEMA, public) == public
    assert isinstance(sqlglot.parse_one(f"SELECT * FROM {rows}", dialect="snowflake"), exp.Select)


@pytest.mark.parametrize(
    ("type_", "found", "same"),
    [
        ("NUMBER(9)", ColumnFound("NUMBER", 9, 0), True),
        ("NUMBER(9)", ColumnFound("NUMBER", 10, 0), False),
        ("NUMBER(9, 2)", ColumnFound("NUMBER", 9, 0), False),
        ("NUMBER", ColumnFound("NUMBER", 38, 0), True),
        ("BIGINT", ColumnFound("NUMBER", 38, 0), True),
        ("VARCHAR(10)", ColumnFound("TEXT", length=10), True),
        ("STRING", ColumnFound("TEXT", length=16_777_216), True),
        ("VARCHAR(10)", ColumnFound("TEXT", length=40), False),
        ("VARCHAR(10)", ColumnFound("TEXT"), True),
        ("CHAR", ColumnFound("TEXT", length=40), False),
        ("DATE", ColumnFound("TEXT", length=40), False),
        ("DOUBLE", ColumnFound("FLOAT"), True),
        ("TIMESTAMP_NTZ(3)", ColumnFound("TIMESTAMP_NTZ"), True),
        ("TIMESTAMP_TZ", ColumnFound("TIMESTAMP_NTZ"), False),
        ("BOOLEAN", ColumnFound("BOOLEAN"), True),
        ("VARIANT", ColumnFound("VARIANT"), True),
        ("GEOGRAPHY", ColumnFound("GEOGRAPHY"), True),
        ("NO TYPE", ColumnFound("NUMBER", 38, 0), True),
    ],
)
def test_a_type_is_known_in_what_snowflake_says_of_a_column(
    type_: str,
    found: ColumnFound,
    same: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    assert found.is_made_by(type_) == same


def test_a_made_column_whose_type_the_file_has_changed_is_told_with_what_makes_it_anew() -> None:
    task = TaskFound(True, "30 SECONDS", "LOAD_WH", plan_landed_merge(ZONE, SCHEMA))  # noqa: FBT003 - it is started
    found = ZoneFound({"shop.orders/task": task}, {"shop.orders/stream": StreamFound(is_stale=False)})
    older = replace(found, columns={ORDERS: {"note": ColumnFound("DATE"), "size": ColumnFound("NUMBER", 5, 0)}})

    assert list(find_troubles(ZONE, SCHEMA, found)) == []
    (told,) = find_troubles(ZONE, SCHEMA, older)
    assert told.text == "its column size is NUMBER(5, 0), and the sink's `tables` make it DECIMAL(9, 0)"
    assert told.hint.startswith("type: penstock snapshot FILE shop.orders --full-refresh")


def test_a_made_column_whose_expression_is_no_cast_any_more_is_told_once() -> None:
    task = TaskFound(True, "30 SECONDS", "LOAD_WH", plan_landed_merge(ZONE, SCHEMA))  # noqa: FBT003 - it is started
    streams, columns = {"shop.orders/stream": StreamFound(is_stale=False)}, {"size": ColumnFound("NUMBER", 9, 0)}
    found = ZoneFound({"shop.orders/task": task}, streams, columns={ORDERS: columns})
    zone = replace(PLAIN, rules=(ZoneRule(OF_SHOP, columns=(("size", 'LENGTH("note")'),)),))

    (told,) = find_troubles(zone, SCHEMA, found)
    assert "does not say its type" in told.text
