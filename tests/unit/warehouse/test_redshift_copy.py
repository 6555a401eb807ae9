"""The COPY statement, to the letter, and which files go into one."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sqlglot
from sqlglot import exp

from penstock.core.batches import Batch
from penstock.core.csv_dialect import CsvDialect
from penstock.core.tables import TableId
from penstock.core.warehouse.redshift_copy import CopyRights, can_copy, group_files, plan_copy

BATCH = Batch(
    "shopdb", TableId("shop", "orders"), "t", 0, 0, 1, 1, "a.csv.gz", 9, "csv", 1, (1, 0, 0), (1, 1, 0), 0,
    compression="gzip", dialect=CsvDialect(),
)  # fmt: skip


@pytest.mark.parametrize(
    ("rights", "said"),
    [
        (CopyRights("arn:aws:iam::1:role/it's"), "IAM_ROLE 'arn:aws:iam::1:role/it''s'"),
        (CopyRights("", "id", "key"), "ACCESS_KEY_ID 'id' SECRET_ACCESS_KEY 'key'"),
        (
            CopyRights("", "id", "key", "token", "eu-central-1"),
            "ACCESS_KEY_ID 'id' SECRET_ACCESS_KEY 'key' SESSION_TOKEN 'token' REGION 'eu-central-1'",
        ),
    ],
)
def test_a_copy_says_who_reads_which_manifest_in_what_way(rights: CopyRights, said: str) -> None:
    statement = plan_copy('"__penstock_staged"', "s3://b/m.json", rights.render(), CsvDialect("\\N1"), "zstd")

    assert statement == (
        f"COPY \"__penstock_staged\" FROM 's3://b/m.json' {said} MANIFEST FORMAT AS CSV NULL AS '\\\\N1' ZSTD "
        "DATEFORMAT 'auto' TIMEFORMAT 'auto' COMPUPDATE OFF STATUPDATE OFF"
    )
    assert isinstance(sqlglot.parse_one(statement, dialect="redshift"), exp.Copy | exp.Command)


def test_secrets_do_not_show() -> None:
    assert "key" not in repr(CopyRights("", "id", "key")).replace("_key", "")


def test_what_is_written_alike_is_copied_together_and_in_order() -> None:
    other = replace(BATCH, path="b.csv.gz", dialect=CsvDialect("\\N1"))
    more = [replace(BATCH, path="c"), other, replace(BATCH, path="d", compression="zstd"), replace(BATCH, path="")]

    grouped = group_files([BATCH, *more])

    assert [[batch.path for batch in group] for group in grouped] == [["a.csv.gz", "c"], ["b.csv.gz"], ["d"]]


@pytest.mark.parametrize(
    ("change", "can"),
    [
        ({}, True),
        ({"path": "", "format": "parquet", "dialect": None}, True),
        ({"format": "parquet", "dialect": None}, False),
        ({"dialect": CsvDialect(has_nul=True)}, False),
        ({"compression": "lzop"}, False),
        ({"content": b"1"}, False),
    ],
)
def test_only_csv_without_nul_that_is_in_the_store_is_copied_as_it_is(change: dict[str, object], can: bool) -> None:  # noqa: FBT001
    assert can_copy(replace(BATCH, **change)) is can  # type: ignore[arg-type]
