"""What the tasks behind a landing zone may say, and what is said of those that cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.config.load import parse
from penstock.core.errors import ConfigError
from penstock.core.tables import TableId
from penstock.core.warehouse.landing_tasks import ZoneTask
from penstock.wiring.sink_kinds.table import landing_kind, sink_kind

FILE = """\
pipeline: shop
sources: [{{name: s, kind: mysql, host: h, user: u, password_env: P, tables: ["shop.*"]}}]
sinks:
  - name: sf
    kind: snowflake
    account: a
    user: u
    password_env: Q
    database: d
    warehouse: w
    tasks: [{tasks}]
links: [{{from: s, to: sf}}]
"""
COPY = "INSERT INTO mart.log SELECT * FROM {stream} AS s WHERE note <> ';'"
MAKE = "CREATE TABLE IF NOT EXISTS mart.log (id INT)"


def test_tasks_stand_in_the_order_in_which_they_are_made_and_know_their_graph() -> None:
    last = "{name: last, after: [copy, shop.log], sql: DELETE FROM a}"
    copy = f'{{name: copy, after: shop.log, stream: shop.log, sql: ["{MAKE}", "{COPY}"]}}'
    hourly = "{name: hourly, schedule: 1 HOUR, suspend_after: 3, sql: DELETE FROM b}"

    spec = parse(FILE.format(tasks=f"{last}, {hourly}, {copy}"), "shop.yaml", Path("/etc/penstock"))

    log, kind = TableId("shop", "log"), landing_kind(spec, spec.sinks[0])
    assert kind is not None
    assert kind.zone.tasks == (
        ZoneTask("shop/copy", (MAKE, COPY), "shop.log", log, "", ("shop.log",), log),
        ZoneTask("shop/hourly", ("DELETE FROM b",), "shop/hourly", None, "1 HOUR", failures_max=3),
        ZoneTask("shop/last", ("DELETE FROM a",), "shop.log", log, "", ("shop/copy", "shop.log")),
    )
    assert [line for line in sink_kind(spec, spec.sinks[0]).explain() if line.startswith("task ")] == [
        "task     copy, after shop.log, when shop.log has changed",
        "task     hourly, every 1 HOUR",
        "task     last, after copy, shop.log",
    ]


def test_topics_of_several_partitions_have_tasks_behind_them() -> None:
    copy = f'{{name: copy, after: shop.log, stream: shop.log, sql: "{COPY}"}}'

    assert parse(FILE.format(tasks=copy) + "kafka: {partitions: 3}\n", "shop.yaml", Path("/etc/penstock")).sinks


def test_two_sinks_have_no_landing_zone_with_tasks_together() -> None:
    again = (
        "  - {name: other, kind: snowflake, account: a, user: u, password_env: Q, database: d, warehouse: w}\nlinks:"
    )
    text = FILE.format(tasks="{name: one, after: a.b, sql: DELETE FROM a}").replace("links:", again)

    with pytest.raises(ConfigError, match="give each a schema of its own"):
        parse(text, "shop.yaml", Path("/etc/penstock"))
    assert parse(text.replace("warehouse: w}", "warehouse: w, landing: x}"), "shop.yaml", Path("/etc/penstock")).sinks


@pytest.mark.parametrize(
    ("task", "told"),
    [
        ("sql: DELETE FROM a", "give either a schedule or after"),
        ("schedule: 1 MINUTE, sql: DROP TABLE a", "should begin with CREATE, DELETE, INSERT"),
        ('schedule: 1 MINUTE, sql: "INSERT INTO a FROM {stream}"', "give the stream, a table of this sink"),
        ("after: a.b, stream: a.b, sql: DELETE FROM a", "only that moves a stream in Snowflake"),
        ("after: a.b, suspend_after: 3, sql: DELETE FROM a", "counts the failures of a graph at its root"),
        ("after: a.b, sql: [DELETE FROM a, CREATE TABLE IF NOT EXISTS a (i INT)]", "put it first"),
        ("after: a.b, sql: CREATE TABLE IF NOT EXISTS a (i INT)", "put it first"),
        ('after: a.b, sql: [DELETE FROM a, "/* b */ CREATE TABLE IF NOT EXISTS b.a (i INT)"]', "put it first"),
        ('after: a.b, sql: ["--b\\nCREATE TABLE a (i INT) -- IF NOT EXISTS b.a", DELETE FROM a]', "say IF NOT EXISTS"),
        ('after: a.b, stream: a.b, sql: "DELETE FROM a -- {stream}"', "only that moves a stream in Snowflake"),
        ("after: a.b, sql: WITH x AS (SELECT 1) SELECT * FROM x", "begins with WITH, which is a query in Snowflake"),
        ("after: a.b, sql: [CREATE OR REPLACE TABLE a (i INT), DELETE FROM a]", "say IF NOT EXISTS"),
        ("after: a.b, sql: [CREATE TABLE IF NOT EXISTS a (i INT), DELETE FROM a]", "name the schema"),
        ("after: nobody, sql: DELETE FROM a", 'comes after "nobody", which is no task and no table'),
        ("after: .b, sql: DELETE FROM a", "should be a task of this sink, or a table with its schema"),
        ("after: a b, sql: DELETE FROM a", "should be a task of this sink, or a table with its schema"),
        ("after: one, sql: DELETE FROM a", "in a circle: one after one"),
        ("after: [a.b, a.c], sql: DELETE FROM a", "begins behind a.b and a.c, and a graph of Snowflake has one root"),
        ('after: a.b, stream: a.c, sql: "INSERT INTO a FROM {stream}"', "is of a graph on a.b and a.c"),
        ("after: a.b, by: id, sql: DELETE FROM a", "by"),
    ],
)
def test_a_task_that_cannot_be_is_named_with_what_to_write(task: str, told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse(FILE.format(tasks=f"{{name: one, {task}}}"), "shop.yaml", Path("/etc/penstock"))

    (found,) = refused.value.mistakes
    assert told in found
