"""A table through transforms into a topic, an expression among them, and through a link's rules into a warehouse."""

from __future__ import annotations

import hashlib
import hmac
from contextlib import closing
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tests.servers.chain import make_chain

from penstock.core.avro.wire import split
from penstock.core.spolts.avro_records import avro_records
from penstock.jobs.pipeline import run_pipeline
from penstock.jobs.runner import PipelineRun
from penstock.spark.runner import SparkRunner
from penstock.spark.supervisor import NoServices
from penstock.wiring.open import open_subjects, open_topic_log

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from pyspark.sql import SparkSession
    from tests.servers.chain import Chain

    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer

SPOLTS = """\
spolts:
  - name: contacts
    from: src_{name}.{name}.customers
    to: {name}.contacts
    transforms:
      - lookup: {{file: countries.csv, match: {{country: code}}, add: region}}
      - expression: {{name: gross, sql: "CASE WHEN total > 0 THEN round(total * 1.19, 2) END", type: "decimal(12,2)"}}
      - filter: gross >= 119 OR region = 'UK'
      - hash: {{columns: [id, email], salt_env: PII_SALT}}
      - mask: {{columns: phone, keep_last: 2}}
      - rename: {{id: customer}}
      - drop: [country, total]
"""
SALT = "a salt of some length"


def hashed(value: object) -> str:
    return hmac.new(SALT.encode(), str(value).encode(), hashlib.sha256).hexdigest()


def test_applying_the_transformed_changes_gives_the_transformed_table_and_the_warehouse_sees_no_secret(
    tmp_path: Path,
    fresh_database: str,
    mariadb: MariadbServer,
    chain_parts: tuple[KafkaBroker, str, int],
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PII_SALT", SALT)
    (tmp_path / "countries.csv").write_text("code,region\nDE,EU\nGB,UK\n")
    case = make_chain(tmp_path, fresh_database, mariadb, chain_parts, SPOLTS.format(name=fresh_database))
    link = f"{{from: src_{fresh_database}, to: wh"
    columns = f"columns: {{hash: {fresh_database}.customers.email, salt_env: PII_SALT, drop: country}}"
    case.file.write_text(case.file.read_text().replace(link, f"{link}, {columns}"))
    case.write(
        "CREATE TABLE customers "
        "(id INT PRIMARY KEY, email VARCHAR(40), phone VARCHAR(20), country CHAR(2), total DECIMAL(10,2))",
        *(f"INSERT INTO customers VALUES ({n}, 'c{n}@x.de', '030 {n + 100}', 'DE', {n * 10})" for n in range(1, 31)),
    )
    case.start()
    _carry(case, spark)

    case.write(
        "UPDATE customers SET total = 5 WHERE id BETWEEN 20 AND 25",
        "UPDATE customers SET total = 500, email = NULL WHERE id < 3",
        "UPDATE customers SET country = 'GB' WHERE id = 4",
        "UPDATE customers SET id = 100 WHERE id = 30",
        "DELETE FROM customers WHERE id IN (10, 29)",
        "INSERT INTO customers VALUES (200, 'new@x.de', NULL, 'DE', 1)",
    )
    _carry(case, spark)

    with case.cursor() as cursor:
        cursor.execute("SELECT id, email, phone, country, total FROM customers")
        rows = cursor.fetchall()
    gross = {n: (total * Decimal("1.19")).quantize(Decimal("0.01")) for n, *_, total in rows}
    regions = {"DE": "EU", "GB": "UK"}
    assert _applied(case) == {
        hashed(n): (email and hashed(email), "*" * 5 + phone[-2:], regions[country], gross[n])
        for n, email, phone, country, _ in rows
        if gross[n] >= 119 or country == "GB"
    }
    found = case.query("SELECT * FROM {schema}.customers ORDER BY id")
    assert found == sorted((n, email and hashed(email), phone, total) for n, email, phone, _, total in rows)


def _applied(case: Chain) -> dict[str, tuple[object, ...]]:
    """What a reader of the output holds once every change of it is applied, each to the row that it speaks of.

    A delete of a key alone may find none: it stands for a row that was read and is not wanted.
    """
    topic, held = f"{case.name}.contacts", dict[str, tuple[object, ...]]()
    with closing(open_topic_log(case.spec)) as log, closing(open_subjects(case.spec)) as subjects:
        end = log.ends([(topic, 0)])[topic, 0]
        for raw in log.read_messages({(topic, 0): (0, end)}, 1 << 30)[topic, 0]:
            schema_id, content = split(raw.value or b"")
            value: dict[str, Any] = avro_records(subjects.value_schema(schema_id)).decode(content)
            before, after = value["before"], value["after"]
            if before is not None and not any(_rest(before)):
                held.pop(before["customer"], None)
            elif before is not None:
                assert held.pop(before["customer"]) == _rest(before)
            if after is not None:
                assert after["customer"] not in held
                held[after["customer"]] = _rest(after)
    return held


def _rest(row: dict[str, Any]) -> tuple[object, ...]:
    assert not row.keys() & {"id", "country", "total"}
    return row["email"], row["phone"], row["region"], row["gross"]


def _carry(case: Chain, spark: SparkSession) -> None:
    """Bring everything that is committed into the output, through Spark, and into the warehouse."""
    case.carry()
    run_pipeline(PipelineRun(case.spec, once=True, only="contacts"), SparkRunner(spark, NoServices()))
