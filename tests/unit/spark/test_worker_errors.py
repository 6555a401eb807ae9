"""What a worker of a join tells its driver is an error of ours, and nothing that a message says is taken for one."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pytest

from penstock.core import errors
from penstock.core.errors import (
    CorruptLogError,
    PenstockError,
    TableStoppedError,
    UnavailableError,
    UnreadableMessageError,
)
from penstock.core.topic_fingerprints import foreign_message
from penstock.spark.worker_errors import Telling, as_told, new_token

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    import pyarrow as pa


class _WaitingError(UnavailableError):
    """Of a class that no list has."""


class _Command:
    """Unpickled, it makes a file."""

    def __init__(self, made: Path) -> None:
        self._made = made

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return exec, (f"open({str(self._made)!r}, 'w').close()",)


def raised_by_spark(error: BaseException, token: str) -> RuntimeError:
    """What Spark makes of an error that a worker raises."""

    def pack(_: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raise error

    with pytest.raises(Exception) as raised:  # noqa: PT011 - of any class
        list(Telling(pack, token)([]))
    return RuntimeError(f"Job aborted:\nTraceback\n  {raised.typename}: {raised.value}\n\n\tat org.apache.spark")


@pytest.mark.parametrize(
    "error",
    [
        CorruptLogError("it ends\nin the middle", "do this"),
        UnavailableError("Ünavailable", ""),
        TableStoppedError("shop.t", "c", "7", "why", "hint"),
        UnreadableMessageError(("db.shop.t", 3), 7, "no message", "hint"),
        errors.ConfigError("shop.yaml", ["one", "two"]),
    ],
    ids=lambda each: type(each).__name__,
)
def test_an_error_of_ours_comes_as_it_was(error: PenstockError) -> None:
    token = new_token()

    told = as_told(raised_by_spark(error, token), token)

    assert (type(told), told.args, str(told), vars(told)) == (type(error), error.args, str(error), vars(error))


def test_one_of_a_class_of_its_own_comes_as_what_it_is_a_kind_of() -> None:
    token = new_token()

    told = as_told(raised_by_spark(_WaitingError("not there", "wait"), token), token)

    assert (type(told), told.args) == (UnavailableError, ("not there", "wait"))


def test_what_a_message_says_is_no_error_of_ours_and_is_not_run(tmp_path: Path) -> None:
    made = tmp_path / "made"
    said = pickle.dumps(_Command(made)).hex()
    foreign = foreign_message("db.shop.t", 0, 7, f"it is of table penstock-error:{said}")
    by_spark = raised_by_spark(
        ValueError(f"invalid literal for int(): 'penstock-error:{said} {new_token()}:{said}'"), "x"
    )

    assert as_told(foreign, new_token()) is foreign
    assert as_told(by_spark, new_token()) is by_spark
    assert not made.exists()


def test_an_error_of_ours_stays_as_it_is_whatever_its_text_has() -> None:
    token = new_token()
    worker = raised_by_spark(CorruptLogError("a", "b"), token)
    error = UnavailableError(str(worker), "")

    assert as_told(error, token) is error
