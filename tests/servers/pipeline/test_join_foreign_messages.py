"""What a join's topics have beyond what its record said: its own last publication, or somebody else's message."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.servers.pipeline.test_join_upgrades import announced, assert_verified, changes, rebuild
from tests.servers.pipeline.test_joins import FIRST, assert_joined, name_of, with_join
from typer.testing import CliRunner

from penstock.cli.joinery import app
from penstock.core.errors import PositionError, UnavailableError
from penstock.links.joins.record import JoinRecord
from penstock.wiring.joins import open_join_publisher
from penstock.wiring.open import open_topic_log
from penstock.wiring.pipeline_status import read_status

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers.pipeline.conftest import PipelineCase


@pytest.mark.nightly
def test_a_join_whose_last_publication_was_not_seen_yet_is_not_gone_on_with(
    make_case: Callable[..., PipelineCase],
) -> None:
    case = with_join(make_case())
    case.write(*FIRST)
    case.run_once()
    spec, name = case.spec, name_of(case)
    record = JoinRecord.from_mapping(case.records(name)[-1])
    seen = replace(record, batch=record.batch - 1, places={})

    with closing(open_topic_log(spec)) as log:
        with pytest.raises(UnavailableError, match="since its position was read"):
            open_join_publisher(spec, name, record.epoch + 1, log, seen)
        open_join_publisher(spec, name, record.epoch + 1, log, record).close()


@pytest.mark.nightly
@pytest.mark.parametrize("is_own", [True, False], ids=["written again", "hello"])
def test_a_joined_table_that_stopped_at_a_message_begins_anew_behind_it(
    make_case: Callable[..., PipelineCase], *, is_own: bool
) -> None:
    case = with_join(make_case())
    case.write(*FIRST)
    case.run_once()
    name = name_of(case)
    topic = f"{name}.joined.{name}"
    case.write("UPDATE business SET city = 'Berlin' WHERE business_id = 1")
    case.run_once()
    producer = Producer({"bootstrap.servers": case.bootstrap_servers})
    producer.produce(topic, case.messages()[topic][0] if is_own else b"hello")
    assert producer.flush(30) == 0

    with pytest.raises(PositionError) as refused:
        case.run_once(only=name)
    case.run_once(only="objects")

    hint = f"penstock joinery rebuild FILE {name} --empty"
    assert hint in refused.value.hint
    assert [hint in why for why in stopped(case).values()] == [True]
    rebuild(case, name, "--empty")
    case.run_once()
    case.write("UPDATE business SET city = 'Kiel' WHERE business_id = 1")
    case.run_once()
    assert stopped(case) == {}
    assert announced(case, name) == ["schema", "truncate"]
    assert_joined(case)
    assert_verified(case)
    case.assert_equal()

    (begins,) = [each.begins for each in changes(case, name) if each.begins]
    forget(case, topic, begins[0])
    assert_verified(case)
    forget(case, topic, begins[0] + 1)
    assert "are gone, so it cannot be folded" in CliRunner().invoke(app, ["verify", str(case.file)]).output


def forget(case: PipelineCase, topic: str, before: int) -> None:
    """Have the broker throw away the messages before an offset, as retention does."""
    admin = AdminClient({"bootstrap.servers": case.bootstrap_servers})
    for done in admin.delete_records([TopicPartition(topic, 0, before)]).values():
        done.result(30)


def stopped(case: PipelineCase) -> dict[str, str]:
    """What `penstock status` says is to be done, of each table that has stopped."""
    return {each.table: each.hint for each in read_status(case.spec).tables if each.error}
