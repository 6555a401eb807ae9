"""A table that goes on after a pause is behind until it has caught up with its link, and not a moment longer."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from tests.servers.forked import run_forked
from tests.servers.test_table_requests import LINK, batch, new_link, start_again
from tests.servers.test_warehouse_loader import NEW, SHADOW

from penstock.adapters.state.store import open_state
from penstock.adapters.state.table_actions import open_table_actions
from penstock.ports.table_actions import Action, Stage, TableRequest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers.test_table_requests import Link


@pytest.fixture
def link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Link]:
    """A link that has loaded a row into each of two tables, and looks at requests whenever it loads."""
    monkeypatch.setattr("penstock.links.warehouse.table_control._PERIOD_SECONDS", 0.0)
    link = new_link(tmp_path)
    link.open()
    link.load(*(batch(link, table, 0, ("c", "a", 1)) for table in (NEW, SHADOW)))
    yield link
    link.close()


def lacks_since_ms(link: Link) -> int:
    """Since when the table lacks changes, as status has it; 0 if it lacks none."""
    with closing(open_state(link.state_url, "shop")) as state:
        return next(each.stopped_at_ms for each in state.tables() if each.table == str(NEW))


def test_a_table_that_goes_on_again_is_behind_until_it_has_caught_up_over_a_kill(link: Link) -> None:
    link.ask(Action.PAUSE)
    began_ms = time.time_ns() // 1_000_000
    link.load(*(batch(link, NEW, number, ("u", "a", number)) for number in (1, 2, 3)))
    link.close()
    with closing(open_table_actions(link.state_url, "shop")) as actions:
        actions.ask(TableRequest("1", LINK, str(NEW), Action.RESUME, "somebody"))

    code = run_forked(start_again, str(link.folder), link.topic, crash_at="load.finished")
    killed = (link.request().stage, link.rows(), lacks_since_ms(link))
    link.open()

    assert (code, killed[:2]) == (-9, (Stage.DONE, [("a", 1)]))
    assert 0 < killed[2] <= began_ms
    assert (link.rows(), lacks_since_ms(link)) == ([("a", 3)], 0)


def test_a_table_that_was_killed_when_it_had_just_caught_up_is_not_behind(link: Link) -> None:
    link.close()
    with closing(open_state(link.state_url, "shop")) as state:
        state.stop_table(LINK, str(NEW), "", "", 5)

    link.open()

    assert lacks_since_ms(link) == 0
