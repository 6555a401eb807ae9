"""What tasks find out reaches the driver as it is, and in order."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import pyarrow as pa
import pytest

from penstock.core.errors import UnavailableError
from penstock.spark.link_source import LinkReader, TaskPartition, outcomes_by_part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def _fail() -> NoReturn:
    raise AssertionError


class _NotToBeUnpickled:
    """A planner's factory for processes that do not plan."""

    def __reduce__(self) -> tuple[Callable[[], NoReturn], tuple[()]]:
        return _fail, ()


_PICKLED = pickle.dumps(LinkReader(pickle.dumps(_NotToBeUnpickled())))
_READER: LinkReader = pickle.loads(_PICKLED)  # noqa: S301 - written above


@dataclass(frozen=True, slots=True)
class _Telling:
    """A task that yields `outcomes`, and fails afterwards if it is to."""

    outcomes: tuple[object, ...]
    fails: bool = False

    def run(self) -> Iterator[object]:
        yield from self.outcomes
        if self.fails:
            message = "the source is away"
            raise UnavailableError(message, "wait")


def test_outcomes_come_by_task_in_the_order_they_were_sent() -> None:
    rows = _run(_Telling(("one", 2)), _Telling(({"three": 3},)))

    # Spark hands rows over in any order.
    shuffled = rows.take([2, 1, 0])

    assert [list(outcomes) for outcomes in outcomes_by_part(shuffled)] == [["one", 2], [{"three": 3}]]


def test_a_large_outcome_comes_in_rows_of_4_mib_and_is_whole_again_on_the_driver() -> None:
    large = bytes(range(256)) * (9 << 12)

    rows = _run(_Telling(("small", large)), _Telling((large, "last")))

    assert max(len(body or b"") for body in rows["body"].to_pylist()) == 4 << 20
    assert len(rows) == 2 * (1 + 3)
    assert [list(outcomes) for outcomes in outcomes_by_part(rows)] == [["small", large], [large, "last"]]


def test_a_tasks_error_is_raised_in_its_place() -> None:
    (outcomes,) = outcomes_by_part(_run(_Telling(("before",), fails=True)))

    assert next(outcomes) == "before"
    with pytest.raises(UnavailableError, match="the source is away"):
        next(outcomes)


def test_a_reader_unpickles_its_planner_where_it_plans() -> None:
    assert _READER.initialOffset() == {"batch": 0}

    with pytest.raises(AssertionError):
        _READER.partitions({"batch": 0}, {"batch": 1})


def test_a_process_that_only_looks_at_a_source_waits_for_no_library_of_tasks() -> None:
    look = """
import sys
from penstock.spark.link_source import LinkReader, MysqlDataSource
MysqlDataSource({"planner": b"".hex()}).streamReader(MysqlDataSource({}).schema())
print(*sys.modules.keys() & {"pyarrow", "numpy", "httpx", "penstock.wiring.open"})
"""

    looked = subprocess.run([sys.executable, "-c", look], check=True, capture_output=True, text=True, timeout=60)

    assert looked.stdout == "\n"


def _run(*tasks: _Telling) -> pa.Table:
    batches = [batch for part, task in enumerate(tasks) for batch in _READER.read(TaskPartition(part, task))]
    return pa.Table.from_batches(batches)
