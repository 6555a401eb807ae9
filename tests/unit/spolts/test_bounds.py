"""User code that takes too long, makes too much or ends its process fails on its message alone."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from penstock.config.spolts import InputSpec
from penstock.core.errors import SpoltError
from penstock.core.large_messages import place_in
from penstock.links.spolts.plan import InputRange
from penstock.links.spolts.time_limit import CallTimeoutError, time_limit
from penstock.links.spolts.worker_deaths import DEATHS_MAX, WorkerDeaths, open_deaths
from penstock.spolts import Message, Output, spolt
from penstock.spolts.testing import Harness, LocalSchemas, send

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

JSON = {"topic": "in", "format": "json"}
BYTES = {"topic": "in", "format": "bytes"}
NUMBER = pa.schema([pa.field("number", pa.int64())])
SAME = {"topic": "out", "schema": "same"}
RANGE = InputRange("in", 0, 5, 100, "an id", InputSpec(topic="in"))


def _sleep_on_two(message: Message) -> Message:
    if message.value == 2:
        time.sleep(30)
    return message


def _sleep_through(message: Message) -> Message:
    while message.value == 2:
        with suppress(Exception):
            time.sleep(30)
    return message


def _exit_on_two(message: Message) -> Message:
    if message.value == 2:
        sys.exit("done")
    return message


def _without_end_on_two(message: Message) -> Iterator[Output]:
    for _ in count() if message.value == 2 else range(1):
        yield Output(message.value)


def _large_on_two(message: Message) -> Output:
    return Output("x" * (80 << 20) if message.value == 2 else message.value)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (_sleep_on_two, "CallTimeoutError: it took longer than 0.3 s (timeout_seconds)"),
        (_sleep_through, "CallTimeoutError: it took longer than 0.3 s (timeout_seconds)"),
        (_exit_on_two, "SystemExit: done"),
        (_without_end_on_two, "MadeTooMuchError: it made more than 100000 records or 32 MiB"),
        (_large_on_two, "MadeTooMuchError: it made more than 100000 records or 32 MiB"),
    ],
)
def test_a_message_that_takes_too_much_of_anything_is_at_fault_alone(
    code: Callable[[Message], object], reason: str
) -> None:
    # What is endless takes 100,001 records to be seen, for which there must be time.
    seconds = 0.3 if "0.3" in reason else 60.0
    harness = Harness.of_function(code, SAME, JSON, on_error="dead_letter", timeout_seconds=seconds)

    result = harness.run([send("in", number) for number in (1, 2, 3)])

    assert result.values("out") == [1, 3]
    assert [(letter.index, letter.error.startswith(reason)) for letter in result.letters] == [(1, True)]


def _as_it_is(message: Message) -> Message:
    return message


@spolt(batches=True)
def _batch_as_it_is(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.select(["number"])


@pytest.mark.parametrize(("code", "to"), [(_as_it_is, SAME), (_batch_as_it_is, "out")])
def test_a_message_that_is_in_the_object_store_is_at_fault_with_its_place(
    code: Callable[[Message], object], to: dict[str, str] | str
) -> None:
    large = place_in("shop/large-messages/src/in", b"a large message").to_value()
    harness = Harness.of_function(code, to, {"topic": "in", "format": "avro"}, on_error="dead_letter")

    result = harness.run([send("in", {"number": 1}), send("in", large), send("in", {"number": 3})])

    assert result.values("out") == [{"number": 1}, {"number": 3}]
    (letter,) = result.letters
    assert letter.index == 1
    assert "it is in the object store, at shop/large-messages/src/in/" in letter.error


def test_it_stops_the_spolt_where_the_file_says_so() -> None:
    harness = Harness.of_function(_exit_on_two, SAME, JSON)

    with pytest.raises(SpoltError, match="failed on in/0 offset 1: SystemExit: done"):
        harness.run([send("in", number) for number in (1, 2, 3)])


def test_a_large_message_may_be_passed_on() -> None:
    content = b"x" * (60 << 20)

    result = Harness.of_function(lambda message: message, SAME, BYTES).run([send("in", content)])

    assert [len(value) for value in result.values("out")] == [len(content)]


@spolt(batches=True)
def _many_of_two(batch: pa.RecordBatch) -> pa.RecordBatch:
    numbers = [number for number in batch["number"].to_pylist() for _ in range(200_000 if number == 2 else 1)]
    return pa.RecordBatch.from_pydict({"number": pa.array(numbers, pa.int64())})


def test_a_batch_that_makes_too_much_is_halved_until_the_message_is_found() -> None:
    harness = Harness.of_function(_many_of_two, "out", JSON, on_error="dead_letter")

    result = harness.run([send("in", {"number": number}) for number in range(5)])

    assert [value["number"] for value in result.values("out")] == [0, 1, 3, 4]
    assert [letter.index for letter in result.letters] == [2]


class _SlowSchemas(LocalSchemas):
    """A registry that takes its time."""

    def register_subject(self, subject: str, schema: str) -> int:
        time.sleep(0.4)
        return super().register_subject(subject, schema)


def test_the_time_that_the_registry_takes_is_not_that_of_user_code() -> None:
    def code(message: Message) -> Output:
        return Output(message.value)

    harness = Harness.of_function(spolt(output=NUMBER)(code), "out", JSON, timeout_seconds=0.3)

    result = replace(harness, schemas=_SlowSchemas()).run([send("in", {"number": 1})])

    assert result.values("out") == [{"number": 1}]


# A lock that its owner takes again: the call keeps Python's own lock, and no signal ends it.
_HANG = """
import ctypes, time
from penstock.links.spolts.time_limit import WorkerLimit, time_limit
limit = WorkerLimit(0.2)
limit.extend()
print(limit.lift(), limit.lift(), flush=True)
time.sleep(1.6)
print("alive", flush=True)
limit.extend()
lock = ctypes.create_string_buffer(64)
with time_limit(0.2):
    for _ in range(2):
        ctypes.PyDLL(None).pthread_mutex_lock(lock)
