"""What Snowflake's tables without a landing zone are loaded with: staged texts, and one MERGE of completed rows."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
import sqlglot

from penstock.adapters.snowflake.connection import SESSION
from penstock.core.audit.queries import Within, keys_query, minima_query, rows_query, signature_query
from penstock.core.audit.side import AuditColumn, AuditSide
from penstock.core.audit.snowflake import SNOWFLAKE as AUDITED
from penstock.core.batches import Batch
from penstock.core.errors import TableStoppedError
from penstock.core.schema_changes import SchemaChangeKind
from penstock.core.tables import BytesType, Column, DecimalType, IntegerType, TableId, TableSchema, TextType, VectorType
from penstock.core.warehouse.dialects import SNOWFLAKE
from penstock.core.warehouse.landing_tasks import MERGE_PARAMETERS
from penstock.core.warehouse.load_plan import plan_transactions
from penstock.core.warehouse.messages import render_staged_rows, require_fitting, split_texts
from penstock.core.warehouse.partial_rows import Lacking, plan_completion
from penstock.core.warehouse.planner import plan_renames, plan_whole_merge
from penstock.core.warehouse.staged_texts import (
    plan_copy,
    plan_put,
    plan_stage,
    plan_staging,
    plan_staging_table,
    render_staged,
    stage_name,
)
from penstock.core.warehouse.target_table import TargetTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.audit.dialects import Kind

TABLE = TableId("shop", "orders")
ID = Column("id", IntegerType(32, unsigned=False), nullable=False)
NAME = Column("na'me", TextType(20, "utf8mb4"), nullable=True)
PRICE = Column("price", DecimalType(10, 2), nullable=True)
PATH = '"penstock"."staged/shop/shopdb"'


def schema(*columns: Column, partial: bool = False) -> TableSchema:
    return TableSchema(TABLE, columns, ("id",), partial_rows=partial)


def parsed(*statements: str) -> tuple[str, ...]:
    for statement in statements:
        assert not isinstance(sqlglot.parse_one(statement, read="snowflake"), sqlglot.exp.Command), statement
    return statements


def test_rows_are_staged_as_texts_and_read_with_their_types() -> None:
    raw, vector = Column("raw", BytesType(4, fixed=False), nullable=True), Column("v", VectorType(3), nullable=True)
    columns = (ID, NAME, PRICE, raw, vector)

    parsed(*plan_staging_table("penstock", "staged/shop/shopdb"), plan_staging(PATH))
    (staged,) = parsed(render_staged(PATH, schema(*columns), columns))

    assert staged == (
        '(SELECT CAST("row":"id"::VARCHAR AS NUMBER(38, 0)) AS "id", '
        "GET(\"row\", 'na''me')::VARCHAR AS \"na'me\", "
        'CAST("row":"price"::VARCHAR AS NUMBER(10, 2)) AS "price", '
        'TO_BINARY("row":"raw"::VARCHAR, \'HEX\') AS "raw", '
        'CAST(PARSE_JSON("row":"v"::VARCHAR) AS VECTOR(FLOAT, 3)) AS "v" '
        f"FROM {PATH})"
    )


def test_staged_texts_are_exact() -> None:
    rows = pa.table(
        {
            "id": [1],
            "price": [Decimal("12.50")],
            "raw": [b"\x00\xff"],
            "at": pa.array([dt.datetime(2024, 2, 29, 23, 59, 59, 1)], pa.timestamp("us")),  # noqa: DTZ001 - it has none
            "name": ['it\'s "\\" \U0001f600'],
            "none": pa.array([None], pa.string()),
        }
    )

    assert list(render_staged_rows(rows)) == [
        (
            '{"id": "1", "price": "12.50", "raw": "00ff", "at": "2024-02-29T23:59:59.000001", '
            '"name": "it\'s \\"\\\\\\" \U0001f600", "none": null}'
        )
    ]


def test_rows_that_lack_columns_are_completed_and_merged_in_one_statement() -> None:
    arriving = schema(ID, PRICE, partial=True)
    target = TargetTable("", arriving)
    completion = plan_completion(SNOWFLAKE, target, arriving, PATH, Lacking((), ("price",)))

    (merge, _) = parsed(plan_whole_merge(SNOWFLAKE, target, arriving, completion.whole), completion.count_orphans)

    assert (completion.create, completion.drop) == ("", "")
    begin, _, end = merge.partition(completion.whole)
    assert begin == 'MERGE INTO "shop"."orders" AS t USING '
    assert end == (
        ' AS s ON s."id" = t."id" WHEN MATCHED AND s."__penstock_op" = \'d\' THEN DELETE '
        'WHEN MATCHED THEN UPDATE SET "price" = s."price" '
        'WHEN NOT MATCHED AND s."__penstock_op" <> \'d\' THEN INSERT ("id", "price") VALUES (s."id", s."price")'
    )


def test_with_soft_deletes_no_row_goes() -> None:
    target = TargetTable("", schema(ID), "soft")

    (merge,) = parsed(plan_whole_merge(SNOWFLAKE, target, schema(ID), PATH))

    assert "THEN DELETE" not in merge
    assert '"_deleted_at" = CASE WHEN' in merge
    assert "WHEN NOT MATCHED THEN INSERT" in merge


def test_a_table_that_gets_another_name_stays_out_of_the_session_s_schema() -> None:
    statements = parsed(*plan_renames(SNOWFLAKE, "", {TABLE: TableId("other", "o2")}))

    assert statements == (
        'ALTER TABLE "shop"."orders" RENAME TO "shop"."__penstock_renamed_0"',
        'ALTER TABLE "shop"."__penstock_renamed_0" RENAME TO "other"."o2"',
    )


def batches(*kinds: tuple[int, SchemaChangeKind, bool]) -> list[Batch]:
    plain = Batch("shopdb", TABLE, "t", 0, 0, 0, 0, "", 0, "parquet", 1, (0, 0, 0), (0, 0, 0), 0)
    renames = (("a", "b"),)
    return [
        replace(plain, schema_id=number, kind=kind, column_renames=renames if renamed else ())
        for number, kind, renamed in kinds
    ]


ROWS = SchemaChangeKind.SCHEMA


@pytest.mark.parametrize(
    ("given", "sizes"),
    [
        ([(1, ROWS, False), (1, ROWS, False), (2, ROWS, False), (2, ROWS, False)], [2, 2]),
        ([(1, ROWS, False), (1, SchemaChangeKind.TRUNCATE, False), (1, ROWS, False)], [1, 1, 1]),
        ([(1, ROWS, False), (1, ROWS, True), (1, ROWS, False)], [1, 2]),
        ([(1, SchemaChangeKind.DROP, False)], [1]),
    ],
)
def test_where_definitions_commit_whatever_may_define_something_begins_a_transaction(
    given: Sequence[tuple[int, SchemaChangeKind, bool]], sizes: list[int]
) -> None:
    assert [len(part) for part in plan_transactions(batches(*given), 100, 1 << 20, apart=True)] == sizes
    assert len(plan_transactions(batches(*given), 100, 1 << 20)) == 1


def test_signatures_of_an_audit_are_snowflake_s_sql() -> None:
    kinds: tuple[Kind, ...] = (
        "boolean",
        "integer",
        "decimal",
        "float",
        "text",
        "bytes",
        "date",
        "datetime",
        "timestamp",
    )
    columns = tuple(AuditColumn(f"c{number}", kind) for number, kind in enumerate(kinds))
    for cut, key in (("integer", columns[1]), ("wide", columns[1]), ("hash", columns[4])):
        side = AuditSide(AUDITED, '"shop"."orders"', columns, (key,), cut)  # type: ignore[arg-type]  # a member of Cut

        signatures, minima, rows, keys = parsed(
            signature_query(side, 8, Within((0,), 8)),
            minima_query(side, 8, Within((0,), 8), 2),
            rows_query(side, Within((None,), 8), 8),
            keys_query(side, [("1",), (None,)], values=True),
        )

        # Snowflake has no operators for bits, no DIV, and no TRIM(LEADING ...).
        assert not any(word in signatures + minima + rows + keys for word in (" & ", " DIV ", "LEADING", "TRAILING"))
        assert "SUM(TO_NUMBER(SUBSTR(h, 1, 8), 'XXXXXXXX'))" in signatures


def test_a_row_that_no_variant_holds_is_named_with_its_largest_value() -> None:
    texts = ['{"id": "1", "note": "a"}', '{"id": "2", "note": "' + "x" * (1 << 24) + '", "none": null}']
    fitting = require_fitting(schema(ID), iter(texts))

    assert next(fitting) == texts[0]
    with pytest.raises(TableStoppedError, match=r"orders\.note stopped .* a row \(id = '2'\) has 16777253 bytes"):
        next(fitting)


def test_rows_that_come_as_files_are_put_and_copied() -> None:
    stage, file = '"penstock"."staged_shop"', "/var/it's/a.json.gz"

    assert stage_name("staged/shop/my-db") == "staged_shop_my_db"
    assert plan_stage(stage) == f"CREATE TEMPORARY STAGE IF NOT EXISTS {stage}"
    assert plan_put(file, stage) == (
        f"PUT 'file:///var/it''s/a.json.gz' @{stage} AUTO_COMPRESS = FALSE SOURCE_COMPRESSION = GZIP"
    )
    (copy,) = parsed(plan_copy(PATH, stage, "a.json.gz"))
    assert copy == (
        f"COPY INTO {PATH} FROM @{stage}/a.json.gz FILE_FORMAT = (TYPE = JSON) PURGE = TRUE ON_ERROR = ABORT_STATEMENT"
    )
    assert list(split_texts(iter(["{}", "[1]", "2"]), 4, as_array=False)) == ["{}", "[1]\n2"]


def test_statements_of_loads_read_names_dates_and_times_as_those_of_tasks_do() -> None:
    assert {"QUOTED_IDENTIFIERS_IGNORE_CASE", "DATE_INPUT_FORMAT", "TIMESTAMP_INPUT_FORMAT"} == set(MERGE_PARAMETERS)
    assert MERGE_PARAMETERS.items() <= SESSION.items()
