"""While a source is written to all the time, an audit names rows that are wrong, and none that are in flight."""

from __future__ import annotations

import os
import random
import threading
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import psycopg
import pytest
from tests.servers.chain import Chain, make_chain

from penstock.config.audits import AuditSpec
from penstock.core.audit.scores import Score
from penstock.core.snapshots import Status
from penstock.wiring.audit import run_audit
from penstock.wiring.audit_repair import ask_for_repairs, await_repairs
from penstock.wiring.audits import open_results
from penstock.wiring.scheduled_audits import ScheduledAudits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from penstock.core.audit.findings import TableFindings
    from penstock.core.audit.report import AuditReport
    from penstock.dev.postgres import PostgresServer
    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer
    from penstock.ports.audit_results import AuditResult

ROWS = 2000
MINUTES = 2.0
"""For how long audits look for false alarms, at night."""
MINUTES_MAX = 6.0
"""By then rows must have been found, repaired and found equal, however slow the machine is."""
WRITES_A_SECOND = 1000
CORRUPTED = {(("1600",), "different"), (("1700",), "missing"), (("1800",), "different")}
"""Rows from 1500 on are never written to."""


@pytest.fixture
def chain(
    tmp_path: Path,
    mariadb: MariadbServer,
    fresh_database: str,
    chain_parts: tuple[KafkaBroker, str, int],
    postgres: PostgresServer,
) -> Chain:
    """A pipeline with one table, whose target is a PostgreSQL that has all of it."""
    os.environ["AUDIT_TARGET_PASSWORD"] = postgres.password
    made = make_chain(tmp_path, fresh_database, mariadb, chain_parts)
    sink = f"kind: postgres, host: {postgres.host}, port: {postgres.port}, database: {postgres.database}"
    login = f"user: {postgres.user}, password_env: AUDIT_TARGET_PASSWORD"
    text = made.file.read_text()
    made.file.write_text(text.replace(f"kind: duckdb, path: {tmp_path / made.name}/wh.duckdb", f"{sink}, {login}"))
    made.write(
        "CREATE TABLE orders (id INT PRIMARY KEY, customer VARCHAR(40), total DECIMAL(10,2), at TIMESTAMP(6) NULL)",
        f"INSERT INTO orders SELECT seq, CONCAT('c', seq), seq / 4, NOW(6) FROM seq_1_to_{ROWS}",
    )
    made.start()
    made.carry()
    return made


def test_only_rows_that_are_wrong_are_named_while_others_change_all_the_time(
    chain: Chain, postgres: PostgresServer
) -> None:
    writes = 0

    def write() -> None:
        nonlocal writes
        with chain.cursor() as cursor:
            while not stop.is_set():
                for statement in _random_statements(random.Random(writes)):  # noqa: S311 - not for secrets
                    cursor.execute(statement)
                    writes += 1
                    # No faster than what carries and audits them can be on a busy machine.
                    stop.wait(0.005)

    stop = threading.Event()
    with _running(stop, write, lambda: _carry(chain, stop)):
        quiet = _audit(chain)
        _corrupt(chain, postgres)
        found = _audit(chain)

    assert writes > 200
    assert (quiet.state, quiet.rows) == ("equal", ())
    assert {(row.key, row.state) for row in found.rows} == CORRUPTED - {(("1800",), "different")}
    assert found.state == "different"


@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_audits_under_a_thousand_writes_a_second_raise_no_false_alarm_and_all_that_is_corrupted_is_found_and_repaired(
    chain: Chain, postgres: PostgresServer
) -> None:
    writes = Writes(chain)
    began, stop, states, audits, repaired = time.monotonic(), threading.Event(), [], 0, 0
    with _running(stop, lambda: writes.write(stop), lambda: _carry(chain, stop)):
        while not stop.is_set() and time.monotonic() - began < (MINUTES if repaired else MINUTES_MAX) * 60:
            quiet = _audit(chain)
            assert (quiet.state, quiet.rows) in {("equal", ()), ("lagging", ())}, quiet
            _corrupt(chain, postgres)
            _lose_a_change(chain)
            reports = _audit_until_it_does_not_lag(chain)
            (found,) = reports[-1].tables
            assert {(row.key, row.state) for row in found.rows} == CORRUPTED, found
            asked = ask_for_repairs(chain.spec, reports[-1:]).snapshots
            assert {each.status for each in await_repairs(chain.spec, asked, 120)} == {Status.DONE}
            after = _audit(chain)
            assert (after.state, after.rows) in {("equal", ()), ("lagging", ())}, after
            states += [quiet.state, after.state]
            audits += 2 + len(reports)
            repaired += after.state == "equal"
        seconds = time.monotonic() - began
    chain.carry()
    last = _audit(chain)

    assert repaired
    assert (last.state, last.score) == ("equal", Score(1, 1, 1))
    rate = writes.rows / seconds
    print(f"{audits} audits in {seconds:.0f} s under {rate:.0f} rows a second: {states}, {repaired} repairs")  # noqa: T201 - figures