"""


def test_native_code_that_never_comes_back_ends_its_worker_which_says_where_it_was() -> None:
    ended = subprocess.run([sys.executable, "-c", _HANG], capture_output=True, text=True, timeout=60, check=False)

    assert (ended.returncode, ended.stdout.split()) == (1, ["True", "False", "alive"])
    assert "Timeout" in ended.stderr
    assert 'File "<string>", line 13' in ended.stderr


def test_a_time_limit_leaves_a_timer_that_runs_already_going() -> None:
    rung = threading.Event()
    before = signal.signal(signal.SIGALRM, lambda *_: rung.set())
    left = signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(CallTimeoutError), time_limit(0.05):
            time.sleep(10)
        assert not rung.is_set()
        time.sleep(0.5)
        assert rung.is_set()
    finally:
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *left)


def _die(folder: Path, start: int, end: int, given: InputRange = RANGE) -> WorkerDeaths:
    """Begin a call that the worker does not come back from."""
    deaths = WorkerDeaths(folder, given)
    deaths.begin(start, end)
    return deaths


def test_a_message_that_ended_three_workers_is_at_fault_until_it_is_forgotten(tmp_path: Path) -> None:
    for _ in range(DEATHS_MAX):
        assert not _die(tmp_path, 7, 8).is_at_fault(7)

    with WorkerDeaths(tmp_path, RANGE) as deaths:
        assert [deaths.is_at_fault(offset) for offset in (6, 7, 8)] == [False, True, False]
    # What another one ends is no reason to try it again.
    _die(tmp_path, 50, 51)
    with WorkerDeaths(tmp_path, RANGE) as deaths:
        assert deaths.is_at_fault(7)
        deaths.forget(7)
    with WorkerDeaths(tmp_path, RANGE) as deaths:
        assert not deaths.is_suspect(7, 8)
        assert deaths.is_suspect(40, 60)


def test_a_worker_that_comes_back_leaves_nobody_suspect(tmp_path: Path) -> None:
    with suppress(ValueError), WorkerDeaths(tmp_path, RANGE) as deaths:
        deaths.begin(7, 8)
        raise ValueError

    with WorkerDeaths(tmp_path, RANGE) as deaths:
        assert not deaths.is_suspect(0, 100)


def test_what_a_power_cut_leaves_is_taken_for_nothing(tmp_path: Path) -> None:
    _die(tmp_path, 7, 8)
    with WorkerDeaths(tmp_path, RANGE) as deaths:
        deaths.begin(7, 8)
        for file in tmp_path.iterdir():
            file.write_bytes(b"\0" * 10)

        again = WorkerDeaths(tmp_path, RANGE)

    assert not again.is_suspect(0, 100)


def test_where_nothing_can_be_written_nothing_is_remembered(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    assert open_deaths(tmp_path / "file" / "spolts", RANGE) is None


def test_deaths_are_of_one_partition_of_one_topic_and_end_with_what_is_published(tmp_path: Path) -> None:
    _die(tmp_path, 7, 9)

    for other in (InputRange("in", 1, 5, 100, "an id", RANGE.input), InputRange("in", 0, 5, 100, "anew", RANGE.input)):
        with WorkerDeaths(tmp_path, other) as deaths:
            assert not deaths.is_suspect(0, 100)
    with WorkerDeaths(tmp_path, RANGE) as deaths:
        assert deaths.is_suspect(8, 9)
    with WorkerDeaths(tmp_path, InputRange("in", 0, 9, 100, "an id", RANGE.input)) as deaths:
        assert not deaths.is_suspect(0, 100)
