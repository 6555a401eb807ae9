"""Definitions that commit by themselves, in forms that do no harm where they are done already."""

from __future__ import annotations

import pytest
import sqlglot

from penstock.core.warehouse.definitions import ColumnRename, is_definition, parse_column_rename, render_again

ODD = '"a "" ADD COLUMN b"."t.""x"'


@pytest.mark.parametrize(
    ("statement", "again"),
    [
        ('CREATE TABLE "s"."t" ("id" VARCHAR(20))', 'CREATE TABLE IF NOT EXISTS "s"."t" ("id" VARCHAR(20))'),
        ('CREATE SCHEMA IF NOT EXISTS "s"', 'CREATE SCHEMA IF NOT EXISTS "s"'),
        ('DROP TABLE "s"."t"', 'DROP TABLE IF EXISTS "s"."t"'),
        (f'ALTER TABLE {ODD} ADD COLUMN "c" DATE', f'ALTER TABLE {ODD} ADD COLUMN IF NOT EXISTS "c" DATE'),
        (f'ALTER TABLE {ODD} DROP COLUMN "c"', f'ALTER TABLE {ODD} DROP COLUMN IF EXISTS "c"'),
        (f'ALTER TABLE {ODD} RENAME TO "s"."u"', f'ALTER TABLE IF EXISTS {ODD} RENAME TO "s"."u"'),
        ('UPDATE "s"."t" SET "c" = 1', 'UPDATE "s"."t" SET "c" = 1'),
        ('CREATE OR REPLACE TABLE "s"."t" AS SELECT 1', 'CREATE OR REPLACE TABLE "s"."t" AS SELECT 1'),
    ],
)
def test_a_statement_is_run_again_in_a_form_that_does_no_harm(statement: str, again: str) -> None:
    assert render_again(statement) == again
    assert render_again(again) == again
    sqlglot.parse_one(again, read="snowflake")


def test_what_changes_rows_defines_nothing() -> None:
    rows = ('INSERT INTO "t" SELECT 1', 'UPDATE "t" SET "a" = 1', 'DELETE FROM "t"', 'MERGE INTO "t" USING "s" ON 1=1')

    assert not any(map(is_definition, rows))
    assert is_definition('CREATE OR REPLACE TABLE "t" AS SELECT 1')
    assert is_definition('GRANT SELECT ON TABLE "t" TO ROLE "R"')


def test_a_column_that_is_renamed_is_told_with_its_table() -> None:
    assert parse_column_rename(f'ALTER TABLE {ODD} RENAME COLUMN "o""ld" TO "new"') == ColumnRename(
        ('a " ADD COLUMN b', 't."x'), 'o"ld'
    )
    assert parse_column_rename(f'ALTER TABLE {ODD} RENAME TO "new"') is None
