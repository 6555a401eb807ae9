"""Tasks in a Redshift: what its locks, its errors, its names and its several schemas of state make different."""

from __future__ import annotations

import threading
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.servers.redshift_case import log_in, target
from tests.servers.redshift_case import run as run_as_superuser
from tests.servers.sink_case import FIRST, SCHEMAS, TABLE, Place, write_batch
from tests.servers.test_micro_batches import COPY, EVENTS, add_events, copied, make_mart, run

from penstock.config.load import parse
from penstock.config.sinks import RedshiftSinkSpec
from penstock.core.errors import PenstockError, RefusedStatementError, SinkError
from penstock.core.tables import TableId
from penstock.core.warehouse.micro_batches import Task
from penstock.dev.redshift.control import Fault
from penstock.links.warehouse.micro_batches import TaskRuns
from penstock.wiring.micro_batches import TaskRound, open_tasks, run_tasks_once
from penstock.wiring.open import open_pipeline_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from penstock.config.specs import PipelineSpec
    from penstock.dev.redshift import RedshiftServer
    from penstock.dev.s3 import S3Server
    from penstock.ports.warehouse import Value, Warehouse

MERGE = """\
MERGE INTO mart.copied USING mart.news AS n ON mart.copied.id = n.id
WHEN MATCHED THEN UPDATE SET id = n.id WHEN NOT MATCHED THEN INSERT VALUES (n.id)"""
MERGED = (
    "CREATE TABLE IF NOT EXISTS mart.news (id INTEGER)",
    "DELETE FROM mart.news",
    "INSERT INTO mart.news SELECT id FROM {stream} AS s",
    MERGE,
)


@pytest.fixture
def place(redshift_place: Place) -> Place:
    """A database of a Redshift with an empty mart, and files that COPY reads."""
    make_mart(redshift_place)
    return redshift_place


@pytest.fixture
def healthy(redshift: RedshiftServer) -> Iterator[RedshiftServer]:
    """The server, which is well again at the end, whatever a test does to it."""
    yield redshift
    redshift.fault(None)


def open_runs(place: Place) -> TaskRuns:
    runs = TaskRuns(place.target.connect("shop/tasks"), "shop", ["shopdb"])
    runs.start()
    return runs


class Watched:
    """A warehouse in which something happens ahead of statements on `mart`, and that counts its questions."""

    def __init__(self, warehouse: Warehouse, act: Callable[[], None] = lambda: None) -> None:
        self._warehouse = warehouse
        self._act = act
        self.questions = 0

    def fetch(self, statement: str, values: Sequence[Value] = ()) -> list[tuple[Value, ...]]:
        self.questions += 1
        return self._warehouse.fetch(statement, values)

    def run(self, statement: str, values: Sequence[Value] = ()) -> None:
        if "mart" in statement:
            self._act()
        self._warehouse.run(statement, values)

    def __getattr__(self, name: str) -> object:
        return getattr(self._warehouse, name)


@pytest.mark.parametrize("level", ["SNAPSHOT", pytest.param("SERIALIZABLE", marks=pytest.mark.nightly)])
def test_runners_of_the_same_task_at_the_same_moment_take_each_row_once(
    place: Place, redshift: RedshiftServer, level: str
) -> None:
    with closing(log_in(redshift)) as connection:
        run_as_superuser(connection, f"ALTER DATABASE {target(place).cluster.database} ISOLATION LEVEL {level}")
    add_events(place, place.open(), 0, 3)
    several, together = [open_runs(place) for _ in range(3)], threading.Barrier(3)
    failures: list[PenstockError] = []

    def take(runs: TaskRuns) -> None:
        together.wait()
        try:
            runs.run(COPY)
        except PenstockError as error:
            failures.append(error)
        runs.close()

    threads = [threading.Thread(target=take, args=[runs]) for runs in several]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert (failures, copied(place)) == ([], [0, 1, 2])


