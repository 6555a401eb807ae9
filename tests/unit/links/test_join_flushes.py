"""A join names a micro-batch in Kafka when its state is on the disk, and not before."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from tests.unit.config.test_joins import PIPELINE
from tests.unit.joins.test_kept_job import job_of
from tests.unit.links.test_join_publisher import PLACE, joined

from penstock.adapters.state.store import open_state
from penstock.config.load import parse
from penstock.core.errors import UnavailableError
from penstock.jobs.join_link import JoinLink
from penstock.wiring.joins import OpenedJoin

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.links.conftest import MemoryPublisher


def test_a_micro_batch_whose_state_cannot_be_flushed_is_not_published(
    publisher: MemoryPublisher, tmp_path: Path
) -> None:
    spec, checkpoint = (
        parse(PIPELINE.partition("joins:")[0], "shop.yaml", tmp_path),
        tmp_path / "joins" / "joined" / "1",
    )
    with closing(open_state(f"sqlite:///{tmp_path}/state.db", "shop")) as state:
        link = JoinLink(spec, "joined", state, 1, may_wait=False)
        work = link._as_it_was(OpenedJoin(job_of(1), joined(publisher), checkpoint))

        with pytest.raises(UnavailableError, match="cannot be brought to its disk"):
            work.take(5, {PLACE: 9}, [], [])
        assert publisher.records == []

        checkpoint.mkdir(parents=True)
        work.take(5, {PLACE: 9}, [], [])
        assert [record["batch"] for record in publisher.records] == [5]
