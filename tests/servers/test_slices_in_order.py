"""Files of a backlog that tasks read side by side: each publishes its own in its turn, whatever dies on the way."""

from __future__ import annotations

import os
import signal
import time
from contextlib import closing, suppress
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
import yaml
from tests.servers.kinds import first
from tests.servers.slice_tasks import RangeTask, newest_record, plan_ranges

from penstock.adapters.registry.client import HttpRegistry
from penstock.core.avro.envelope_decode import decode_changes
from penstock.core.avro.schemas import table_schema
from penstock.core.avro.wire import schema_ids
from penstock.core.errors import DisplacedError
from penstock.core.positions import BinlogPosition
from penstock.jobs.in_process import carry
from penstock.links.capture.backlog_slices import SliceDropped, SlicePublished
from penstock.links.capture.spec import CaptureSpec
from penstock.wiring.capture import open_live

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers.capture_case import CaptureCase, CaseServers

    from penstock.embedded.kafka import KafkaBroker

TASKS = 3
ROWS = 10
"""In each file; half a megabyte each, so that they are a publication of their own."""
READ_SECONDS = 2.0


@pytest.fixture
def case(case_servers: CaseServers, kafka: KafkaBroker, fresh_database: str) -> CaptureCase:
    made = case_servers.make_case(kafka, fresh_database)
    config = yaml.safe_load(made.file.read_text())
    config["sources"][0]["backlog_tasks"] = TASKS
    made.file.write_text(yaml.safe_dump(config))
    made.write("CREATE TABLE t (id INT PRIMARY KEY, n INT, text LONGTEXT)", "CREATE TABLE users (id INT PRIMARY KEY)")
    made.start()
    # Ranges are whole files: a tail slice has carried what came before the first.
    made.write("FLUSH BINARY LOGS")
    with closing(open_live(CaptureSpec(made.spec, "db", 1))) as live:
        live.run(60.0, BinlogPosition(made.head().file, 4))
    return made


@pytest.fixture
def started() -> Iterator[list[RangeTask]]:
    """Tasks that a test starts."""
    tasks: list[RangeTask] = []
    yield tasks
    for task in tasks:
        task.kill()


def write_file(case: CaptureCase, number: int) -> None:
    """Fill one file: rows, and an update of each that must come behind it."""
    first = number * ROWS
    rows = f"SELECT seq, 0, REPEAT(CHAR(97 + seq % 26), 500000) FROM seq_{first}_to_{first + ROWS - 1}"
    case.write(f"INSERT INTO t {rows}", f"UPDATE t SET n = {number + 1} WHERE id % {ROWS} = 7")


def write_files(case: CaptureCase, count: int) -> None:
    for number in range(count):
        write_file(case, number)
        case.write("FLUSH BINARY LOGS")


def carry_all(case: CaptureCase) -> None:
    """Carry the log to its end, as often as tasks that are left of an older micro-batch may take the capture over."""
    for _ in range(TASKS):
        with suppress(DisplacedError):
            carry(case.spec, "db")
            return
    carry(case.spec, "db")


def told(case: CaptureCase) -> list[tuple[str, int, int, int]]:
    """Op, id, n and length of the text of every message, as they come."""
    spec = case.spec
    found: list[tuple[str, int, int, int]] = []
    with closing(HttpRegistry(spec.schematizer.url if spec.schematizer else "")) as registry:
        for _, _, _, value in case.read(case.topic("t")):
            values = pa.array([value], pa.binary())
            text = registry.value_schema(int(schema_ids(values)[0]))
            changes = decode_changes(table_schema(text), text, values)
            row = changes.after.to_pylist()[0]
            found.append((str(changes.op[0]), row["id"], row["n"], len(row["text"])))
    return found


def expected(count: int) -> list[tuple[str, int, int, int]]:
    """What a log of so many files says."""
    changes = []
    for number in range(count):
        changes += [("c", number * ROWS + row, 0, 500_000) for row in range(ROWS)]
        changes += [("u", before * ROWS + 7, number + 1, 500_000) for before in range(number + 1)]
    return changes


def test_files_that_are_read_side_by_side_arrive_in_the_order_of_the_log(
    case: CaptureCase, started: list[RangeTask]
) -> None:
    write_files(case, 5)
    first, *others = plan_ranges(case.spec, TASKS)

    started += map(RangeTask, others)
    time.sleep(READ_SECONDS)
    assert (told(case), newest_record(case.spec).publish_token) == ([], None)
    started.append(RangeTask(first))
    outcomes = [task.outcomes() for task in started]

    assert [[outcome.goes_on for outcome in told] for told in outcomes] == [[True, False], [True], [True, True]]
    # What was read when its turn came goes together.
    assert {outcome.publications for told in outcomes for outcome in told} <= {1, 2}
    assert told(case) == expected(5)


