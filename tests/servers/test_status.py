"""`penstock status` tells the truth: idle, behind, dead, with a stopped table, and with binlogs that go away."""

from __future__ import annotations

import json
import re
import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs
from tests.servers.binlogs import purge_to
from tests.servers.chain import Chain, make_chain
from tests.servers.kinds import first
from typer.testing import CliRunner

from penstock.cli.carried import Carried
from penstock.cli.main import app
from penstock.jobs.in_process import InProcessRunner
from penstock.jobs.pipeline import run_pipeline
from penstock.jobs.runner import PipelineRun
from penstock.wiring.health import find_problems
from penstock.wiring.open import OBJECTS_LINK, open_pipeline_state

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from penstock.core.errors import PenstockError
    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer
    from penstock.embedded.mysql import OracleMysql
    from penstock.jobs.link import Link
    from penstock.wiring.mirror import Conditions
    from penstock.wiring.pipeline_status import PipelineStatus

HOUR = 3600


@pytest.fixture(params=["mariadb", pytest.param("mysql_server", marks=pytest.mark.nightly)])
def chain(
    request: pytest.FixtureRequest, kafka: KafkaBroker, schematizer: str, fresh_name: str, tmp_path: Path
) -> Chain:
    """A pipeline that has carried two rows of each of two tables.

    What does not depend on the kind of server is shown on one of them every day.
    """
    server: MariadbServer | OracleMysql = request.getfixturevalue(request.param)
    tracker = "tracker_server" if request.param == "mariadb" else "mysql_tracker_server"
    parts = (kafka, schematizer, request.getfixturevalue(tracker).port)
    chain = make_chain(tmp_path, fresh_name, server, parts)
    Chain(chain.file, "mysql", server).write(
        f"CREATE DATABASE {fresh_name}",
        *(f"CREATE TABLE {fresh_name}.{table} (id INT PRIMARY KEY)" for table in ("orders", "users")),
        *(f"INSERT INTO {fresh_name}.{table} VALUES (1), (2)" for table in ("orders", "users")),
    )
    chain.start()
    chain.carry()
    return chain


def lags(chain: Chain, status: PipelineStatus) -> dict[str, float | None]:
    """Each link's lag, and each of its tables'."""
    told = {link.link: status.lag_seconds(link) for link in status.links}
    for table in status.tables:
        told[f"{table.link} {table.table.removeprefix(chain.name + '.')}"] = status.table_lag_seconds(table)
    return told


def status(chain: Chain) -> Mapping[str, Any]:
    ran = CliRunner().invoke(app, ["status", str(chain.file), "--json"])
    assert ran.exit_code == 0
    told: Mapping[str, Any] = json.loads(ran.stdout)
    return told


def problems(status: PipelineStatus) -> dict[str, str]:
    return {problem.subject: f"{problem.level}: {problem.text}" for problem in find_problems(status, "x")}


def test_an_idle_pipeline_that_has_carried_everything_is_not_behind(chain: Chain) -> None:
    chain.mirror("stopped")
    first = chain.status()
    chain.mirror("stopped")
    second = chain.status()

    names = (chain.source, OBJECTS_LINK, chain.sink_link)
    expected = {**dict.fromkeys(names, 0), **{f"{name} {table}": 0 for name in names for table in ("orders", "users")}}
    assert (lags(chain, first), lags(chain, second)) == (expected, expected)
    assert [(link.lag_bytes, link.lag_messages) for link in second.links] == [(None, 0), (0, None), (0, 0)]
    assert problems(second) == {}


