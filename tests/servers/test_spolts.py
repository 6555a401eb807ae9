"""Spolts against a real broker and a real registry, without Spark: exactly once, in order, and what fails put aside."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from tests.servers.kinds import first
from tests.servers.spolt_case import SpoltCase, batches, make_case, open_publisher
from typer.testing import CliRunner

from penstock.cli.deadletters import app
from penstock.config.crash_points import VARIABLE
from penstock.core.errors import FencedError, PositionError, SpoltError
from penstock.core.spolts.raw import Letter
from penstock.web.replays import LetterReplays
from penstock.wiring.dead_letters import find_letters, replay_letters
from penstock.wiring.mirror import LinkCondition, ProgressLog, open_mirrors
from penstock.wiring.open import create_ledgers, open_pipeline_state
from penstock.wiring.pipeline_status import read_status

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.embedded.kafka import KafkaBroker

CODE = """\
import pyarrow as pa
from penstock.spolts import DeadLetterError, Output, spolt

@spolt(output=pa.schema([pa.field("key", pa.string()), pa.field("number", pa.int64(), nullable=False)]))
def double(message, broken=()):
    if message.value is None:
        return
    if message.value["number"] in broken:
        raise DeadLetterError("this number")
    for _ in range(2):
        yield Output({"key": message.key, "number": message.value["number"]})

def keep_even(message):
    if message.value["number"] % 2 == 0:
        yield message
"""
DOUBLE = """\
  - name: double
    function: code_{p}:double
    from: {topic: {p}.in, format: json}
    to: {p}.out
"""
EVEN = """\
  - name: even
    function: code_{p}:keep_even
    from: {p}.out
    to: {topic: {p}.even, schema: same}
