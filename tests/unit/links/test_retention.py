"""Whether a log still reaches back to a position, judged from what a server says of its files."""

from __future__ import annotations

import pytest

from penstock.core.mysql.log.retention import KeptLog, judge_retention
from penstock.core.positions import BinlogPosition, PreparedXa, bytes_between

DAY = 86_400.0
NOW = 1_700_000_000_000
FILES = (("bin.000007", 100), ("bin.000008", 200), ("bin.000010", 50))


def log(expire_seconds: float | None = 2 * DAY, closed_ago_seconds: float | None = None) -> KeptLog:
    closed_at_ms = None if closed_ago_seconds is None else NOW - int(closed_ago_seconds * 1000)
    return KeptLog(FILES, expire_seconds, closed_at_ms)


def test_a_pipeline_at_the_end_of_the_log_is_well_however_short_binlogs_are_kept() -> None:
    told = judge_retention(BinlogPosition("bin.000010", 50), log(60.0), NOW, DAY)

    assert (told.level, told.seconds_left, told.files_before, told.files, told.size_bytes) == ("ok", 60.0, 2, 3, 350)


def test_time_is_counted_from_when_the_file_was_closed() -> None:
    told = judge_retention(BinlogPosition("bin.000008", 4), log(2 * DAY, 0.5 * DAY), NOW, DAY)

    assert (told.level, told.seconds_left) == ("ok", 1.5 * DAY)


def test_too_little_time_is_a_warning_with_what_to_do() -> None:
    told = judge_retention(BinlogPosition("bin.000008", 4), log(2 * DAY, 1.5 * DAY), NOW, DAY)

    assert (told.level, told.seconds_left) == ("warning", 0.5 * DAY)
    assert "may purge bin.000008" in told.text
    assert "in 12.0 hours" in told.text
    assert "binlog_expire_logs_seconds" in told.hint


def test_a_file_that_has_expired_goes_with_the_next_rotation() -> None:
    told = judge_retention(BinlogPosition("bin.000008", 4), log(2 * DAY, 3 * DAY), NOW, DAY)

    assert (told.level, told.seconds_left) == ("warning", 0.0)
    assert "with its next rotation" in told.text


def test_binlogs_that_are_kept_for_ever_run_out_never() -> None:
    told = judge_retention(BinlogPosition("bin.000007", 4), log(None, 99 * DAY), NOW, DAY)

    assert (told.level, told.seconds_left) == ("ok", None)


@pytest.mark.parametrize(
    ("position", "said"),
    [
        (BinlogPosition("bin.000006", 4), "purged: the oldest binlog is bin.000007"),
        (BinlogPosition("bin.000011", 4), "its newest binlog is bin.000010"),
        (BinlogPosition("bin.000009", 4), "its newest binlog is bin.000010"),
        (BinlogPosition("bin.000010", 51), "the log has no place bin.000010:51"),
    ],
)
def test_a_place_that_the_log_does_not_have_is_an_error(position: BinlogPosition, said: str) -> None:
    told = judge_retention(position, log(), NOW, DAY)

    assert (told.level, told.seconds_left) == ("error", None)
    assert said in told.text
    assert "start a new pipeline with an initial snapshot" in told.hint


def test_the_beginning_of_a_prepared_transaction_is_needed_too() -> None:
    position = BinlogPosition("bin.000010", 50, prepared=(PreparedXa("X'67'", "bin.000006", 4),))

    assert judge_retention(position, log(), NOW, DAY).level == "error"


def test_bytes_are_summed_over_files() -> None:
    begin, end = BinlogPosition("bin.000007", 40), BinlogPosition("bin.000010", 50)

    assert (bytes_between(begin, end, FILES), bytes_between(end, begin, FILES)) == (60 + 200 + 50, 0)
