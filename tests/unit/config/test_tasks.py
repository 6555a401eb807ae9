"""What a sink's tasks may say, and what is said of those that cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.config.load import parse
from penstock.config.sinks import DuckdbSinkSpec
from penstock.core.errors import ConfigError
from penstock.core.tables import TableId
from penstock.core.warehouse.micro_batches import Task
from penstock.wiring.micro_batches import sinks_with_tasks
from penstock.wiring.sink_kinds.table import sink_kind

FILE = """\
pipeline: shop
sources: [{{name: s, kind: mysql, host: h, user: u, password_env: P, tables: ["shop.*"]}}]
sinks:
  - name: wh
    kind: duckdb
    path: wh.duckdb
    tasks: [{tasks}]
links: [{{from: s, to: wh}}]
"""
COPY = "INSERT INTO mart.log SELECT * FROM {stream} AS s WHERE note <> ';'"


def mistake(tasks: str) -> str:
    with pytest.raises(ConfigError) as refused:
        parse(FILE.format(tasks=tasks), "shop.yaml", Path("/etc/penstock"))
    (found,) = refused.value.mistakes
    return found


def test_tasks_stand_in_the_order_in_which_they_run_and_check_tells_them() -> None:
    sql = '["DELETE FROM mart.total;", "INSERT INTO mart.total SELECT 1"]'
    later = f"{{name: total, after: log, suspend_after: 3, sql: {sql}}}"
    first = f'{{name: log, schedule: 2 MINUTES, stream: shop.log, by: id, sql: "{COPY}"}}'

    spec = parse(FILE.format(tasks=f"{later}, {first}"), "shop.yaml", Path("/etc/penstock"))

    sink = spec.sinks[0]
    assert isinstance(sink, DuckdbSinkSpec)
    assert [task.task for task in sink.tasks] == [
        Task("log", (COPY,), TableId("shop", "log"), ("id",), 120),
        Task("total", ("DELETE FROM mart.total", "INSERT INTO mart.total SELECT 1"), None, (), 1, ("log",), 3),
    ]
    assert [line for line in sink_kind(spec, sink).explain() if line.startswith("task ")] == [
        "task     log, every 2 MINUTES, when shop.log was loaded",
        "task     total, after log",
    ]


@pytest.mark.parametrize(
    ("task", "told"),
    [
        ("sql: DELETE FROM a", "give either a schedule or after"),
        ("schedule: 1 MINUTE, after: x, sql: DELETE FROM a", "give either a schedule or after"),
        ("schedule: 1 MINUTE, sql: COMMIT", "should begin with CREATE, DELETE, INSERT"),
        ("schedule: 1 MINUTE, sql: DELETE FROM a; COMMIT", "write each as an item of a list"),
        ("schedule: 1 MINUTE, stream: log, sql: DELETE FROM a", "should be a table of this sink with its schema"),
        ('schedule: 1 MINUTE, sql: "INSERT INTO a FROM {stream}"', "give the stream, a table of this sink"),
        ("schedule: 1 MINUTE, stream: a.b, by: id, sql: DELETE FROM a", "by is of no use in sql that does not read"),
        ("after: nobody, sql: DELETE FROM a", 'comes after "nobody", which is no task of this sink'),
        ("after: one, sql: DELETE FROM a", "in a circle: one after one"),
        ("schedule: 1 MINUTE, sql: DELETE FROM a}, {name: one, schedule: 1 HOUR, sql: DELETE FROM a", "two tasks"),
    ],
)
def test_a_task_that_cannot_be_is_named_with_what_to_write(task: str, told: str) -> None:
    assert told in mistake(f"{{name: one, {task}}}")


def test_a_task_cannot_read_the_news_of_a_change_log_that_is_spread_over_partitions() -> None:
    task = f'{{name: one, schedule: 1 MINUTE, stream: shop.log, sql: ["{COPY}"]%s}}'
    spread = FILE + "kafka: {{partitions: 3}}\n"

    with pytest.raises(ConfigError) as refused:
        parse(spread.format(tasks=task % ""), "shop.yaml", Path("/etc/penstock"))

    (found,) = refused.value.mistakes
    assert "which its rows do not arrive in by several partitions: let the task delete what it made" in found
    assert parse(spread.format(tasks=task % ", by: id"), "shop.yaml", Path("/etc/penstock")).kafka.partitions == 3
    assert parse(FILE.format(tasks=task % ""), "shop.yaml", Path("/etc/penstock")).kafka.partitions == 1


ON_REDSHIFT = """\
pipeline: shop
sources: [{name: s, kind: mysql, host: h, user: u, password_env: P, tables: ["shop.*"]}]
objects: {url: "s3://b/p", format: csv}
sinks:
  - {name: wh, kind: KIND, host: h, database: d, user: u, password_env: P,
     tasks: [{name: log, schedule: 1 MINUTE, stream: shop.log, sql: "INSERT INTO mart.log SELECT 1 FROM {stream}"}]}
links: [{from: s, to: wh}]
"""


def test_a_redshift_has_tasks_and_check_tells_them() -> None:
    spec = parse(ON_REDSHIFT.replace("KIND", "redshift"), "shop.yaml", Path("/etc/penstock"))

    assert [sink.name for sink in sinks_with_tasks(spec)] == ["wh"]
    told = [line for line in sink_kind(spec, spec.sinks[0]).explain() if line.startswith("task ")]
    assert told == ["task     log, every 1 MINUTE, when shop.log was loaded"]


def test_a_sink_that_cannot_have_tasks_refuses_them() -> None:
    with pytest.raises(ConfigError) as refused:
        parse(ON_REDSHIFT.replace("KIND", "delta"), "shop.yaml", Path("/etc/penstock"))

    assert any("tasks: unknown key" in found for found in refused.value.mistakes)