def test_a_task_that_is_under_way_holds_up_no_load_of_tables_that_it_does_not_read(place: Place) -> None:
    sink = place.open()
    add_events(place, sink, 0, 2)
    watched = Watched(place.target.connect("shop/tasks"), lambda: load(place, 0, [("a", 1, "c")]))
    with closing(TaskRuns(watched, "shop", ["shopdb"])) as runs:  # type: ignore[arg-type]  # the rest is by `__getattr__`
        runs.start()
        assert runs.run(COPY)

    assert copied(place) == [0, 1]
    assert place.ask("SELECT id, qty FROM shop.orders") == [("a", 1)]


def load(place: Place, start: int, rows: Sequence[tuple[object, ...]]) -> None:
    place.opened[0].load(TABLE, [write_batch(place, FIRST, 1, start, rows)], SCHEMAS)


def test_rows_of_all_sources_are_seen_by_one_question_and_names_are_found_however_they_are_written(
    place: Place,
) -> None:
    orders = replace(FIRST, table=TableId("Shop", "Orders"))
    by_qty = Task("by_qty", ("INSERT INTO mart.copied SELECT qty FROM {stream} AS s",), TABLE, by=("QTY",))
    other, watched = place.open("other"), Watched(place.target.connect("shop/tasks"))
    with closing(TaskRuns(watched, "shop", ["shopdb", "other"])) as runs:  # type: ignore[arg-type]  # as above
        runs.start()
        assert runs.loads() == {}
        other.load(orders.table, [write_batch(place, orders, 1, 0, [("a", 7, "c")])], {1: orders})
        assert set(runs.loads()) == {"Shop.Orders", "shop.orders"}
        assert runs.run(by_qty)
        add_events(place, place.open(), 0, 2)
        assert set(runs.loads()) == {"Shop.Orders", "shop.orders", "app.events"}
        assert runs.run(COPY)
        other.load(orders.table, [write_batch(place, orders, 1, 1, [("b", 9, "c")])], {1: orders})
        by_qty = replace(by_qty, stream=orders.table, by=("qty",))
        assert runs.run(by_qty)
        watched.questions = 0
        loads = runs.loads()
        assert [task.name for task in (COPY, by_qty) if runs.has_work(task, loads)] == []
        assert watched.questions == 1

    assert copied(place) == [0, 1, 7, 9]


@pytest.mark.nightly  # it is SQL of the task's owner, and all of it goes the way of COPY
def test_what_is_new_is_merged_from_a_table_of_the_task_s_own(place: Place) -> None:
    sink, merge = place.open(), Task("merge", MERGED, EVENTS.table)
    for start in (0, 3):
        add_events(place, sink, start, start + 3)
        assert run(place, merge) == ["merge"]

    assert copied(place) == [0, 1, 2, 3, 4, 5]


def test_an_isolation_error_runs_the_task_again(place: Place, healthy: RedshiftServer) -> None:
    add_events(place, place.open(), 0, 2)
    with closing(open_runs(place)) as runs:
        healthy.fault(Fault("isolation", "INSERT INTO mart", times=1))
        assert runs.run(COPY)

    assert copied(place) == [0, 1]


@pytest.mark.nightly
def test_an_isolation_error_that_stays_is_no_statement_s_fault(place: Place, healthy: RedshiftServer) -> None:
    add_events(place, place.open(), 0, 2)
    with closing(open_runs(place)) as runs:
        healthy.fault(Fault("isolation", "INSERT INTO mart"))
        with pytest.raises(SinkError, match="another one was in the way of: 1023") as told:
            runs.run(COPY)
        assert not isinstance(told.value, RefusedStatementError)
        healthy.fault(None)
        assert runs.run(COPY)

    assert copied(place) == [0, 1]


