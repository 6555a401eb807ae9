"""The tasks of a sink by their schedules: most are skipped, and one that fails is told, tried again and suspended."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from penstock.adapters.duckdb.warehouse import DuckdbWarehouse
from penstock.config.load import parse
from penstock.config.sinks import DuckdbSinkSpec
from penstock.core.errors import RefusedStatementError, SinkError, UnavailableError
from penstock.links.warehouse.micro_batches import TaskRuns
from penstock.wiring.health import find_problems, is_healthy
from penstock.wiring.micro_batches import MicroBatches, TaskRound, open_tasks, run_tasks_once
from penstock.wiring.open import open_pipeline_state
from penstock.wiring.pipeline_status import StatusReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from penstock.config.specs import PipelineSpec
    from penstock.core.errors import PenstockError
    from penstock.ports.warehouse import Value

FILE = """\
pipeline: shop
home: home
sources: [{{name: s, kind: mysql, host: h, user: u, password_env: P, tables: ["shop.*"]}}]
sinks: [{{name: wh, kind: duckdb, path: wh.duckdb, tasks: [{tasks}]}}]
links: [{{from: s, to: wh}}]
"""
COPY = (
    "{{name: {name}, schedule: 1 SECOND, stream: app.{name}, by: id, suspend_after: 2, "
    "sql: 'INSERT INTO mart.{into} SELECT id FROM {{stream}} AS s'}}"
)


def pipeline(path: Path, *tasks: str) -> PipelineSpec:
    spec = parse(FILE.format(tasks=", ".join(tasks)), "shop.yaml", path)
    spec.home.mkdir()
    with closing(open_pipeline_state(spec)):
        return spec


def sink_of(spec: PipelineSpec) -> DuckdbSinkSpec:
    sink = spec.sinks[0]
    assert isinstance(sink, DuckdbSinkSpec)
    return sink


class Counted(DuckdbWarehouse):
    """A file that counts its statements."""

    statements = 0

    def run(self, statement: str, values: Sequence[Value] = ()) -> None:
        self.statements += 1
        super().run(statement, values)

    def fetch(self, statement: str, values: Sequence[Value] = ()) -> list[tuple[Value, ...]]:
        self.statements += 1
        return super().fetch(statement, values)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Counted]:
    with closing(Counted(tmp_path / "wh.duckdb")) as warehouse:
        columns = (
            "pipeline VARCHAR, source VARCHAR, source_table VARCHAR, topic VARCHAR, partition INT, next_offset INT"
        )
        barriers = "pipeline VARCHAR, source_table VARCHAR, border_file INT, border_offset INT, border_row INT"
        for statement in (
            "CREATE SCHEMA app",
            "CREATE SCHEMA mart",
            "CREATE SCHEMA penstock",
            f"CREATE TABLE penstock.positions ({columns})",
            f"CREATE TABLE penstock.tables ({barriers})",
            "CREATE TABLE mart.copied (id INT)",
        ):
            warehouse.run(statement)
        yield warehouse


def load(file: Counted, table: str, row: int) -> None:
    """Add a row, as a load does."""
    file.run(f"CREATE TABLE IF NOT EXISTS app.{table} (id INT)")
    file.run(f"INSERT INTO app.{table} VALUES ({row})")
    file.run(f"DELETE FROM penstock.positions WHERE source_table = 'app.{table}'")
    file.run(f"INSERT INTO penstock.positions VALUES ('shop', 's', 'app.{table}', 't', 0, {row})")


@pytest.mark.parametrize(("tables", "rounds"), [(5, 20), pytest.param(50, 100, marks=pytest.mark.nightly)])
def test_of_many_runs_those_without_news_cost_a_query_for_each_round(
    tmp_path: Path, file: Counted, tables: int, rounds: int
) -> None:
    names = [f"t{number}" for number in range(tables)]
    spec = pipeline(tmp_path, *(COPY.format(name=name, into="copied") for name in names))
    for name in names:
        load(file, name, 1)
    due, runs = TaskRound(spec, sink_of(spec)), TaskRuns(file, "shop")
    runs.start()
    due.run(runs, 0.0)
    assert file.fetch("SELECT COUNT(*) FROM mart.copied") == [(tables,)]

    file.statements = 0
    for number in range(rounds):
        if number % 10 == 9:
            load(file, names[number % tables], number)
            file.statements -= 4
        assert due.run(runs, 1.0 + number) == 2.0 + number

    assert file.fetch("SELECT COUNT(*) FROM mart.copied") == [(tables + rounds // 10,)]
    # A round asks once. A run in each tenth reads places, loads, columns, end and counts, and writes rows and place.
    assert file.statements - 1 == rounds + rounds // 10 * 8


def test_a_task_that_fails_is_told_and_suspended_and_the_others_go_on_until_it_is_mended(
    tmp_path: Path, file: Counted
) -> None:
    spec = pipeline(tmp_path, COPY.format(name="good", into="copied"), COPY.format(name="bad", into="missing"))
    for name in ("good", "bad"):
        load(file, name, 1)

    assert "missing" in str(run_tasks_once(spec))
    assert told(spec) == [("tasks of wh, bad", "the task failed: DuckDB refused a statement on")]
    due, runs = TaskRound(spec, sink_of(spec)), open_tasks(spec, sink_of(spec))
    for number in range(2, 5):
        load(file, "bad", number)
        due.run(runs, float(number))
    assert told(spec) == [("tasks of wh, bad", "the task is suspended: it failed 2 times in a ")]
    runs.close()

    file.run("CREATE TABLE mart.missing (id INT)")
    assert run_tasks_once(spec) is None
    assert told(spec) == []
    assert file.fetch("SELECT id FROM mart.missing ORDER BY id") == [(1,), (2,), (3,), (4,)]
    assert file.fetch("SELECT id FROM mart.copied") == [(1,)]


def test_a_task_whose_table_never_got_a_row_is_told_and_not_any_more_when_it_has(tmp_path: Path, file: Counted) -> None:
    spec = pipeline(tmp_path, COPY.format(name="one", into="copied"))
    run_tasks_once(spec)
    with closing(StatusReader(spec)) as reader:
        assert [(t.table, t.hint) for t in reader.read().tables if t.hint] == [
            ("one", "it waits for the first rows of app.one; is that what the sink calls the table?")
        ]
        load(file, "one", 1)
        run_tasks_once(spec)
        assert [t.table for t in reader.read().tables if t.hint] == []


def told(spec: PipelineSpec) -> list[tuple[str, str]]:
    """What `penstock status` says of tasks."""
    with closing(StatusReader(spec)) as reader:
        status = reader.read()
    problems = find_problems(status, "shop.yaml")
    assert not (is_healthy(status, problems) and problems)
    return [(each.subject, each.text[:46]) for each in problems if "tasks" in each.subject]


def test_a_target_that_is_away_is_told_of_every_task_and_taken_back_when_it_is_there(tmp_path: Path) -> None:
    spec = pipeline(tmp_path, COPY.format(name="one", into="copied"))
    sink = sink_of(spec)
    sink.path.write_bytes(b"x" * 20_000)
    beside = MicroBatches(spec, sink)
    beside._work_once()
    assert [subject for subject, text in told(spec) if text.startswith("the task waits: ")] == ["tasks of wh, one"]

    sink.path.unlink()
    beside._work_once()
    beside._close()
    assert told(spec) == []


class Troubled(DuckdbWarehouse):
    """A file in which statements with a word fail; one that `is_lost` fails from then on."""

    word = "mart.other"
    is_lost = False
    error: PenstockError | None = None

    def run(self, statement: str, values: Sequence[Value] = ()) -> None:
        self._fail(statement)
        super().run(statement, values)

    def fetch(self, statement: str, values: Sequence[Value] = ()) -> list[tuple[Value, ...]]:
        self._fail(statement)
        return super().fetch(statement, values)

    def _fail(self, statement: str) -> None:
        if self.error and self.word in statement:
            self.word = "" if self.is_lost else self.word
            raise self.error


@pytest.fixture
def troubled(tmp_path: Path, file: Counted) -> Iterator[Troubled]:
    file.run("CREATE TABLE mart.other (id INT)")
    for name in ("bad", "good"):
        load(file, name, 1)
    with closing(Troubled(tmp_path / "wh.duckdb")) as warehouse:
        yield warehouse


def rounds(tmp_path: Path, troubled: Troubled) -> tuple[PipelineSpec, TaskRound, TaskRuns]:
    """Two tasks, of which the first writes to `mart.other`."""
    spec = pipeline(tmp_path, COPY.format(name="bad", into="other"), COPY.format(name="good", into="copied"))
    runs = TaskRuns(troubled, "shop")
    runs.start()
    return spec, TaskRound(spec, sink_of(spec)), runs


FULL = "has a full disk"
ROOM = "make room there"


@pytest.mark.parametrize("error", [UnavailableError(FULL, ROOM), SinkError(FULL, ROOM)])
def test_what_passes_by_itself_suspends_no_task_stops_no_other_and_is_told_until_it_has_passed(
    tmp_path: Path, file: Counted, troubled: Troubled, error: PenstockError
) -> None:
    spec, due, runs = rounds(tmp_path, troubled)
    troubled.error = error

    for number in range(4):
        due.run(runs, float(number))
        assert told(spec) == [("tasks of wh, bad", f"the task failed: {FULL}")]
        assert hints(spec) == [f"{ROOM}; nothing is lost, and it is tried again at its next time"]
    assert file.fetch("SELECT id FROM mart.copied") == [(1,)]

    troubled.error = None
    due.run(runs, 9.0)
    assert told(spec) == []
    assert file.fetch("SELECT id FROM mart.other") == [(1,)]


def test_a_target_that_is_lost_in_a_round_is_told_until_a_round_came_to_its_end(
    tmp_path: Path, troubled: Troubled
) -> None:
    spec, due, runs = rounds(tmp_path, troubled)

    troubled.error, troubled.is_lost = UnavailableError("is away", "start it"), True
    with pytest.raises(UnavailableError) as lost:
        due.run(runs, 0.0)
    due.wait(lost.value)
    troubled.word = "mart.other"
    with pytest.raises(UnavailableError):
        due.run(runs, 1.0)
    assert [text for _, text in told(spec)] == ["the task waits: is away"] * 2

    troubled.error = None
    due.run(runs, 9.0)
    assert told(spec) == []


def test_a_suspended_task_keeps_its_error_while_the_target_is_away(tmp_path: Path, troubled: Troubled) -> None:
    spec, due, runs = rounds(tmp_path, troubled)
    troubled.error = RefusedStatementError("refused", "put the table back")
    for number in range(3):
        due.run(runs, float(number))
    suspended = ("tasks of wh, bad", "the task is suspended: it failed 2 times in a ")
    assert told(spec) == [suspended]
    assert hints(spec) == ["correct the task's `sql`, or what the error names; then start the pipeline again"]

    due.wait(UnavailableError("is away", "start it"))
    assert told(spec) == [suspended, ("tasks of wh, good", "the task waits: is away")]
    due.run(runs, 9.0)
    assert told(spec) == [suspended]


def hints(spec: PipelineSpec) -> list[str]:
    """What status says to do about tasks with an error."""
    with closing(StatusReader(spec)) as reader:
        return [table.hint for table in reader.read().tables if table.error]


def test_a_task_that_waits_for_its_first_rows_says_so_again_when_the_target_was_away(
    tmp_path: Path, file: Counted
) -> None:
    spec = pipeline(tmp_path, COPY.format(name="one", into="copied"))
    due, runs = TaskRound(spec, sink_of(spec)), TaskRuns(file, "shop")
    runs.start()
    due.run(runs, 0.0)

    due.wait(UnavailableError("is away", "start it"))
    due.run(runs, 1.0)

    with closing(StatusReader(spec)) as reader:
        assert [table.hint[:31] for table in reader.read().tables] == ["it waits for the first rows of "]
