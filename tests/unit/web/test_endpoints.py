"""What a pipeline's page, metrics and health say, over a real state database, and whom they refuse."""

from __future__ import annotations

import contextlib
import json
import socket
from contextlib import closing
from typing import TYPE_CHECKING

import httpx
import pytest
from tests.unit.web.shop import Shop, now_ms, served, until
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.core.errors import ConfigError, UsageError
from penstock.embedded.page import plan_page
from penstock.embedded.ports import free_port
from penstock.ports.history import SPARK, ServerCondition
from penstock.schematizer.security.users_edit import put_user
from penstock.web.watcher import Watcher
from penstock.wiring.open import open_history
from penstock.wiring.pipeline_status import StatusReader

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, NoReturn


def status(shop: Shop) -> Mapping[str, Any]:
    told: Mapping[str, Any] = json.loads(CliRunner().invoke(app, ["status", str(shop.file), "--json"]).stdout)
    return told


def look(shop: Shop) -> tuple[Mapping[str, float], str]:
    """Metrics and the page's parts, as of now."""
    with StatusReaderOf(shop) as reader:
        snapshot = Watcher(shop.spec, shop.file).look(reader)
    lines = [line for line in snapshot.metrics.decode().splitlines() if not line.startswith("#")]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}, "".join(snapshot.parts.values())


class StatusReaderOf:
    """A reader for a `with` block."""

    def __init__(self, shop: Shop) -> None:
        self.reader = StatusReader(shop.spec)

    def __enter__(self) -> StatusReader:
        return self.reader

    def __exit__(self, *_: object) -> None:
        self.reader.close()


def test_a_pipeline_that_never_ran_is_not_healthy(shop: Shop) -> None:
    metrics, page = look(shop)

    assert metrics['penstock_running{pipeline="shop"}'] == metrics['penstock_healthy{pipeline="shop"}'] == 0
    assert "Nobody runs it." in page
    assert status(shop)["healthy"] is False
    assert not (shop.spec.home / "state.db").exists()


def test_a_pipeline_that_runs_well_is_alive_and_ready_and_says_what_it_carried(shop: Shop) -> None:
    with shop.held():
        shop.run()
        metrics, page = look(shop)

    assert metrics['penstock_healthy{pipeline="shop"}'] == 1
    assert metrics['penstock_link_up{pipeline="shop",link="shopdb-to-warehouse",kind="sink"}'] == 1
    assert metrics['penstock_table_rows_total{pipeline="shop",link="shopdb",table="shop.orders"}'] == 12_345
    assert metrics['penstock_server_up{pipeline="shop",server="Kafka"}'] == 1
    assert "Running. All is well." in page
    assert "12\u202f345" in page


@pytest.mark.parametrize(
    ("break_it", "metric", "said"),
    [
        pytest.param(
            lambda shop: shop.servers("starting", "running", 1),
            'penstock_server_up{pipeline="shop",server="Kafka"}',
            "it died, and is being started again",
            id="a server died",
        ),
        pytest.param(
            lambda shop: shop.link("objects", state="retrying", error="Kafka is away", hint="wait", failures=1),
            'penstock_link_up{pipeline="shop",link="objects",kind="objects"}',
            "Kafka is away",
            id="a link waits",
        ),
        pytest.param(
            lambda shop: (
                [shop.link(name, updated_at_ms=now_ms() - 40_000) for name in ("shopdb", "objects")]
                and shop.link("shopdb-to-warehouse", updated_at_ms=now_ms() - 40_000)
            ),
            'penstock_healthy{pipeline="shop"}',
            "its last sign of life is 4",
            id="the process hangs",
        ),
    ],
)
def test_what_breaks_is_seen_everywhere_and_is_gone_when_it_has_recovered(
    shop: Shop, break_it: Callable[[Shop], None], metric: str, said: str
) -> None:
    with shop.held():
        shop.run()
        break_it(shop)
        broken, broken_page = look(shop)
        told = status(shop)["problems"]
        shop.run()
        mended, mended_page = look(shop)

    assert (broken[metric], broken['penstock_healthy{pipeline="shop"}'], mended[metric]) == (0, 0, 1)
    assert mended['penstock_healthy{pipeline="shop"}'] == 1
    assert said in broken_page
    assert any(said in problem["text"] for problem in told)
    assert said not in mended_page