FILE = """\
pipeline: shop
home: home
sources: [{{name: shopdb, kind: mysql, host: h, user: u, password_env: P, tables: ["shop.*"]}}]
objects: {{url: "{url}", endpoint: "{endpoint}", region: {region}, format: csv}}
sinks:
  - name: wh
    kind: redshift
    host: {host}
    port: {port}
    database: {database}
    user: {user}
    password_env: SINK_PASSWORD
    sslmode: disable
    iam_role: "{role}"
    tasks:
      - {{name: bad, schedule: 1 SECOND, stream: app.events, suspend_after: 2, sql: ["{copy}", "{bad}"]}}
      - {{name: good, schedule: 1 SECOND, stream: app.events, sql: "{copy}"}}
links: [{{from: shopdb, to: wh}}]
"""


def pipeline(place: Place, s3: S3Server, path: Path, monkeypatch: pytest.MonkeyPatch, bad: str) -> PipelineSpec:
    """A pipeline into the place, with a task that copies the log, and one that does so and something bad."""
    cluster = target(place).cluster
    keys = {"AWS_ACCESS_KEY_ID": s3.access_key_id, "AWS_SECRET_ACCESS_KEY": s3.secret_access_key}
    for name, value in {**keys, "SINK_PASSWORD": cluster.password}.items():
        monkeypatch.setenv(name, value)
    login = {"host": cluster.host, "port": cluster.port, "database": cluster.database, "user": cluster.user}
    where = {"url": target(place).store_url, "endpoint": s3.endpoint, "region": s3.region}
    copy = "INSERT INTO mart.copied SELECT id FROM {stream} AS s"
    text = FILE.format(**login, **where, role=target(place).rights.iam_role, copy=copy, bad=bad)
    spec = parse(text, "shop.yaml", path)
    spec.home.mkdir()
    with closing(open_pipeline_state(spec)):
        return spec


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ("INSERT INTO mart.nowhere SELECT 1", "nowhere"),
        pytest.param("CREATE DATABASE other", "runs it in no transaction", marks=pytest.mark.nightly),
        pytest.param("INSERT INTO mart.copied SELECT 1 / 0", "division by zero", marks=pytest.mark.nightly),
    ],
)
def test_a_statement_that_is_refused_suspends_its_task_and_leaves_nothing_while_others_go_on(
    place: Place, s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: str, told: str
) -> None:
    spec, sink = pipeline(place, s3, tmp_path, monkeypatch, bad), place.open()
    assert isinstance(spec.sinks[0], RedshiftSinkSpec)
    add_events(place, sink, 0, 1)
    assert told in str(run_tasks_once(spec))

    due = TaskRound(spec, spec.sinks[0])
    with closing(open_tasks(spec, spec.sinks[0])) as runs:
        for number in range(1, 4):
            add_events(place, sink, number, number + 1)
            due.run(runs, float(number))
            assert copied(place) == list(range(number + 1))

    with closing(open_pipeline_state(spec)) as state:
        assert "is suspended: it failed 2 times in a row" in state.stopped_tables("tasks of wh")["bad"]


def test_what_passes_by_itself_suspends_no_task(
    place: Place, s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, healthy: RedshiftServer
) -> None:
    spec, sink = (
        pipeline(place, s3, tmp_path, monkeypatch, "INSERT INTO mart.copied SELECT 1 WHERE 1 = 0"),
        place.open(),
    )
    assert isinstance(spec.sinks[0], RedshiftSinkSpec)
    add_events(place, sink, 0, 1)

    due = TaskRound(spec, spec.sinks[0])
    with closing(open_tasks(spec, spec.sinks[0])) as runs:
        for number, state in enumerate(("disk_full", "query_killed", "timeout")):
            healthy.fault(Fault(state, "INSERT INTO mart.copied SELECT 1"))
            due.run(runs, float(number))
            assert list(due.errors) == ["bad"]
        healthy.fault(None)
        due.run(runs, 9.0)

    assert due.errors == {}
    assert copied(place) == [0, 0]
