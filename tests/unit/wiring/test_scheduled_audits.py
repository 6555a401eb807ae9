"""When audits are due, what is kept of them and who is told; the webhook is a real server."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import pytest

from penstock.adapters.webhook.send import send
from penstock.config.audits import AuditSpec
from penstock.config.load import load
from penstock.core.audit.findings import DivergentRow, NotCompared, StagesFound, TableFindings
from penstock.core.audit.report import AuditReport
from penstock.core.audit.scores import Score
from penstock.core.errors import UnavailableError, UsageError
from penstock.jobs.pipeline import plan_audits
from penstock.jobs.runner import PipelineRun
from penstock.ports.audit_results import WHOLE, AuditResult
from penstock.wiring.audits import alert, named_audits, overdue_audits, results_of, send_alert
from penstock.wiring.scheduled_audits import ScheduledAudits, seconds_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONFIG = """\
pipeline: shop
sources:
  - {name: shopdb, kind: mysql, host: h, user: cdc, password_env: SHOPDB_PASSWORD, tables: [shop.*]}
sinks:
  - {name: warehouse, kind: duckdb, path: w.duckdb}
links:
  - {from: shopdb, to: warehouse}
"""
LINK = "shopdb-to-warehouse"
DAILY = AuditSpec(source="shopdb", sink="warehouse", every="24h", webhook_env="AUDIT_WEBHOOK")  # type: ignore[arg-type]  # as a file says it
DAY_MS = 86_400_000
NOW_MS = 1_700_000_000_000

ROW = DivergentRow(("7",), "different", {"name": ("secret", "other")})
ORDERS = TableFindings("shop.orders", "different", Score(0.5, 0.4, 0.6), 1, 1, 20, 20, rows=(ROW,), wrong_rows=1)
USERS = TableFindings("shop.users", "equal", Score(1.0, 1.0, 1.0), 2, 0, 9, 9)
BELOW = AuditReport("shop", "shopdb", "warehouse", 1.0, 16, NOW_MS, 2.0, (ORDERS, USERS))


def until(**last: object) -> float:
    whole = replace(AuditResult(LINK, WHOLE, NOW_MS, "passed"), **last)  # type: ignore[arg-type]  # the fields' own types
    return seconds_until([whole], LINK, DAILY, NOW_MS)


def test_an_audit_is_due_a_period_after_it_last_began_and_at_once_if_it_never_did() -> None:
    assert seconds_until([], LINK, DAILY, NOW_MS) == 0
    assert until(began_at_ms=NOW_MS - DAY_MS // 4) == 18 * 3600
    assert until(began_at_ms=NOW_MS - 2 * DAY_MS) == -24 * 3600


def test_an_audit_that_could_not_tell_is_due_again_in_ten_minutes() -> None:
    assert [until(state=state) for state in ("passed", "below", "unknown", "failed")] == [86_400, 86_400, 600, 600]


def test_an_audit_that_takes_longer_than_ten_minutes_is_not_due_again_as_soon_as_it_ends() -> None:
    began_at_ms = NOW_MS - 7_200_000

    assert [until(state=state, began_at_ms=began_at_ms, seconds=7200.0) for state in ("unknown", "failed")] == [
        600,
        600,
    ]


def test_tables_without_a_result_have_no_others_audited_before_their_time() -> None:
    late, failed = TableFindings("shop.late", "lagging"), TableFindings("shop.unread", "failed")
    logged = TableFindings("shop.logged", "not compared")

    def until_next(*tables: TableFindings) -> float:
        kept = results_of(LINK, replace(BELOW, tables=tables, seconds=60.0))
        assert kept[0].state == "unknown"
        other = AuditResult("another", "shop.users", NOW_MS, "equal")
        old = AuditResult(LINK, "shop.old", NOW_MS - DAY_MS, "equal")
        return seconds_until([other, old, *kept], LINK, DAILY, NOW_MS)

    assert until_next(USERS, late) == 86_400
    assert until_next(USERS, failed, logged) == 86_400
    assert until_next(late, failed, logged) == 660


def test_an_audit_whose_time_was_over_goes_on_at_its_next_time() -> None:
    late = TableFindings("shop.late", "not reached")
    unread = TableFindings("shop.unread", "failed")
    states = [
        results_of(LINK, replace(BELOW, tables=tables))[0].state
        for tables in [(USERS, late), (USERS, late, unread), (ORDERS, late)]
    ]

    assert states == ["unfinished", "unknown", "below"]
    assert until(state="unfinished") == 86_400


def test_a_clock_that_went_back_puts_no_audit_off_for_longer_than_its_period() -> None:
    assert until(began_at_ms=NOW_MS + 300 * DAY_MS) == 86_400


def test_an_audit_is_overdue_after_two_periods_of_a_run_that_lasts_as_long() -> None:
    old = [AuditResult(LINK, WHOLE, NOW_MS - 3 * DAY_MS, "passed")]

    assert overdue_audits({LINK: DAILY}, old, NOW_MS - 4 * DAY_MS, NOW_MS) == [LINK]
    assert overdue_audits({LINK: DAILY}, old, NOW_MS - DAY_MS, NOW_MS) == []
    assert overdue_audits({LINK: DAILY.model_copy(update={"every": None})}, old, 0, NOW_MS) == []


def test_several_audits_of_a_link_have_names_of_their_own_and_a_file_without_any_one_for_each_link(
    tmp_path: Path,
) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(CONFIG)
    plain = list(named_audits(load(file)))
    two = "audits:\n  - {source: shopdb, sink: warehouse, every: 7d}\n  - {source: shopdb, sink: warehouse}\n"
    file.write_text(CONFIG + two)

    named = named_audits(load(file))

    assert plain == [LINK]
    assert {name: audit.every for name, audit in named.items()} == {LINK: 604_800, f"{LINK} (2)": None}


def test_what_is_kept_has_the_whole_first_and_says_which_tables_are_below() -> None:
    kept = results_of(LINK, BELOW)

    assert [(each.table, each.state, each.is_below) for each in kept] == [
        (WHOLE, "below", True),
        ("shop.orders", "different", True),
        ("shop.users", "equal", False),
    ]
    assert (kept[0].wrong_rows, kept[0].rows, kept[0].score) == (1, 29, 0.75)
    lagging = replace(BELOW, tables=(USERS, TableFindings("shop.maps", "lagging")))
    assert results_of(LINK, lagging)[0].state == "unknown"
    forged = StagesFound((("topic", TableFindings("shop.users", "different")),))
    whole, users = results_of(LINK, replace(BELOW, tables=(replace(USERS, stages=forged),)))
    assert (whole.state, whole.is_below) == ("below", True)
    assert (users.state, users.is_below, users.why) == ("equal", True, "its topic differs from the source")
    unread = replace(USERS, stages=StagesFound((("topic", TableFindings("shop.users", "failed")),)))
    assert results_of(LINK, replace(BELOW, tables=(unread,)))[0].state == "unknown"


def test_columns_that_nobody_wanted_to_leave_out_are_counted_where_a_result_is_kept_and_told() -> None:
    left_out = (NotCompared("email", "the link masks it", is_wanted=True), NotCompared("place", "not compared yet"))
    users = replace(USERS, why="it was slow", not_compared=left_out)
    orders = replace(ORDERS, not_compared=(*left_out, NotCompared("more", "no such column", is_wrong=True)))

    whole, *kept = results_of(LINK, replace(BELOW, tables=(users, orders, replace(USERS, not_compared=left_out[:1]))))

    counted = ["it was slow; 1 column is not compared", "2 columns are not compared", ""]
    assert [each.why for each in kept] == counted
    assert (whole.not_compared, [each.not_compared for each in kept]) == (3, [1, 2, 0])
    told = json.dumps(alert(LINK, replace(BELOW, tables=(orders,))))
    assert f'"why": "{counted[1]}"' in told


def test_a_webhook_whose_variable_is_not_set_stops_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AUDIT_WEBHOOK", raising=False)
    file = tmp_path / "shop.yaml"
    audit = "{source: shopdb, sink: warehouse, every: 24h, webhook_env: AUDIT_WEBHOOK}"
    file.write_text(f"{CONFIG}audits: [{audit}]\n")

    with pytest.raises(UsageError, match="AUDIT_WEBHOOK is not set"):
        ScheduledAudits(load(file))


def test_only_a_run_of_the_whole_pipeline_audits_by_schedule(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(CONFIG)
    spec = load(file)

    assert isinstance(plan_audits(PipelineRun(spec, once=False, only=None)), ScheduledAudits)
    for run in (PipelineRun(spec, once=True, only=None), PipelineRun(spec, once=False, only=LINK)):
        assert not isinstance(plan_audits(run), ScheduledAudits)


def test_an_alert_names_tables_and_scores_and_tells_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    with _webhook(200) as (url, taken):
        monkeypatch.setenv("AUDIT_WEBHOOK", url)

        send_alert(DAILY, LINK, BELOW)
        send_alert(DAILY, LINK, replace(BELOW, tables=(USERS,)))

    (text,) = taken
    told = json.loads(text)
    assert told["text"] == "shop: warehouse differs from shopdb: shop.orders 0.5 (threshold 1); see penstock audit FILE"
    assert told["tables"] == [
        {"table": "shop.orders", "score": 0.5, "lower": 0.4, "upper": 0.6, "divergent_rows": 1}
        | {"columns_not_compared": 0, "why": ""},
    ]
    assert "secret" not in text


def test_a_webhook_that_refuses_is_asked_three_times_and_its_url_is_never_told() -> None:
    with _webhook(503) as (url, taken), pytest.raises(UnavailableError) as refused:
        send(f"{url}/token-in-the-url", {}, pause_seconds=0.0)

    assert len(taken) == 3
    assert refused.value.message == "the webhook did not take the alert: it answered with status 503"
    with pytest.raises(UnavailableError) as gone:
        send(f"{url}/token-in-the-url", {}, pause_seconds=0.0)
    with pytest.raises(UnavailableError) as no_url:
        send("token-in-the-url", {}, pause_seconds=0.0)
    assert "token" not in f"{refused.value}{gone.value}{no_url.value}"


@contextmanager
def _webhook(status: int) -> Iterator[tuple[str, list[str]]]:
    """Serve a URL that answers with `status`, and say what was sent to it."""
    taken: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            taken.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self.send_response(status)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", taken
        finally:
            server.shutdown()
            thread.join()
