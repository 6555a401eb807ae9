"""A join that gets a step waits for it: the rows that the step has not made yet stay in the output."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml
from tests.servers.pipeline.test_join_upgrades import changes, rebuild
from tests.servers.pipeline.test_left_joins import FIRST, TABLES, assert_joined, name_of, with_join

from penstock.links.joins.record import NO_BATCH, JoinRecord
from penstock.wiring.join_rebuild import OpenedRebuild, RefusedRebuild, open_rebuild
from penstock.wiring.joins import OpenedJoin, open_join

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers.pipeline.conftest import PipelineCase


@pytest.mark.nightly
def test_a_join_waits_for_a_step_that_was_added_and_deletes_no_row_that_the_step_has_yet_to_make(
    make_case: Callable[..., PipelineCase],
) -> None:
    case = with_join(make_case(partitions=2))
    file = case.file.parent / "business.yaml"
    with_owners = file.read_text()
    join = yaml.safe_load(with_owners)
    output = {**join["output"], "pkey": ["business_id", "review_id"]}
    file.write_text(yaml.safe_dump({"join": join["join"][:2], "output": output}))
    case.write(*TABLES, *FIRST)
    case.run_once()
    name, step = name_of(case), f"{name_of(case)}_step1"
    before = len(case.messages()[f"{name}.joined.{name}"])
    file.write_text(with_owners)
    rebuild(case, name)

    opened = [opened_kind(case, name)]
    begun = open_join(case.spec, step, case.records(name)[-1]["epoch"])
    begun.publisher.close()
    nothing_made = JoinRecord.from_mapping(case.records(step)[-1])
    opened.append(opened_kind(case, name))
    # The join as it was goes on meanwhile, and the step has only a part of what its inputs had.
    part = dict.fromkeys(JoinRecord.from_mapping(case.records(name)[-1]).places, 1)
    case.run_once(only=name)
    open_again = open_join(case.spec, step, case.records(name)[-1]["epoch"])
    open_again.publisher.publish(0, part, [])
    open_again.publisher.close()
    opened.append(opened_kind(case, name))

    assert nothing_made.batch == NO_BATCH
    assert opened == [OpenedJoin] * 3
    assert [each.kind for each in changes(case, name)] == ["schema"]
    assert len(case.messages()[f"{name}.joined.{name}"]) == before

    case.run_once()

    assert_joined(case)
    assert case.records(name)[-1]["generation"] == 2
    # Owners came to those rows that have one, and no row went.
    assert len(case.messages()[f"{name}.joined.{name}"]) <= before * 2


def opened_kind(case: PipelineCase, name: str) -> type[OpenedJoin | OpenedRebuild | RefusedRebuild] | None:
    """What a start makes of the join that is to be made again."""
    opened = open_rebuild(case.spec, name, case.records(name)[-1]["epoch"])
    match opened:
        case OpenedJoin():
            opened.publisher.close()
        case OpenedRebuild():
            opened.letters.close()
    return None if opened is None else type(opened)