@pytest.mark.parametrize("chain", first(1, "mariadb", "mysql_server"), indirect=True)
def test_each_link_and_table_is_behind_by_what_its_own_log_has_ahead(chain: Chain) -> None:
    chain.mirror()
    an_hour_ago = int(time.time()) - HOUR
    chain.write(f"SET SESSION timestamp = {an_hour_ago}", "INSERT INTO orders VALUES (3), (4)")
    source_behind = chain.status()
    chain.capture()
    chain.mirror()
    objects_behind = chain.status()
    chain.write_objects()
    chain.mirror()
    sink_behind = chain.status()
    chain.load()
    chain.mirror()
    done = chain.status()

    source, sink = chain.source, chain.sink_link
    told = lags(chain, source_behind)
    assert source_behind.sources[0].oldest_ahead_ms == an_hour_ago * 1000
    assert told[source] == pytest.approx(HOUR, abs=300)
    assert (told[f"{source} orders"], told[OBJECTS_LINK], told[sink]) == (told[source], 0, 0)
    by_name = {link.link: link for link in objects_behind.links}
    told = lags(chain, objects_behind)
    assert told[source] == told[f"{source} orders"] == told[f"{OBJECTS_LINK} users"] == told[sink] == 0
    assert told[OBJECTS_LINK]
    assert told[f"{OBJECTS_LINK} orders"]
    assert (by_name[OBJECTS_LINK].lag_messages or 0) >= 2
    by_name = {link.link: link for link in sink_behind.links}
    told = lags(chain, sink_behind)
    assert told[OBJECTS_LINK] == told[f"{OBJECTS_LINK} orders"] == told[f"{sink} users"] == 0
    assert told[sink]
    assert told[f"{sink} orders"]
    assert (by_name[sink].lag_bytes or 0) > 0
    assert set(lags(chain, done).values()) == {0}


def test_a_link_that_does_not_move_is_told_and_one_that_only_waits_is_not(chain: Chain) -> None:
    chain.mirror()
    chain.write(f"SET SESSION timestamp = {int(time.time()) - HOUR}", "INSERT INTO orders VALUES (3)")
    with closing(open_pipeline_state(chain.spec)) as state:
        link = next(link for link in state.links() if link.link == chain.source)
    status = replace(chain.status(), holder="somebody")

    now_behind = next(link for link in status.links if link.link == chain.source)
    # Its position moved for the last time when the mirror was first written, which is later than the change.
    assert status.stuck_seconds(now_behind) == (status.now_ms - link.moved_at_ms) / 1000
    # The time that nobody runs it does not count.
    assert replace(status, holder="").stuck_seconds(now_behind) == 0
    assert status.stuck_seconds(status.links[0]) == 0


def test_a_stopped_table_falls_behind_and_the_others_do_not(chain: Chain, capsys: pytest.CaptureFixture[str]) -> None:
    an_hour_ago = int(time.time()) - HOUR
    chain.mirror("stopped")
    carried = Carried(chain.spec)
    chain.write(
        "INSERT INTO users VALUES (3), (4), (5)",
        f"SET SESSION timestamp = {an_hour_ago}",
        "SET SESSION binlog_format = STATEMENT",
        "INSERT INTO orders VALUES (3)",
    )
    chain.carry()
    with capture_logs() as logged:
        chain.mirror("stopped")
        chain.mirror("stopped")

    told = status(chain)
    carried.say()
    Carried(chain.spec).say()

    said = capsys.readouterr().err
    assert [(event["event"], event["table"], event["log_level"]) for event in logged] == [
        ("table stopped", f"{chain.name}.orders", "error")
    ]
    assert "its rows are not in the log" in said
    assert "what to do: set binlog_format=ROW" in said
    assert "1 table(s) are stopped, see above" in said
    assert re.search(rf"table +{chain.source} +objects +{chain.source}-to-wh *\n", said), said
    assert re.search(rf"{chain.name}\.users +3 +3 +3 *\n", said), said
    assert "carried rows of 1 table(s) in " in said
    assert "nothing was new; took " in said
    tables = {(table["link"], table["table"]): table for table in told["tables"]}
    stopped = tables.pop((chain.source, f"{chain.name}.orders"))
    assert stopped["stopped"] is True
    assert stopped["stopped_at_ms"] == an_hour_ago * 1000
    assert stopped["lag_seconds"] == pytest.approx(HOUR, abs=300)
    assert {table["lag_seconds"] for table in tables.values()} == {0}
    assert {link["lag_seconds"] for link in told["links"]} == {0}
    assert [problem["subject"] for problem in told["problems"]] == [f"{chain.source}, {chain.name}.orders"]
    assert told["healthy"] is False