@pytest.mark.parametrize("overflow", ["null", "clamp"])
def test_texts_that_postgres_cannot_hold_are_compared_as_what_they_became(chain: Chain, overflow: str) -> None:
    chain.file.write_text(chain.file.read_text().replace("to: wh}", f"to: wh, overflow: '{overflow}'}}"))
    chain.write(
        "INSERT INTO orders VALUES (9001, CONCAT('a', CHAR(0), 'b'), 1, NULL), (9002, CHAR(0), 1, NULL)",
        "INSERT INTO orders VALUES (9003, 'Ünïcödé', 1, NULL), (9004, '', 1, NULL)",
    )
    chain.carry()

    found = _audit(chain)

    assert (found.state, found.not_compared, found.rows) == ("equal", (), ())
    assert "2 values became others" in found.why


def test_a_running_pipeline_audits_itself_tells_a_webhook_and_keeps_what_it_found(
    chain: Chain, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUDIT_WEBHOOK", "http://127.0.0.1:9/secret")
    every = AuditSpec(source=chain.source, sink="wh", every="24h", webhook_env="AUDIT_WEBHOOK")  # type: ignore[arg-type]  # as files say it
    _corrupt(chain, postgres)

    with ScheduledAudits(chain.spec.model_copy(update={"audits": (every,)})):
        whole, orders = _results(chain)

    assert (whole.state, orders.state, orders.wrong_rows, orders.rows) == ("below", "different", 2, ROWS)
    assert whole.why.startswith("the webhook did not take the alert")
    assert "secret" not in whole.why


def test_an_audit_by_schedule_that_cannot_be_made_says_why_and_harms_nobody(chain: Chain) -> None:
    every = AuditSpec(source=chain.source, sink="nowhere", every="24h")  # type: ignore[arg-type]  # as files say it

    with ScheduledAudits(chain.spec.model_copy(update={"audits": (every,)})):
        (whole,) = _results(chain)

    assert (whole.state, whole.score) == ("failed", None)
    assert whole.why.startswith(f"no link leads from {chain.source} to nowhere")


class Writes:
    """A writer of random rows, and how many it has written."""

    def __init__(self, chain: Chain) -> None:
        self.rows = 0
        self._chain = chain
        self._rng = random.Random(7)  # noqa: S311 - not for secrets

    def write(self, stop: threading.Event) -> None:
        """Write at most so many rows a second as are wanted, most of them in transactions of fifty."""
        began = time.monotonic()
        with self._chain.cursor() as cursor:
            while not stop.is_set():
                ids = ",".join(str(self._rng.randint(1, 1400)) for _ in range(50))
                self.rows += cursor.execute(f"UPDATE orders SET total = total + 1 WHERE id IN ({ids})")
                for statement in list(_random_statements(self._rng))[:5]:
                    self.rows += cursor.execute(statement)
                stop.wait(max(0.0, self.rows / WRITES_A_SECOND - (time.monotonic() - began)))


def _lose_a_change(chain: Chain) -> None:
    """Change row 1800 where the log does not tell, so that topic, files and target all lack it.

    A message that somebody else puts into the topic would stop the pipeline, and loudly.
    """
    chain.write("SET sql_log_bin = 0", f"UPDATE orders SET customer = 'at {time.monotonic()}' WHERE id = 1800")


def _results(chain: Chain) -> Sequence[AuditResult]:
    deadline = time.monotonic() + 120
    with closing(open_results(chain.spec)) as results:
        while not (found := results.newest()):
            assert time.monotonic() < deadline, "nothing was audited"
            time.sleep(0.1)
        return found


def _random_statements(rng: random.Random) -> Iterator[str]:
    for _ in range(20):
        row = rng.randint(1, 1400)
        yield rng.choice(
            (
                f"UPDATE orders SET total = total + 1, at = NOW(6) WHERE id = {row}",
                f"DELETE FROM orders WHERE id = {row}",
                f"REPLACE INTO orders VALUES ({row}, 'again', {rng.randint(0, 9)}, NOW(6))",
                f"INSERT IGNORE INTO orders VALUES ({ROWS + rng.randint(1, 5000)}, 'new', 1, NULL)",
            )
        )


def _carry(chain: Chain, stop: threading.Event) -> None:
    while not stop.is_set():
        chain.carry()


@contextmanager
def _running(stop: threading.Event, *works: Callable[[], None]) -> Iterator[None]:
    """Run threads for a `with` block; what ends one of them early fails the test."""
    failures: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised below
            failures.append(error)
            stop.set()

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    except BaseException as error:
        if failures:
            raise failures[0] from error
        raise
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)
    if failures:
        raise failures[0]


def _audit(chain: Chain) -> TableFindings:
    (table,) = _audit_all(chain).tables
    return table


def _audit_all(chain: Chain) -> AuditReport:
    return run_audit(chain.spec, AuditSpec(source=chain.source, sink="wh", wait_seconds=90.0), lambda _: None)


def _audit_until_it_does_not_lag(chain: Chain) -> Sequence[AuditReport]:
    """Audit again while what carries is behind, as on a busy machine; return all that was reported."""
    reports = [_audit_all(chain)]
    while reports[-1].tables[0].state == "lagging" and len(reports) < 5:
        reports.append(_audit_all(chain))
    return reports


def _corrupt(chain: Chain, postgres: PostgresServer) -> None:
    login = f"host={postgres.host} port={postgres.port} user={postgres.user} password={postgres.password}"
    with psycopg.connect(f"{login} dbname={postgres.database}", autocommit=True, connect_timeout=10) as connection:
        connection.execute(f"UPDATE {chain.name}.orders SET total = total + 0.01 WHERE id = 1600".encode())
        connection.execute(f"DELETE FROM {chain.name}.orders WHERE id = 1700".encode())
