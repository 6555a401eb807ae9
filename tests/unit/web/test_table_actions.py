"""What people may have done to a table by the page and the command line, who may not, and how it is told."""

from __future__ import annotations

import json
import threading
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from tests.unit.web.shop import SPOLT, served, until
from tests.unit.web.test_endpoints import look, status
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.core.errors import PenstockError, UsageError
from penstock.core.snapshots import SnapshotOptions
from penstock.ports.table_actions import Action, SkippedChange, Stage, TableRequest
from penstock.wiring.open import open_pipeline_state, open_table_actions
from penstock.wiring.pipeline_status import read_status
from penstock.wiring.snapshots import ask_for_snapshots
from penstock.wiring.table_requests import ask_for_action

if TYPE_CHECKING:
    import httpx
    from tests.unit.web.shop import Shop

LINK = "shopdb-to-warehouse"
WHERE = f'{{pipeline="shop",link="{LINK}",table="shop.orders"}}'
PAUSE = {"table": "shop.orders", "link": LINK, "action": "pause"}


def requests(shop: Shop) -> list[TableRequest]:
    with closing(open_table_actions(shop.spec)) as actions:
        return list(actions.requests())


def end(shop: Shop, stage: Stage = Stage.DONE) -> None:
    """Do what the link would do."""
    with closing(open_table_actions(shop.spec)) as actions:
        for each in actions.requests():
            actions.end(each, stage, "done")


def table(shop: Shop, *arguments: str) -> tuple[int, str]:
    ran = CliRunner().invoke(app, ["table", str(shop.file), *arguments])
    return ran.exit_code, ran.output


def test_a_paused_table_is_told_as_such_everywhere_and_is_no_error(shop: Shop) -> None:
    with shop.held():
        shop.run()
        ask_for_action(shop.spec, "shop.orders", Action.PAUSE, None, "ann")
        end(shop)
        metrics, page = look(shop)
        told = status(shop)
        ask_for_action(shop.spec, "shop.orders", Action.RESUME, None, "ann")
        end(shop)
        after, _ = look(shop)

    assert (metrics[f"penstock_table_paused{WHERE}"], after[f"penstock_table_paused{WHERE}"]) == (1, 0)
    assert metrics['penstock_healthy{pipeline="shop"}'] == 1
    assert "it waits: ann paused it" in page
    assert 'data-action="resume" data-table="shop.orders"' in page
    (row,) = [each for each in told["tables"] if (each["table"], each["link"]) == ("shop.orders", LINK)]
    assert (row["paused"], row["dropped"], row["request"]["asked_by"]) == (True, False, "ann")
    hints = {each["subject"]: each["hint"] for each in told["problems"]}
    assert f"penstock table {shop.file} shop.orders resume --link {LINK}" in hints[f"{LINK}, shop.orders"]


def test_a_dropped_table_and_skipped_changes_are_told(shop: Shop) -> None:
    with shop.held():
        shop.run()
        ask_for_action(shop.spec, "shop.orders", Action.DROP, None, "ann")
        end(shop)
        with closing(open_table_actions(shop.spec)) as actions:
            actions.keep_skipped(SkippedChange(LINK, "shop.orders", "t", 0, 7, '[{"id": 1}]', "too wide", "1"))
        metrics, page = look(shop)
        shown = table(shop, "shop.orders")

    assert (metrics[f"penstock_table_dropped{WHERE}"], metrics[f"penstock_table_skipped_total{WHERE}"]) == (1, 1)
    assert "it is not loaded any more: ann dropped it" in page
    assert shown[0] == 0
    for text in ("drop done (ann", "skipped t/0 offset 7", "too wide", '[{"id": 1}]'):
        assert text in shown[1]


def test_the_command_asks_the_next_run_where_nobody_runs_it(shop: Shop) -> None:
    shop.run()

    code, told = table(shop, "shop.orders", "pause")

    assert (code, [each.stage for each in requests(shop)]) == (0, [Stage.ASKED])
    assert f"to have it done: penstock run {shop.file}" in " ".join(told.split())


