"""What people ask for of tables, and changes that were passed over, in every kind of state database."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest
from tests.servers.kinds import on_every_database

from penstock.adapters.state.table_actions import open_table_actions
from penstock.core.errors import UsageError
from penstock.ports.table_actions import Action, SkippedChange, Stage, TableRequest

pytestmark = on_every_database

LINK = "link"


def test_what_is_being_done_is_not_replaced_and_what_waits_is(state_url: str) -> None:
    first, second, third = (
        TableRequest(str(n), LINK, "shop.orders", action, "somebody")
        for n, action in enumerate((Action.PAUSE, Action.SKIP, Action.DROP))
    )
    with closing(open_table_actions(state_url, "shop")) as actions:
        actions.ask(first)
        actions.ask(second)
        assert (actions.begin(first), actions.begin(second), actions.begin(second)) == (False, True, True)

        with pytest.raises(UsageError, match=r"something else is being done to shop\.orders at link"):
            actions.ask(third)
        actions.end(second, Stage.DONE, "done")
        actions.end(first, Stage.REFUSED, "nobody asked")
        (ended,) = actions.requests(LINK)
        actions.ask(third)
        (newest,) = actions.requests()

    assert (ended.id, ended.stage, ended.told, ended.ended_at_ms > 0) == ("1", Stage.DONE, "done", True)
    assert (newest.id, newest.stage, newest.told) == ("2", Stage.ASKED, "")


def test_tables_that_differ_in_case_alone_and_pipelines_are_kept_apart(state_url: str) -> None:
    with (
        closing(open_table_actions(state_url, "shop")) as ours,
        closing(open_table_actions(state_url, "other")) as other,
    ):
        ours.ask(TableRequest("1", LINK, "shop.orders", Action.PAUSE, "ann"))
        ours.ask(TableRequest("2", LINK, "shop.Orders", Action.DROP, "ann"))
        other.ask(TableRequest("3", LINK, "shop.orders", Action.SKIP, "ann"))

        assert {each.table: each.id for each in ours.requests()} == {"shop.orders": "1", "shop.Orders": "2"}
        assert [each.id for each in other.requests()] == ["3"]
        assert ours.requests("another link") == []


def test_a_skipped_change_is_kept_once_with_whatever_it_holds(state_url: str) -> None:
    reason, row = "too wide: \u20ac \U0001f600", '[{"id": "\u20ac"}]'
    change = SkippedChange(LINK, "shop.orders", "topic", 3, 7, row, reason, "1")
    large = replace(change, offset=8, row="x" * 300_000)
    with closing(open_table_actions(state_url, "shop")) as actions:
        for each in (change, change, large):
            actions.keep_skipped(each)
        found = actions.skipped(LINK, "shop.orders")

        assert [replace(each, skipped_at_ms=0) for each in found] == [
            change,
            replace(change, offset=8, row="x" * 300_000),
        ]
        assert actions.skipped_counts() == {(LINK, "shop.orders"): 2}
        assert actions.skipped("another", "shop.orders") == []