"""
os.environ["NOBODY"] = ""


@pytest.fixture
def case_of(tmp_path: Path, fresh_name: str, kafka: KafkaBroker, schematizer: str) -> Callable[[str, str], SpoltCase]:
    """Make a case of spolts in YAML and of user code."""

    def make(spolts: str, code: str = CODE) -> SpoltCase:
        case = make_case(tmp_path, f"{fresh_name}_{os.getpid()}", (kafka.bootstrap_servers, schematizer), spolts, code)
        create_ledgers(case.spec)
        return case

    return make


def _fill(case: SpoltCase, count: int, begin: int = 0) -> None:
    """Numbers that rise, over 3 partitions and 7 keys, and one in 5 without a key."""
    numbers = range(begin, begin + count)
    case.send(
        f"{case.name}.in",
        [(None if number % 5 == 0 else f"k{number % 7}", {"number": number}, number % 7 % 3) for number in numbers],
    )


def _require_each_twice_in_order(case: SpoltCase, count: int) -> None:
    values = case.values(f"{case.name}.out")
    assert sorted(value["number"] for value in values) == sorted([*range(count), *range(count)])
    by_key: dict[str, list[int]] = {}
    for partition, raws in case.raw(f"{case.name}.out").items():
        numbers = [value["number"] for value in _decoded(case, partition)]
        for raw, number in zip(raws, numbers, strict=True):
            name = f"{raw.key!r} of {number % 7 % 3}"
            by_key.setdefault(name, []).append(number)
    assert len(by_key) > 7
    for numbers in by_key.values():
        assert all(before <= after for before, after in pairwise(numbers))


def _decoded(case: SpoltCase, partition: int) -> list[dict[str, int]]:
    sizes = [len(raws) for _, raws in sorted(case.raw(f"{case.name}.out").items())]
    values = case.values(f"{case.name}.out")
    start = sum(sizes[:partition])
    return values[start : start + sizes[partition]]


@pytest.mark.parametrize("points", first(1, ["publish.sent"], ["publish.messages_sent", "publish.committed"]))
def test_a_spolt_that_is_killed_at_any_write_publishes_everything_once_and_in_order(
    case_of: Callable[[str], SpoltCase], points: Sequence[str]
) -> None:
    case = case_of(DOUBLE)
    case.make_topic(f"{case.name}.in")
    for round_, point in enumerate(points):
        _fill(case, 200, 200 * round_)

        killed = subprocess.run(
            [sys.executable, "-m", "tests.servers.spolt_case", str(case.file), "double", str(2 * round_ + 1)],
            env={**os.environ, VARIABLE: point, "PYTHONPATH": os.pathsep.join(["src", "."])},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        case.carry("double", 2 * round_ + 2)

    _require_each_twice_in_order(case, 200 * len(points))


def test_an_older_instance_that_wakes_publishes_nothing(case_of: Callable[[str], SpoltCase]) -> None:
    case = case_of(DOUBLE)
    case.make_topic(f"{case.name}.in")
    _fill(case, 100)
    with closing(open_publisher(case.spec, "double", 1)) as older:
        made = next(batches(case.spec, "double"))
        case.carry("double", 2)

        with pytest.raises(FencedError):
            older.publish(made)

    with pytest.raises(FencedError):
        case.carry("double", 1)
    _require_each_twice_in_order(case, 100)


def test_a_message_that_fails_stops_the_spolt_at_its_place_and_is_the_next_one_when_it_is_mended(
    case_of: Callable[[str], SpoltCase],
) -> None:
    case = case_of(DOUBLE)
    case.make_topic(f"{case.name}.in", 1)
    case.send(f"{case.name}.in", [("a", {"number": 0}, 0), ("a", {"nomber": 1}, 0), ("a", {"number": 2}, 0)])

    with pytest.raises(SpoltError, match=rf"{case.name}\.in/0 offset 1: KeyError: 'number'") as caught:
        case.carry("double")

    assert "on_error: dead_letter" in caught.value.hint
    assert [value["number"] for value in case.values(f"{case.name}.out")] == [0, 0]
    with pytest.raises(SpoltError, match="offset 1"):
        case.carry("double")
    text = case.file.read_text()
    case.file.write_text(text.replace("    to: ", "    on_error: dead_letter\n    to: "))
    case.carry("double")
    assert [value["number"] for value in case.values(f"{case.name}.out")] == [0, 0, 2, 2]
    assert [each.letter.message.offset for each in find_letters(case.spec, "double", 10)] == [1]


def test_dead_letters_have_the_bytes_and_the_place_of_the_message_and_are_replayed_once(
    case_of: Callable[[str], SpoltCase],
) -> None:
    case = case_of(DOUBLE.replace("    to:", "    on_error: dead_letter\n    options: {broken: [3]}\n    to:"))
    case.make_topic(f"{case.name}.in")
    producer = Producer(case.cluster.client_settings())
    producer.produce(f"{case.name}.in", key=b"\xff", value=b"{no json", partition=2, headers=[("trace", b"\x00\x01")])
    assert producer.flush(30) == 0
    case.send(f"{case.name}.in", [("k", {"number": number}, 0) for number in range(5)])
    case.carry("double")

    runner = CliRunner()
    shown = json.loads(runner.invoke(app, ["show", str(case.file), "double", "--json"]).output)["letters"]

    topic = f"penstock.{case.name}.deadletters.double"
    (raws,) = case.raw(topic).values()
    letters = {letter.message.topic: letter for letter in map(Letter.read, raws) if letter.message.key == b"\xff"}
    broken = letters[f"{case.name}.in"]
    assert (broken.message.value, broken.message.headers) == (b"{no json", (("trace", b"\x00\x01"),))
    assert (broken.message.partition, broken.message.offset, broken.spolt) == (2, 0, "double")
    assert {(each["partition"], each["message_offset"]) for each in shown} == {(0, 3), (2, 0)}
    assert "its key is no text" in broken.error
    assert not any(each["replayed"] for each in shown)
    assert "2 dead letter(s)" in runner.invoke(app, ["show", str(case.file)]).output

    case.file.write_text(case.file.read_text().replace("broken: [3]", "broken: []"))
    first = replay_letters(case.spec, "double", (), again=False)
    second = asyncio.run(LetterReplays(case.file).replay("double"))
    mended = next(each["offset"] for each in shown if each["error"] == "this number")
    third = runner.invoke(app, ["replay", str(case.file), "double", "--offset", str(mended), "--again"])
    fourth = runner.invoke(app, ["replay", str(case.file), "double", "--json"])

    assert (first.published, list(first.failed)) == (
        [mended],
        [each["offset"] for each in shown if each["offset"] != mended],
    )
    assert (second.replayed, second.before, second.failed, second.failed_offset) == (0, 1, 1, *first.failed)
    assert (third.exit_code, third.output) == (0, "1 letter(s) replayed\n")
    assert fourth.exit_code == 1
    assert json.loads(fourth.output)["replayed_before"] == [mended]
    assert sorted(value["number"] for value in case.values(f"{case.name}.out")) == [0, 0, 1, 1, 2, 2, 3, 3, 3, 3, 4, 4]
    assert [each.replayed for each in find_letters(case.spec, "double", 1000)] == [
        each["offset"] == mended for each in shown
    ]


def test_a_replay_beside_the_spolt_disturbs_neither(case_of: Callable[[str], SpoltCase]) -> None:
    case = case_of(DOUBLE.replace("    to:", "    on_error: dead_letter\n    options: {broken: [3]}\n    to:"))
    case.make_topic(f"{case.name}.in")
    _fill(case, 10)
    case.carry("double", 1)
    case.file.write_text(case.file.read_text().replace("broken: [3]", "broken: []"))

    with closing(open_publisher(case.spec, "double", 2)) as running:
        _fill(case, 10, 10)
        done = replay_letters(case.spec, "double", (), again=False)
        for made in batches(case.spec, "double"):
            running.publish(made)

    assert len(done.published) == 1
    assert sorted(value["number"] for value in case.values(f"{case.name}.out")) == sorted([*range(20), *range(20)])


@pytest.mark.parametrize(("point", "counts"), first(1, ("publish.committed", (0, 1)), ("publish.sent", (1, 0))))
def test_a_replay_that_is_killed_publishes_each_letter_once(
    point: str, counts: tuple[int, int], case_of: Callable[[str], SpoltCase]
) -> None:
    case = case_of(DOUBLE.replace("    to:", "    on_error: dead_letter\n    options: {broken: [3]}\n    to:"))
    case.make_topic(f"{case.name}.in")
    _fill(case, 5)
    case.carry("double")
    case.file.write_text(case.file.read_text().replace("broken: [3]", "broken: []"))

    killed = subprocess.run(
        [sys.executable, "-m", "penstock", "deadletters", "replay", str(case.file), "double"],
        env={**os.environ, VARIABLE: point},
        capture_output=True,
        timeout=60,
        check=False,
    )
    done = replay_letters(case.spec, "double", (), again=False)

    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert (len(done.published), len(done.before)) == counts
    assert sorted(value["number"] for value in case.values(f"{case.name}.out")) == sorted([*range(5), *range(5)])


def test_messages_that_are_kept_as_they_are_keep_their_bytes(case_of: Callable[[str], SpoltCase]) -> None:
    case = case_of(DOUBLE + EVEN)
    case.make_topic(f"{case.name}.in")
    _fill(case, 50)

    case.carry("double")
    case.carry("even")

    made = sorted((raw.key or b"", raw.value or b"") for raws in case.raw(f"{case.name}.out").values() for raw in raws)
    kept = sorted((raw.key or b"", raw.value or b"") for raws in case.raw(f"{case.name}.even").values() for raw in raws)
    numbers = [value["number"] for value in case.values(f"{case.name}.even")]
    assert sorted(numbers) == sorted([*range(0, 50, 2), *range(0, 50, 2)])
    assert set(kept) < set(made)


def test_an_input_that_was_made_anew_stops_the_spolt(case_of: Callable[[str], SpoltCase]) -> None:
    case = case_of(DOUBLE)
    topic = f"{case.name}.in"
    case.make_topic(topic)
    _fill(case, 10)
    case.carry("double")
    admin = AdminClient(case.cluster.client_settings())
    admin.delete_topics([topic])[topic].result(30)
    with pytest.raises(PositionError, match="was deleted"):
        _carry_until_it_shows(case)

    case.make_topic(topic)
    _fill(case, 30)

    with pytest.raises(PositionError, match="was deleted and recreated"):
        case.carry("double")


def _carry_until_it_shows(case: SpoltCase) -> None:
    for _ in range(50):
        case.carry("double")


def test_the_status_says_how_far_a_spolt_is_behind_and_that_there_are_dead_letters(
    case_of: Callable[[str], SpoltCase],
) -> None:
    case = case_of(DOUBLE.replace("    to:", "    on_error: dead_letter\n    options: {broken: [3]}\n    to:"))
    case.make_topic(f"{case.name}.in")
    _fill(case, 10)

    before = _lag(case)
    case.carry("double")
    after = _lag(case)

    assert (before, after) == (10, 0)
    assert [link.dead_letters for link in read_status(case.spec).links if link.link == "double"] == [1]


def _lag(case: SpoltCase) -> int | None:
    with closing(open_pipeline_state(case.spec)) as state:
        log = ProgressLog(state, 1)
        (mirror,) = (each for each in open_mirrors(case.spec, state) if each.name == "double")
        with closing(mirror):
            log.save("double", LinkCondition("running"), mirror.refresh())
    return next(link.lag_messages for link in read_status(case.spec).links if link.link == "double")
