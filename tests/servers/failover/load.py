"""A load of which every transaction can be accounted for, and the account of it."""

from __future__ import annotations

import itertools
import random
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, Self

import pymysql
from tests.servers.failover.pair import run
from tests.servers.source_log import connected

if TYPE_CHECKING:
    from types import TracebackType

    from tests.servers.failover.conftest import Case, Seen
    from tests.servers.source_log import Source

_ACCOUNTS: Final = 10


def create_tables(server: Source) -> None:
    """Accounts that count up, and a journal with a row for each transaction."""
    run(
        server,
        "CREATE DATABASE shop",
        "CREATE TABLE shop.accounts (id INT PRIMARY KEY, v INT NOT NULL, note VARCHAR(200))",
        "CREATE TABLE shop.journal (worker INT, n INT, account INT, PRIMARY KEY (worker, n))",
        "INSERT INTO shop.accounts VALUES " + ", ".join(f"({id_}, 0, '')" for id_ in range(1, _ACCOUNTS + 1)),
    )


class Load:
    """Writes from several connections until the block ends or the server dies. `acknowledged` were told to clients."""

    def __init__(self, server: Source, workers: range) -> None:
        self._server = server
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(each,), daemon=True) for each in workers]
        self.acknowledged: set[tuple[int, int]] = set()

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)

    def _work(self, worker: int) -> None:
        chance = random.Random(worker)  # noqa: S311 - which account is no secret
        try:
            with closing(connected(self._server)) as connection, connection.cursor() as cursor:
                for n in itertools.count():
                    if self._stop.is_set():
                        return
                    account = chance.randint(1, _ACCOUNTS)
                    cursor.execute("BEGIN")
                    cursor.execute(f"INSERT INTO shop.journal VALUES ({worker}, {n}, {account})")
                    text = "x" * chance.randint(0, 200)
                    cursor.execute(f"UPDATE shop.accounts SET v = v + 1, note = '{text}' WHERE id = {account}")
                    cursor.execute("COMMIT")
                    self.acknowledged.add((worker, n))
        except pymysql.err.MySQLError:
            # The server died.
            return


def assert_carried_once(case: Case, server: Source) -> set[tuple[int, int]]:
    """Compare Kafka with the server: every change once, in order for every key. Returns the journal."""
    with closing(connected(server)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT worker, n FROM shop.journal")
        journal = sorted((worker, n) for worker, n in cursor.fetchall())
        cursor.execute("SELECT id, v, note FROM shop.accounts")
        accounts = {id_: {"id": id_, "v": v, "note": note} for id_, v, note in cursor.fetchall()}
    created = case.changes("shop.journal")
    assert sorted((c.after["worker"], c.after["n"]) for c in created if c.after) == journal
    assert {c.op for c in created} <= {"c", "r"}
    assert follow_rows(case.changes("shop.accounts")) == accounts
    return set(journal)


def follow_rows(changes: list[Seen]) -> dict[int, dict[str, Any]]:
    """Apply changes, each of which must find the row that it says was there before."""
    rows: dict[int, dict[str, Any]] = {}
    for change in changes:
        row = change.after or change.before or {}
        before = rows.get(row["id"])
        assert change.op in {"c", "r"} or before == change.before
        assert change.op not in {"c", "r"} or before is None
        if change.after is None:
            del rows[row["id"]]
        else:
            rows[row["id"]] = change.after
    return rows