def test_a_run_that_lost_spark_is_alive_while_it_begins_again_and_for_two_minutes_alone(shop: Shop) -> None:
    shop.run()
    with closing(open_history(shop.spec)) as history:
        history.save_servers([ServerCondition(SPARK, "down", now_ms())])
    metrics, page = look(shop)
    with served(shop) as client:
        answer = client.get("/healthz")
    told = CliRunner().invoke(app, ["status", str(shop.file)]).stdout
    with closing(open_history(shop.spec)) as history:
        history.save_servers([ServerCondition(SPARK, "down", now_ms() - 130_000)])
    later, later_page = look(shop)

    assert metrics['penstock_running{pipeline="shop"}'] == 1
    assert (
        metrics['penstock_server_up{pipeline="shop",server="Spark"}']
        == metrics['penstock_healthy{pipeline="shop"}']
        == 0
    )
    assert answer.status_code == 200
    assert "Spark is being started again." in page
    assert "shop runs, and Spark is being started again" in told
    assert "it was killed" not in page + told
    assert later['penstock_running{pipeline="shop"}'] == 0
    assert "Nobody runs it." in later_page
    assert "it was killed" in later_page


def test_a_link_that_failed_and_runs_again_is_counted_and_told_for_a_while(shop: Shop) -> None:
    with shop.held():
        shop.run()
        shop.link("objects", failures=2, failed_at_ms=now_ms() - 5000, failure="a worker died")
        metrics, page = look(shop)

    assert metrics['penstock_link_failures_total{pipeline="shop",link="objects",kind="objects"}'] == 2
    assert metrics['penstock_healthy{pipeline="shop"}'] == 1
    assert "Recovered in the last 10 minutes" in page
    assert "a worker died" in page


def test_a_killed_pipeline_is_told_with_what_to_type(shop: Shop) -> None:
    shop.run(seconds_ago=5)

    metrics, page = look(shop)

    assert metrics['penstock_running{pipeline="shop"}'] == 0
    assert "it was killed, or its machine went down" in page
    assert f"type: penstock run {shop.file}" in page
    assert "penstock_server_up{" not in "".join(metrics)


def test_the_time_that_nobody_ran_a_link_does_not_count_as_stuck(shop: Shop) -> None:
    hour = 3_600_000
    down = {"behind_since_ms": now_ms() - 5 * hour, "moved_at_ms": now_ms() - 4 * hour}
    ended = {"running_since_ms": now_ms() - 9 * hour, "updated_at_ms": now_ms() - 4 * hour + 60_000}
    shop.link("objects", **down, **ended)
    while_down = status(shop)["links"][0]["stuck_seconds"]
    with shop.held():
        shop.link("objects", **down, running_since_ms=now_ms() - 7000)
        after = status(shop)["links"][0]["stuck_seconds"]

    assert while_down == pytest.approx(60, abs=1)
    assert after == pytest.approx(7, abs=3)


def test_links_that_were_taken_out_of_the_file_are_not_told(shop: Shop) -> None:
    with shop.held():
        shop.run()
        shop.link("shopdb-to-old", state="failed", error="it is full", hint="make room")
        metrics, page = look(shop)
        told = status(shop)

    assert "shopdb-to-old" not in page + "".join(metrics) + json.dumps(told)
    assert metrics['penstock_healthy{pipeline="shop"}'] == 1