def test_a_pipeline_that_was_killed_is_seen_as_dead(chain: Chain) -> None:
    chain.mirror("running")
    chain.write("INSERT INTO orders VALUES (3)")

    told = status(chain)
    shown = CliRunner().invoke(app, ["status", str(chain.file)])

    assert told["running"] is False
    assert [problem["subject"] for problem in told["problems"]] == ["pipeline", chain.source]
    assert f"type: penstock run {chain.file}" in told["problems"][0]["hint"]
    assert "it was killed, or its machine went down" in shown.stdout
    assert "not running; " in shown.stdout


@pytest.mark.parametrize("chain", first(1, "mariadb", "mysql_server"), indirect=True)
def test_binlogs_that_go_away_are_warned_of_in_time_and_told_when_they_are_gone(chain: Chain) -> None:
    chain.mirror("stopped")
    well = status(chain)["sources"][0]["retention"]
    restore = "SET GLOBAL binlog_expire_logs_seconds = 0"
    chain.write(f"SET GLOBAL binlog_expire_logs_seconds = {2 * HOUR}", "FLUSH BINARY LOGS")
    try:
        short = status(chain)
        chain.write("SET GLOBAL binlog_expire_logs_seconds = 864000")
        long = status(chain)
    finally:
        chain.write(restore)
    chain.write("INSERT INTO orders VALUES (3)", "FLUSH BINARY LOGS")
    newest = status(chain)["sources"][0]["retention"]["newest_file"]
    with chain.cursor() as cursor:
        purge_to(cursor, newest)
    purged = status(chain)

    assert (well["level"], well["needed_file"]) == ("ok", well["newest_file"])
    warned = short["sources"][0]["retention"]
    assert (warned["level"], warned["expire_seconds"]) == ("warning", 2 * HOUR)
    assert warned["seconds_left"] == pytest.approx(2 * HOUR, abs=300)
    assert warned["needed_file"] == well["needed_file"] != warned["newest_file"]
    assert short["problems"][-1]["level"] == "warning"
    assert "may purge" in short["problems"][-1]["text"]
    assert long["sources"][0]["retention"]["level"] == "ok"
    assert long["problems"] == []
    gone = purged["sources"][0]["retention"]
    assert (gone["level"], gone["oldest_file"], gone["files"], gone["files_before"]) == ("error", newest, 1, 0)
    assert "was purged" in purged["problems"][0]["text"]
    assert "start a new pipeline with an initial snapshot" in purged["problems"][0]["hint"]
    assert purged["healthy"] is False


class Watching(InProcessRunner):
    """A runner that looks what is known of each link before the first one begins."""

    def __init__(self) -> None:
        self.first: dict[str, str] = {}

    def run(self, run: PipelineRun, links: Sequence[Link], conditions: Conditions) -> PenstockError | None:
        self.first = self.first or {name: condition.state for name, condition in conditions.items()}
        return super().run(run, links, conditions)


@pytest.mark.parametrize("chain", first(1, "mariadb", "mysql_server"), indirect=True)
def test_a_run_says_at_its_beginning_which_links_it_runs(chain: Chain) -> None:
    names = (chain.source, OBJECTS_LINK, chain.sink_link)

    whole, part = Watching(), Watching()
    run_pipeline(PipelineRun(chain.spec, once=True, only=None), whole)
    after_all = chain.status()
    run_pipeline(PipelineRun(chain.spec, once=True, only=chain.source), part)
    after_one = chain.status()

    assert (whole.first, part.first) == (dict.fromkeys(names, "starting"), {chain.source: "starting"})
    assert {link.state for link in after_all.links} == {"stopped"}
    assert (after_all.left_out, after_one.left_out) == ([], [OBJECTS_LINK, chain.sink_link])


@pytest.mark.nightly
def test_a_log_that_only_rotated_holds_nothing_that_waits(chain: Chain) -> None:
    chain.mirror("stopped")
    chain.write("FLUSH BINARY LOGS")

    status = chain.status()

    assert (status.sources[0].lag_bytes or 0) > 0
    assert lags(chain, status)[chain.source] == 0
    assert problems(status) == {}
