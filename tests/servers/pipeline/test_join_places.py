"""The places of joined rows: each its own, and rising, though publications are killed and planned again otherwise."""

from __future__ import annotations

import shutil
import signal
from contextlib import closing
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.servers.pipeline.joined_reviews import add_join
from tests.servers.pipeline.test_join_upgrades import FIRST, announced, assert_verified, change, changes, rebuild

from penstock.config.crash_points import VARIABLE
from penstock.core.avro.schemas import table_schema
from penstock.core.message_format import decode_rows, schema_ids
from penstock.core.positions import file_number
from penstock.faults.round import carry_apart
from penstock.wiring.open import open_publisher, open_registry

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers.pipeline.conftest import PipelineCase

    from penstock.core.positions import Order

_POINTS = ("publish.messages_sent", "publish.sent", "publish.sent:2", "publish.committed")
_EPOCH_MAX = 2**31 - 1


@pytest.mark.nightly
def test_no_two_joined_rows_have_one_place_whatever_was_planned_again(make_case: Callable[..., PipelineCase]) -> None:
    case = make_case()
    name = add_join(case.file, case.database)
    case.write(*FIRST)
    case.run_once()

    killed = [_kill(case, name)]
    shutil.rmtree(case.spec.home / "joins")
    killed.append(_kill(case, name))
    change(case, {"exclude_fields": []})
    rebuild(case, name)
    killed.append(_kill(case, name))
    rebuild(case, name, "--empty")
    killed.append(_kill(case, name))
    case.run_once()

    assert [each >= len(_POINTS) - 1 for each in killed] == [True] * len(killed)
    assert announced(case, name) == ["schema", "truncate", "schema", "truncate"]
    places = _places(case, name)
    assert places == sorted(set(places))
    told = [each.order for each in changes(case, name)]
    assert told == sorted(set(told))
    assert set(told).isdisjoint(places)
    assert_verified(case)
    case.assert_equal()


def _kill(case: PipelineCase, name: str) -> int:
    """Have the join killed at each point, each time with other rows to publish; return how often it was there."""
    log, codes = case.file.with_name("round.log"), []
    for number, point in enumerate(_POINTS):
        case.write(
            f"UPDATE business SET city = CONCAT(city, '{number}')",
            "INSERT INTO user_review SELECT MAX(review_id) + 1, 1, 2.5, '' FROM user_review",
        )
        case.run_once(only="db")
        codes.append(carry_apart(case.file, name, {VARIABLE: point}, log))
        assert codes[-1] in {0, -signal.SIGKILL}, log.read_text()
        _fence(case, name)
    case.run_once(only=name)
    return codes.count(-signal.SIGKILL)


def _fence(case: PipelineCase, name: str) -> None:
    """Abort what a killed join has left open, as its next start does: the capture waits for what it may announce."""
    open_publisher(case.spec, name, _EPOCH_MAX).close()


def _places(case: PipelineCase, name: str) -> list[Order]:
    """The place of each message of the joined table, in the order of their offsets."""
    found = []
    with closing(open_registry(case.spec)) as registry:
        for value in case.messages()[f"{name}.joined.{name}"]:
            message = pa.array([value], pa.binary())
            text = registry.value_schema(int(schema_ids(message)[0]))
            row = decode_rows(table_schema(text), text, message)
            found.append((file_number(str(row.file[0].as_py())), int(row.pos[0]), int(row.row[0])))
    return found
