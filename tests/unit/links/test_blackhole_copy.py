"""Chunks that a source copies: where they end, and what is said when the server refuses."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Self

import pymysql
import pytest
from pymysql.constants import ER
from tests.unit.links.snapshot_source import SCHEMA

from penstock.adapters.mysql.blackhole_copy import BlackholeCopier
from penstock.adapters.mysql.connection import MysqlServer, _Connection
from penstock.core.errors import UnfitServerError
from penstock.core.positions import BinlogPosition
from penstock.core.snapshots import Method, SnapshotOptions
from penstock.ports.snapshots import ChunkOrder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ANSWERS: dict[str, list[tuple[object, ...]]] = {
    "@@SESSION.binlog_format": [("ROW", 1, 0)],
    "information_schema.ENGINES": [(1,)],
    "SELECT ENGINE": [("BLACKHOLE",)],
    "SELECT 1 FROM information_schema.SCHEMATA": [(1,)],
    "CONNECTION_ID": [(1,)],
    "TABLE_ROWS": [(0,)],
    "SHOW MASTER STATUS": [("binlog.000001", 4, "", "")],
    "SHOW BINLOG STATUS": [("binlog.000001", 4, "", "")],
}


class Connection(_Connection):
    """A driver's connection to a server with one table of integers, to which others add rows before each lock."""

    def __init__(
        self,
        refused: str = "",
        ids: int = 0,
        added: Sequence[int] = (),
        answers: Mapping[str, list[tuple[object, ...]]] = MappingProxyType({}),
    ) -> None:
        self.server = MysqlServer("h", 1, "u", "")
        self.server_status = 0
        self.decoders, self.use_unicode = {}, True
        self.server_version = "11.4.2-MariaDB"
        self.ids = list(range(1, ids + 1))
        self.copied: list[int] = []
        self._refused, self._added = refused, list(added)
        self._answers = {**_ANSWERS, **answers}
        self._answer: list[tuple[object, ...]] = []

    def cursor(self, _: object = None) -> Self:  # type: ignore[override]
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def close(self) -> None:
        """Nothing is open."""

    def execute(self, statement: bytes | str) -> int:
        sql = statement if isinstance(statement, str) else statement.decode()
        if self._refused and sql.startswith(self._refused):
            raise pymysql.err.OperationalError(ER.NO_SUCH_TABLE, "there is no such table")
        if sql.startswith("LOCK TABLES") and self._added:
            first = max(self.ids) + 1
            self.ids += range(first, first + self._added.pop(0))
        if sql.startswith("SELECT") and "`shop`.`orders`" in sql:
            self._answer = [(str(each).encode(),) for each in self._found(sql)]
            return 0
        if "INSERT INTO" in sql:
            self.copied += self._found(sql)
            return len(self._found(sql))
        self._answer = next((rows for part, rows in self._answers.items() if part in sql), [])
        return 0

    def _found(self, sql: str) -> list[int]:
        behind, up_to = re.search(r"`id` > (\d+)", sql), re.search(r"`id` = (\d+)", sql)
        limit = re.search(r"LIMIT (?:(\d+), )?(\d+)", sql)
        there = [each for each in self.ids if not behind or each > int(behind[1])]
        there = [each for each in there if not up_to or each <= int(up_to[1])]
        if limit is None:
            return there
        start = int(limit[1] or 0)
        return there[start : start + int(limit[2])]

    def fetchall(self) -> list[tuple[object, ...]]:
        answer, self._answer = self._answer, []
        return answer

    def fetchone(self) -> tuple[object, ...] | None:
        return self._answer.pop(0) if self._answer else None


@pytest.mark.parametrize("refused", ["LOCK TABLES", "CREATE TABLE"])
def test_what_the_server_refuses_is_said_with_the_drivers_error_as_its_cause(refused: str) -> None:
    copier = BlackholeCopier(Connection(refused), "0000abcd", lambda _: SCHEMA, {})

    with pytest.raises(UnfitServerError) as raised:
        copier.check(SCHEMA)

    assert isinstance(raised.value.__cause__, pymysql.err.OperationalError)


@pytest.mark.parametrize(
    ("question", "answer", "said", "hint"),
    [
        ("information_schema.ENGINES", [], "does not have the engine BLACKHOLE", "INSTALL SONAME 'ha_blackhole'"),
        ("SELECT ENGINE", [("InnoDB",)], "with another engine than BLACKHOLE", "disabled_storage_engines"),
        ("@@SESSION.binlog_format", [("ROW", 1, 1)], "is read-only", "the server that is written to"),
        ("@@SESSION.binlog_format", [("STATEMENT", 1, 0)], "in the format STATEMENT", "binlog_format = 'ROW'"),
    ],
)
def test_a_server_that_cannot_copy_is_refused_before_the_snapshot_begins(
    question: str, answer: list[tuple[object, ...]], said: str, hint: str
) -> None:
    copier = BlackholeCopier(Connection(answers={question: answer}), "0000abcd", lambda _: SCHEMA, {})

    with pytest.raises(UnfitServerError, match=re.escape(said)) as refused:
        copier.check(SCHEMA)

    assert hint in refused.value.hint
    assert "or take the snapshot without --blackhole" in refused.value.hint


@pytest.mark.parametrize(
    ("added", "copied"),
    [
        ([1] * 40, [5, 5, 4]),
        # So many at once behind the last row that was seen that they are no short chunk.
        ([0, 0, 30], [5, 5, *[5] * 7, 1]),
    ],
)
def test_a_blackhole_snapshot_ends_while_rows_are_added_behind_its_chunks(added: list[int], copied: list[int]) -> None:
    connection = Connection(ids=11, added=added)
    low, options = BinlogPosition("binlog.000001", 4), SnapshotOptions(chunk_rows=5, method=Method.BLACKHOLE)
    copier, cursor, found = BlackholeCopier(connection, "0000abcd", lambda _: SCHEMA, {}), "", []

    for _ in range(20):
        chunk = copier.copy(ChunkOrder(SCHEMA, options, cursor, low, "0" * 12))
        found.append(chunk.copied)
        if chunk.cursor is None:
            break
        cursor = chunk.cursor

    assert chunk.cursor is None
    assert found == copied
    assert set(connection.copied) == set(connection.ids)
