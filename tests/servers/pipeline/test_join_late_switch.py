"""A rebuilt join that changes more than one transaction takes: the output stands, and what the error says helps."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.servers.pipeline.joined_reviews import add_join
from tests.servers.pipeline.test_join_upgrades import FIRST, announced, assert_verified, change, rebuild, rows

from penstock.core.errors import UsageError
from penstock.jobs.in_process_join import rebuild_in_process
from penstock.jobs.join_link import JoinLink
from penstock.jobs.link import RebuildWork
from penstock.links.joins import publish
from penstock.wiring import join_rebuild, joins
from penstock.wiring.open import open_pipeline_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from tests.servers.pipeline.conftest import PipelineCase

_TRANSACTION_SECONDS = 3.0


class SlowTables(list[Any]):
    """Tables that take long to go through, as those of some ten million rows do."""

    def __iter__(self) -> Iterator[Any]:
        time.sleep(_TRANSACTION_SECONDS + 1)
        return super().__iter__()


def switch_too_late(case: PipelineCase, name: str) -> None:
    """Rebuild as the next run does, with rows that come slowly. Raises what that raises."""
    epoch = case.records(name)[-1]["epoch"]
    with closing(open_pipeline_state(case.spec)) as state:
        link = JoinLink(case.spec, name, state, epoch, may_wait=False)
        with closing(link):
            work = link.open()
            assert isinstance(work, RebuildWork)
            switch = work.switch

            def slowly(
                batch: int,
                places: Mapping[tuple[str, int], int],
                before: Sequence[pa.Table],
                after: Sequence[pa.Table],
            ) -> None:
                switch(batch, places, before, SlowTables(after))

            rebuild_in_process(case.spec, replace(work, switch=slowly))


@pytest.fixture
def too_short(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Transactions that may be open for seconds."""
    with monkeypatch.context() as short:
        for module in (joins, publish):
            short.setattr(module, "PUBLISHING_SECONDS", _TRANSACTION_SECONDS)
        # A few parts, of which the first are sent before the last is asked for.
        short.setattr(join_rebuild, "_PART_BYTES", 3000)
        yield


@pytest.mark.nightly
def test_a_table_that_is_made_anew_is_empty_where_the_switch_takes_too_long_and_the_hint_says_so(
    make_case: Callable[..., PipelineCase], too_short: None
) -> None:
    del too_short
    case = make_case()
    name = add_join(case.file, case.database)
    case.write(*FIRST, "CREATE TABLE tag (tag_id INT PRIMARY KEY, business INT, tag VARCHAR(9))")
    case.write("INSERT INTO tag SELECT seq, 1, 'tag' FROM seq_1_to_200")
    case.run_once()
    file, before = case.file.parent / "business_review.yaml", rows(case, name)
    as_it_was = file.read_text()
    join = yaml.safe_load(as_it_was)
    alias = {"from": "business", "to": "biz_id"}
    join["join"].append({"topic": f"db.{case.database}.tag", "join_keys": ["business"], "aliases": [alias]})
    file.write_text(yaml.safe_dump(join))
    rebuild(case, name)

    with pytest.raises(UsageError) as late:
        switch_too_late(case, name)

    assert "is empty by now, so that --cancel fills it from the topics" in late.value.hint
    assert announced(case, name) == ["schema", "create"]
    rebuild(case, name, "--cancel")
    file.write_text(as_it_was)
    case.run_once()
    assert rows(case, name) == before
    assert [record["generation"] for record in case.records(name)][-1] == 3
    assert_verified(case)


@pytest.mark.nightly
def test_a_switch_that_takes_too_long_changes_nothing_and_says_what_helps(
    make_case: Callable[..., PipelineCase], too_short: None
) -> None:
    del too_short
    case = make_case()
    name = add_join(case.file, case.database)
    case.write(*FIRST, "INSERT INTO user_review SELECT seq, 2, 3.0, '' FROM seq_100_to_200")
    case.run_once()
    before, topic = rows(case, name), f"{name}.joined.{name}"
    change(case, {"exclude_fields": []})
    rebuild(case, name)

    with pytest.raises(UsageError) as late:
        switch_too_late(case, name)

    assert "took longer than brokers leave a transaction open" in late.value.message
    assert "penstock joinery rebuild FILE JOIN --empty" in late.value.hint
    assert {record["generation"] for record in case.records(name)} == {1}
    assert len(case.messages()[topic]) == len(before)

    rebuild(case, name, "--cancel")
    change(case, {"exclude_fields": ["name"]})
    case.write("UPDATE user_review SET stars = 1.0 WHERE review_id = 10")
    case.run_once()
    assert [row["stars"] for row in rows(case, name)] == [1, *(row["stars"] for row in before[1:])]
    assert_verified(case)

    change(case, {"exclude_fields": []})
    rebuild(case, name, "--empty")
    case.run_once()
    found = [(row["review_id"], row["name"]) for row in rows(case, name)]
    assert found[:3] == [(10, "one"), (11, "one"), (12, "two")]
    assert len(found) == len(before)
    assert announced(case, name) == ["schema", "create"]
    assert_verified(case)