def test_the_command_waits_for_the_link_and_fails_where_it_refuses(shop: Shop) -> None:
    with closing(open_pipeline_state(shop.spec)) as state:
        state.stop_table(LINK, "shop.orders", "it is refused", "mend it", 1)

    def refuse() -> None:
        until(lambda: requests(shop))
        end(shop, Stage.REFUSED)

    link = threading.Thread(target=refuse)
    link.start()
    with shop.held():
        code, told = table(shop, "shop.orders", "skip", "--json")
    link.join()

    assert code == 1
    assert [(each["stage"], each["told"]) for each in json.loads(told)["requests"]] == [("refused", "done")]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("shop.nope", "pause"), "no link has seen a table shop.nope"),
        (("shop.order", "pause"), "did you mean shop.orders"),
        (("other.orders", "pause"), "no source of the file carries other.orders"),
        (("shop.orders", "resume"), "shop.orders neither stopped nor is paused at shopdb-to-warehouse"),
        (("shop.orders", "skip"), "neither stopped nor is paused"),
        (("shop.orders", "pause", "--link", "objects"), "objects reads one log for all of its tables"),
        (("shop.orders", "pause", "--link", "nope"), "nope does not load shop.orders"),
        (("shop.orders", "drop"), "to drop it without being asked, give --yes"),
        (("shop.orders", "explode"), "'explode' is not one of"),
    ],
)
def test_what_cannot_work_is_refused_with_what_to_type_and_asks_for_nothing(
    shop: Shop, arguments: tuple[str, ...], said: str
) -> None:
    shop.run()

    code, told = table(shop, *arguments)

    assert code == 2
    assert said in " ".join(told.replace("│", " ").split())
    assert requests(shop) == []


def test_a_pipeline_that_never_ran_has_no_tables_to_act_on(shop: Shop) -> None:
    code, told = table(shop, "shop.orders", "pause")

    assert (code, "this pipeline has not run yet" in told) == (2, True)
    assert not (shop.spec.home / "state.db").exists()


def test_a_table_on_which_something_is_being_done_takes_nothing_else(shop: Shop) -> None:
    shop.run()
    with closing(open_table_actions(shop.spec)) as actions:
        begun = TableRequest("1", LINK, "shop.orders", Action.DROP, "ann")
        actions.ask(begun)
        actions.begin(begun)

    code, told = table(shop, "shop.orders", "pause")

    assert (code, "something else is being done to shop.orders" in told) == (2, True)


def test_of_two_links_none_is_asked_where_one_is_busy(shop: Shop) -> None:
    shop.run()
    with closing(open_table_actions(shop.spec)) as actions:
        begun = TableRequest("1", "b", "shop.orders", Action.DROP, "ann")
        actions.ask(begun)
        actions.begin(begun)

        with pytest.raises(UsageError, match="something else is being done"):
            actions.ask(*(TableRequest(f"2{link}", link, "shop.orders", Action.PAUSE, "ann") for link in "ab"))

    assert [(each.link, each.stage) for each in requests(shop)] == [("b", Stage.BEGUN)]


@pytest.mark.parametrize(
    ("text", "without"),
    [
        ("to: warehouse}", 'to: warehouse, tables: ["!shop.orders", "shop.*"]}'),
        ("tables: [shop.*]", 'tables: ["!shop.orders", "shop.*"]'),
    ],
)
def test_a_dropped_table_that_is_left_out_is_not_told_and_hinders_no_snapshot(
    shop: Shop, text: str, without: str
) -> None:
    shop.run()
    ask_for_action(shop.spec, "shop.orders", Action.DROP, None, "ann")
    end(shop)
    before = read_status(shop.spec).requests

    shop.file.write_text(shop.file.read_text().replace(text, without))

    assert ([each.table for each in before], read_status(shop.spec).requests) == (["shop.orders"], [])
    with pytest.raises(PenstockError) as refused:
        ask_for_snapshots(shop.spec, ["shop.orders"], SnapshotOptions())
    assert "dropped" not in refused.value.message