def test_the_page_the_metrics_and_the_health_are_served(shop: Shop) -> None:
    with shop.held():
        shop.run()
        shop.samples(10, 100)
        with served(shop) as client:
            answers = {path: client.get(path) for path in ("/", "/metrics", "/healthz", "/readyz", "/static/live.js")}
            with client.stream("GET", "/events/") as stream:
                event = next(line for line in stream.iter_lines() if line.startswith("data: "))

    assert {path: answer.status_code for path, answer in answers.items()} == dict.fromkeys(answers, 200) | {
        # The source of this pipeline does not answer.
        "/readyz": 503
    }
    assert "<h1>shop</h1>" in answers["/"].text
    assert 'class="line" d="M' in answers["/"].text
    assert answers["/metrics"].headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert answers["/readyz"].text.startswith("shopdb: ")
    told = json.loads(event.removeprefix("data: "))
    assert told["names"][0] == "verdict"
    assert list(told["changed"]) == told["names"]
    assert "<h1>shop</h1>" in told["changed"]["verdict"]


def test_nobody_is_answered_who_took_us_for_another_name(shop: Shop) -> None:
    with served(shop) as client:
        port = client.base_url.port
        names = ("localhost", f"127.0.0.1:{port}", f"[::1]:{port}", "LOCALHOST:1", "evil.example", "127.0.0.1.evil", "")
        answers = {name: client.get("/healthz", headers={"Host": name}).status_code for name in names}

    assert answers == dict(zip(names, (503, 503, 503, 503, 403, 403, 503), strict=True))


def test_a_scraper_that_reads_nothing_is_cut_and_the_others_are_answered(shop: Shop) -> None:
    shop.run()
    with served(shop) as client:
        address = ("127.0.0.1", client.base_url.port or 0)
        hostile = socket.socket()
        hostile.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        hostile.connect(address)
        hostile.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2000)
        silent = socket.create_connection(address)
        silent.settimeout(20)
        others = [client.get("/metrics").status_code for _ in range(20)]
        cut = silent.recv(1)
        hostile.settimeout(20)

        def is_cut() -> bool:
            try:
                hostile.sendall(b"GET")
            except OSError:
                return True
            return False

        until(is_cut)
        hostile.close()
        silent.close()

    assert others == [200] * 20
    assert cut == b""


def test_whoever_only_connects_keeps_nobody_from_asking(shop: Shop) -> None:
    shop.run()
    with served(shop) as client, contextlib.ExitStack() as stack:
        address = ("127.0.0.1", client.base_url.port or 0)
        for _ in range(80):
            stack.enter_context(socket.create_connection(address))
        url = client.base_url.join("/metrics")
        late = [httpx.get(url, trust_env=False).status_code for _ in range(5)]

    assert late == [200] * 5


