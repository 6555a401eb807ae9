"""Topics that somebody changed under a pipeline: recognised, explained, and never answered with a guess."""

from __future__ import annotations

import re
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from penstock.core.errors import PositionError
from penstock.wiring.capture_mirror import SourceMirror
from penstock.wiring.open import OBJECTS_LINK, committed_position, open_pipeline_state, open_publisher, open_topic_log

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers.capture_case import CaptureCase, CaseServers

    from penstock.embedded.kafka import KafkaBroker

TABLE = "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(40))"


@pytest.fixture
def case(case_servers: CaseServers, kafka: KafkaBroker, fresh_database: str) -> CaptureCase:
    """Three rows that were copied, and one that was captured."""
    made = case_servers.make_case(kafka, fresh_database)
    made.write(TABLE, "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    made.start()
    made.write("INSERT INTO t VALUES (4, 'd')")
    made.run()
    return made


def refusal(work: Callable[[], None]) -> PositionError:
    with pytest.raises(PositionError) as caught:
        work()
    assert caught.value.hint
    return caught.value


def stopped(case: CaptureCase, link: str = "db") -> str:
    """Why a link has stopped `t`."""
    with closing(open_pipeline_state(case.spec)) as state:
        with closing(SourceMirror(case.spec, case.spec.sources[0], state)) as mirror:
            mirror.refresh()
        return state.stopped_tables(link)[f"{case.database}.t"]


def last_offset(case: CaptureCase) -> int:
    return case.read(case.topic("t"))[-1][1]


def test_a_capture_that_nobody_disturbed_goes_on(case: CaptureCase) -> None:
    case.write("UPDATE t SET name = 'x'", "CREATE TABLE u (id INT)", "INSERT INTO u VALUES (1)")
    case.run()
    case.write("ALTER TABLE t ADD COLUMN n INT", "DELETE FROM t")
    case.run(epoch=2)
    case.run_objects()
    case.run_objects(epoch=2)

    assert len(case.read(case.topic("t"))) == 4 + 4 + 4


def test_a_foreign_message_between_two_runs_stops_its_table(case: CaptureCase) -> None:
    case.put(case.topic("t"), b"hello")

    case.run()

    assert re.search(rf"{case.topic('t')}/0 has a foreign message at offset \d+: .* b'hello'", stopped(case))


def test_a_change_that_was_written_again_stops_its_table(case: CaptureCase) -> None:
    _, _, key, value = case.read(case.topic("t"))[0]
    case.put(case.topic("t"), value, key)

    case.run()

    assert "somebody wrote them again" in stopped(case)


def test_a_change_from_beyond_our_position_stops_its_table(case: CaptureCase) -> None:
    case.write("INSERT INTO t VALUES (5, 'e')")
    case.run()
    _, _, key, value = case.read(case.topic("t"))[-1]
    offset = value.index(b".0000") + len(b".000000")
    case.put(case.topic("t"), value[:offset] + b"\xfe\xff\xff\xff\x0f" + value[offset + 2 :], key)

    case.run()

    assert "has a foreign message at offset" in stopped(case)


@pytest.mark.nightly
def test_a_foreign_message_in_a_copy_that_was_broken_off_stops_the_capture(case: CaptureCase) -> None:
    with closing(open_topic_log(case.spec)) as log:
        record = committed_position(case.spec, log, "db") or pytest.fail("there is no record")
        with closing(open_publisher(case.spec, "db", 1, log=log)) as publisher:
            publisher.publish((), lambda: {**record, "copying": True})
    case.put(case.topic("t"), b"hello")

    assert "has a foreign message at offset" in refusal(case.start).message


def test_a_capture_does_not_start_anew_when_its_position_is_gone(case: CaptureCase) -> None:
    admin = AdminClient({"bootstrap.servers": case.bootstrap_servers})
    for future in admin.delete_topics([f"penstock.{case.database}.position.db"]).values():
        future.result(30)

    assert "has no position, although its link has published" in refusal(case.start).message


def test_kafka_that_is_older_than_the_state_database_is_not_written_to(case: CaptureCase) -> None:
    with closing(open_pipeline_state(case.spec)) as state:
        with closing(SourceMirror(case.spec, case.spec.sources[0], state)) as mirror:
            mirror.refresh()
        case.run()
        position, records = state.position("db") or pytest.fail("the mirror is empty")
        topics = {f"{case.topic('t')}/0": last_offset(case) + 100}

        state.save_position("db", position, records + 100, {}, {})
        assert f"position.db/0 up to offset {records + 100}, but it ends at" in refusal(case.run).message
        state.save_position("db", position, records, topics, {})
        assert f"{case.topic('t')}/0 up to offset" in refusal(case.run).message


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda _: b"hello", "does not begin with a schema id"),
        pytest.param(lambda value: b"\0\x7f\xff\xff\xff" + value[5:], "2147483647", marks=pytest.mark.nightly),
        pytest.param(lambda value: value + b"x", "bytes", marks=pytest.mark.nightly),
        (lambda value: value.replace(b"\x04db", b"\x04no", 1), "it is of source 'no', not of 'db'"),
        (lambda value: value, "is before that of the message ahead of it"),
    ],
)
def test_a_foreign_message_stops_the_files_of_its_table_at_its_place(
    case: CaptureCase, damage: Callable[[bytes], bytes], words: str
) -> None:
    case.run_objects()
    _, _, key, value = case.read(case.topic("t"))[0]
    case.put(case.topic("t"), damage(value), key)
    offset = last_offset(case)

    case.run_objects()
    case.run_objects()

    message = stopped(case, OBJECTS_LINK)
    assert f"{case.topic('t')}/0 has a foreign message at offset {offset}: " in message
    assert words in message


def test_a_message_that_is_nothing_stops_the_files(case: CaptureCase) -> None:
    case.put(f"penstock.{case.database}.schemas", b"{}")

    assert re.search(r"schemas/0 has a foreign message at offset \d+", refusal(case.run_objects).message)


@pytest.mark.nightly
def test_files_of_a_topic_that_was_deleted_are_not_waited_for(case: CaptureCase) -> None:
    case.run_objects()
    admin = AdminClient({"bootstrap.servers": case.bootstrap_servers})
    for future in admin.delete_topics([case.topic("t")]).values():
        future.result(30)

    assert f"{case.topic('t')}/0 is gone" in refusal(case.run_objects).message

    for created in admin.create_topics([NewTopic(case.topic("t"), 1, 1)]).values():
        created.result(30)
    assert f"{case.topic('t')}/0 ends at 0, but was read up to" in refusal(case.run_objects).message

    for _ in range(20):
        case.put(case.topic("t"), b"x")
    assert f"topic {case.topic('t')} was deleted and recreated" in refusal(case.run_objects).message