@pytest.mark.nightly
def test_behind_a_statement_in_the_first_of_three_files_every_turn_is_over_at_once(
    case: CaptureCase, started: list[RangeTask]
) -> None:
    write_file(case, 0)
    case.write("ALTER TABLE users ADD COLUMN karma INT", "FLUSH BINARY LOGS")
    write_file(case, 1)
    case.write("FLUSH BINARY LOGS")
    write_file(case, 2)
    case.write("FLUSH BINARY LOGS")
    tasks = plan_ranges(case.spec, TASKS)

    begun = time.monotonic()
    started += map(RangeTask, tasks)
    (first,), *others = [task.outcomes() for task in started]

    assert time.monotonic() - begun < 20
    assert (type(first), first.goes_on) == (SlicePublished, False)
    assert [(type(each), each.waited_seconds) for (each,) in others] == [(SliceDropped, 0.0)] * 2
    assert told(case) == expected(1)
    carry(case.spec, "db")
    assert told(case) == expected(3)


@pytest.mark.parametrize(
    "place",
    first(
        1, "publish.messages_sent:2", "publish.committed:1", "publish.committed:2", "publisher.opened", "publish.sent:2"
    ),
)
def test_a_task_that_is_killed_in_its_turn_loses_and_repeats_nothing(
    case: CaptureCase, started: list[RangeTask], place: str
) -> None:
    write_files(case, 4)
    tasks = plan_ranges(case.spec, TASKS)

    started += [RangeTask(task, place * (index == 1)) for index, task in enumerate(tasks)]
    assert started[1].died() == signal.SIGKILL
    # Of its micro-batch, the others are left for a while.
    carry_all(case)

    assert told(case) == expected(4)


@pytest.mark.nightly
def test_a_task_that_is_killed_while_it_waits_loses_and_repeats_nothing(
    case: CaptureCase, started: list[RangeTask]
) -> None:
    write_files(case, 4)
    tasks = plan_ranges(case.spec, TASKS)

    started += map(RangeTask, tasks[1:])
    time.sleep(READ_SECONDS)
    started[0].kill()
    started.append(RangeTask(tasks[0]))
    while (publish_token := newest_record(case.spec).publish_token) is None or publish_token.state != "passed":
        time.sleep(0.05)
    for task in started:
        task.kill()
    assert told(case) == expected(1)
    carry(case.spec, "db")

    assert told(case) == expected(4)


def test_a_task_that_slept_while_others_went_on_publishes_nothing(case: CaptureCase, started: list[RangeTask]) -> None:
    write_files(case, 3)
    first, second, third = plan_ranges(case.spec, TASKS)

    sleeper = RangeTask(second)
    started.append(sleeper)
    time.sleep(READ_SECONDS)
    assert sleeper.process.pid is not None
    os.kill(sleeper.process.pid, signal.SIGSTOP)
    started += [RangeTask(first), RangeTask(third)]
    while (publish_token := newest_record(case.spec).publish_token) is None or publish_token.state != "passed":
        time.sleep(0.05)
    started[2].kill()
    carry(case.spec, "db")
    case.write("INSERT INTO users VALUES (1)")
    os.kill(sleeper.process.pid, signal.SIGCONT)

    carry(case.spec, "db")

    assert told(case) == expected(3)


@pytest.mark.nightly
def test_whoever_a_left_over_task_takes_the_capture_from_takes_it_back(
    case: CaptureCase, started: list[RangeTask]
) -> None:
    write_files(case, 3)
    first, second, _ = plan_ranges(case.spec, TASKS)
    started.append(RangeTask(first))
    started[0].outcomes()
    # The micro-batch has failed, so the next one is under way.
    with closing(open_live(first.spec)) as live:
        started.append(RangeTask(second))
        assert [type(outcome) for outcome in started[1].outcomes()] == [SlicePublished]
        with pytest.raises(DisplacedError):
            live.run(60.0, case.head())

    with closing(open_live(first.spec)) as live:
        live.run(60.0, case.head())

    assert told(case) == expected(3)


@pytest.mark.nightly
def test_another_attempt_at_a_task_whose_turn_was_leaves_the_next_its_turn(
    case: CaptureCase, started: list[RangeTask]
) -> None:
    write_files(case, 3)
    first, second, third = plan_ranges(case.spec, TASKS)
    started.append(RangeTask(first))
    assert [outcome.goes_on for outcome in started[0].outcomes()] == [True]

    started.append(RangeTask(first))
    assert [type(outcome) for outcome in started[1].outcomes()] == [SliceDropped]
    started += map(RangeTask, (second, third))
    outcomes = [task.outcomes() for task in started[2:]]

    assert [outcome.goes_on for (outcome,) in outcomes] == [True, False]
    assert told(case) == expected(3)