def test_more_requests_under_way_than_we_hold_are_refused_and_let_in_again(shop: Shop) -> None:
    shop.run()
    with served(shop) as client:
        address = ("127.0.0.1", client.base_url.port or 0)
        crowd, answers = [], []
        # One by one: of connections that have not said yet what they want, the oldest gives way to a new one.
        for _ in range(80):
            crowd.append(socket.create_connection(address))
            crowd[-1].sendall(b"GET /events/ HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answers.append(crowd[-1].recv(12))
        for each in crowd:
            each.close()

        until(lambda: client.get("/metrics").status_code == 200)

    assert set(answers) == {b"HTTP/1.1 200", b"HTTP/1.1 503"}
    assert answers.count(b"HTTP/1.1 200") == 16


def test_a_mistake_of_ours_is_told_and_the_page_goes_on_after_it(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> NoReturn:
        raise ZeroDivisionError

    shop.run()
    with monkeypatch.context() as broken:
        broken.setattr("penstock.wiring.pipeline_status.ask_source", fail)
        broken.setattr("penstock.web.watcher.ask_zones", fail)
        broken.setattr("penstock.web.watcher.make_overview", fail)
        broken.setattr("penstock.web.watcher._SOURCES_SECONDS", 0.2)
        broken.setattr("penstock.web.watcher._ZONES_SECONDS", 0.2)
        watcher = Watcher(shop.spec, shop.file)
        with watcher:
            until(lambda: watcher._sources)
            told = watcher._sources[0].unanswered
            until(lambda: "ZeroDivisionError" in watcher.unanswered)
            broken.undo()
            until(lambda: (seen := watcher.newest()) and seen.has_asked)

    assert told == "a mistake of Penstock: ZeroDivisionError()"


def test_a_port_in_use_stops_the_start_with_what_to_do(shop: Shop) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        shop.file.write_text(f"{shop.file.read_text()}web: {{port: {port}}}\n")

        with pytest.raises(UsageError) as refused:
            plan_page(shop.file, shop.spec)

    assert f"port {port} on 127.0.0.1 is in use" in refused.value.message
    assert "web: {port: N}" in refused.value.hint
    assert "web: false" in refused.value.hint


@pytest.mark.parametrize("named", ["", ", port: {port}"])
def test_a_port_is_looked_for_at_the_address_that_the_file_names(shop: Shop, named: str) -> None:
    # One that the system gave may be somebody's at the other address.
    with socket.create_server(("127.0.0.2", port := free_port())):
        shop.spec.home.mkdir(parents=True)
        (shop.spec.home / "web.port").write_text(f"{port}\n")
        before = shop.file.read_text()
        shop.file.write_text(f"{before}web: {{host: 127.0.0.1{named.format(port=port)}}}\n")
        here = plan_page(shop.file, shop.spec)
        shop.file.write_text(f"{before}web: {{host: 127.0.0.2{named.format(port=port)}}}\n")
        told = _planned_url(shop)

    assert here is not None
    assert here.url == f"http://127.0.0.1:{port}/"
    assert told.startswith(f"the live page's port {port} on 127.0.0.2 is in use" if named else "http://127.0.0.2:")
    assert told != f"http://127.0.0.2:{port}/"


def _planned_url(shop: Shop) -> str:
    """Where the page is to be, or why it cannot be."""
    try:
        page = plan_page(shop.file, shop.spec)
    except UsageError as refused:
        return refused.message
    assert page is not None
    return page.url


@pytest.mark.parametrize(
    ("web", "why"),
    [
        ("{host: 192.0.2.7, users: u.yaml, behind_proxy: 10.0.0.1}", "192.0.2.7: that is no address of this machine"),
        ("{tls: {cert: none.pem}}", "TLS cannot be served with"),
    ],
)
def test_an_address_and_a_certificate_that_cannot_work_stop_the_start(shop: Shop, web: str, why: str) -> None:
    put_user(shop.file.with_name("u.yaml"), "ada", "", ())
    shop.file.write_text(f"{shop.file.read_text()}web: {web}\n")

    with pytest.raises(UsageError, match=why):
        plan_page(shop.file, shop.spec)


def test_a_port_of_our_own_choice_is_kept_and_changed_where_it_is_taken(shop: Shop) -> None:
    first, again = (plan_page(shop.file, shop.spec) for _ in range(2))
    assert first is not None
    assert again is not None
    port = int(first.url.rstrip("/").rpartition(":")[2])
    with socket.create_server(("127.0.0.1", port)):
        other = plan_page(shop.file, shop.spec)

    assert other is not None
    assert first.url == again.url != other.url


@pytest.mark.parametrize(
    ("web", "mistake"),
    [
        ("true", "web: should be a mapping"),
        ("{prot: 1}", "web.prot: unknown key (did you mean port?)"),
        ("{port: 0}", "web.port: should be greater"),
    ],
)
def test_a_mistake_in_the_file_is_named(shop: Shop, web: str, mistake: str) -> None:
    shop.file.write_text(f"{shop.file.read_text()}web: {web}\n")

    with pytest.raises(ConfigError) as refused:
        shop.spec  # noqa: B018 - it reads the file

    assert mistake in refused.value.message


def test_a_page_can_be_turned_off(shop: Shop) -> None:
    shop.file.write_text(f"{shop.file.read_text()}web: false\n")

    assert plan_page(shop.file, shop.spec) is None