def test_a_table_that_was_dropped_wants_a_full_refresh(shop: Shop) -> None:
    shop.run()
    ask_for_action(shop.spec, "shop.orders", Action.DROP, None, "ann")
    end(shop)

    with pytest.raises(UsageError, match="comes back there only from its beginning") as refused:
        ask_for_snapshots(shop.spec, ["shop.orders"], SnapshotOptions())

    assert refused.value.hint == "type: penstock snapshot FILE shop.orders --full-refresh"


def test_the_page_may_ask_and_a_page_from_elsewhere_may_not(shop: Shop) -> None:
    shop.run()
    with served(shop) as client:
        own = str(client.base_url).rstrip("/")
        json_type = {"Content-Type": "application/json"}
        strangers: list[dict[str, str]] = [
            {**json_type},
            {**json_type, "Origin": "http://evil.example"},
            {**json_type, "Origin": "null"},
            {**json_type, "Origin": "http://127.0.0.1:1"},
            {**json_type, "Origin": own, "Sec-Fetch-Site": "cross-site"},
            {**json_type, "Origin": own, "Sec-Fetch-Site": "same-site"},
            {"Content-Type": "text/plain", "Origin": own},
        ]
        refused = [client.post("/tables", content=json.dumps(PAUSE), headers=each) for each in strangers]
        nothing = requests(shop)
        taken = client.post("/tables", json=PAUSE, headers={"Origin": own, "Sec-Fetch-Site": "same-origin"})
        again = client.post("/tables", json={**PAUSE, "action": "resume", "table": "shop.no"}, headers={"Origin": own})
        odd = [
            client.post("/tables", content=content, headers={**json_type, "Origin": own})
            for content in ("", "[]", "{", '{"table": 1, "link": "l", "action": "drop"}', '"' + "x" * 9000 + '"')
        ]
        read = client.get("/tables")

    assert ([each.status_code for each in refused], nothing) == ([403] * len(strangers), [])
    assert (taken.status_code, [each.action for each in requests(shop)]) == (200, [Action.PAUSE])
    assert (again.status_code, "no link has seen" in again.json()["error"]) == (409, True)
    assert [each.status_code for each in odd] == [400] * 5
    assert read.status_code == 405


def test_a_page_that_only_shows_has_no_buttons_and_takes_no_requests(shop: Shop) -> None:
    shop.file.write_text(f"{shop.file.read_text()}web: {{actions: false}}\n")
    shop.run()
    with served(shop) as client:
        page = client.get("/").text
        answer = client.post("/tables", json=PAUSE, headers={"Origin": str(client.base_url).rstrip("/")})

    assert "data-action" not in page
    assert (answer.status_code, requests(shop)) == (403, [])


def replay(client: httpx.Client, spolt: str) -> httpx.Response:
    body = {"table": "", "link": spolt, "action": "replay"}
    return client.post("/tables", json=body, headers={"Origin": str(client.base_url).rstrip("/")})


def test_dead_letters_have_a_button_and_what_cannot_be_replayed_is_refused_with_what_to_type(shop: Shop) -> None:
    shop.file.write_text(shop.file.read_text() + SPOLT)
    shop.run()
    shop.link("big_orders", dead_letters=3)
    with served(shop) as client:
        page = client.get("/").text
        stopped = [replay(client, name) for name in ("no_such", "big_orders")]

    assert 'data-action="replay" data-table="" data-link="big_orders"' in page
    assert [each.status_code for each in stopped] == [409] * 2
    assert (stopped[0].json()["error"], stopped[0].json()["hint"]) == (
        'there is no spolt "no_such" in this pipeline',
        "its spolts are: big_orders",
    )
    assert stopped[1].json()["error"] == "nobody runs shop, and its broker and Schematizer run with it"
    assert f"penstock deadletters replay {shop.file} big_orders" in stopped[1].json()["hint"]
