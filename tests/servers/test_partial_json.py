"""MySQL's PARTIAL_JSON: the documents that differences make are those that a SELECT returns, byte for byte."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pymysql.cursors import DictCursor
from tests.servers.json_values import quoted
from tests.unit.mysql_log.single_items import one_by_one

from penstock.adapters.mysql.binlog_stream import open_binlog
from penstock.adapters.mysql.catalog import read_tables
from penstock.adapters.mysql.connection import MysqlServer, connect
from penstock.adapters.mysql.history import head
from penstock.core.changes import Op
from penstock.core.errors import TableStoppedError
from penstock.core.mysql.rows.decode import decode_rows
from penstock.core.mysql.types.logged_rows import RowsLogged
from penstock.core.tables import Column, PrintedType, TableId
from penstock.ports.log import Stop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.embedded.mysql import OracleMysql

Sql = str
Json = Any

_SERVER_ID: Final = 901_778
_TABLE: Final = TableId("partial_json", "t")
# Those of the second line are never logged as differences: the new documents are in the log whole.
_FUNCTIONS: Final = (
    *("SET", "SET", "SET", "SET", "REPLACE", "REPLACE", "REMOVE", "REMOVE", "REMOVE"),
    *("INSERT", "ARRAY_APPEND", "ARRAY_INSERT"),
)
# Names that need quotes or escapes in a path, or look like other parts of one.
_KEYS: Final = st.sampled_from(["a", "bb", "é", "", "a.b", 'q"x', "last", "$", "[0]", "*", "a b", "\\", "\n", "日本🐬"])
_SCALARS: Final = (
    st.none()
    | st.booleans()
    | st.sampled_from([0, -1, 40_000, -(2**31), 2**40, -(2**63), 2**64 - 1, 1.5, -0.0, 1e300, "x" * 200])
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=30)
)


def _containers(inner: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    return st.lists(inner, max_size=5) | st.dictionaries(_KEYS, inner, max_size=6)


_DOCUMENTS: Final = _containers(st.recursive(_SCALARS, _containers, max_leaves=12))
_SQL_VALUES: Final = st.sampled_from(
    [
        "NULL",
        "DATE'2024-02-29'",
        "TIME'-12:34:56.789'",
        "TIMESTAMP'2024-02-29 01:02:03.000004'",
        "-1234567890.0123456789",
        "1.50",
        "x'cafe'",
        "REPEAT(x'cafe', 100)",
        "JSON_ARRAY(x'cafe', b'1', 1.50, JSON_OBJECT())",
        "JSON_OBJECT('long', REPEAT('x', 70000), 'n', JSON_ARRAY(100000, -100000))",
    ]
)


@dataclass(frozen=True)
class Story:
    """The documents of some rows, `width` in each, and the UPDATE statements that follow."""

    compressed: bool
    width: int
    rows: tuple[tuple[Json, ...], ...]
    updates: tuple[Sql, ...]


def _as_json(value: Json) -> Sql:
    return f"CAST({quoted(json.dumps(value, ensure_ascii=False))} AS JSON)"


@st.composite
def _paths(draw: st.DrawFn, document: Json) -> str:
    """A path of at least one leg to somewhere in `document`, or close by.

    What is no array counts as one of itself, where a path has a cell of it.
    """
    path, inner = "$", document
    while path == "$" or draw(st.booleans()):
        if draw(st.sampled_from([isinstance(inner, dict)] * 7 + [not isinstance(inner, dict)])):
            members = inner if isinstance(inner, dict) else {}
            key = draw(st.sampled_from(sorted(members)) | _KEYS) if members else draw(_KEYS)
            path += "." + json.dumps(key, ensure_ascii=draw(st.booleans()))
            inner = members.get(key)
        else:
            cells = inner if isinstance(inner, list) else [inner]
            number = draw(st.integers(0, len(cells) + 1))
            from_end = draw(st.booleans())
            path += f"[last-{number}]" if from_end else f"[{number}]"
            inner = cells[-1 - number if from_end else number] if number < len(cells) else None
    return path


@st.composite
def _changes(draw: st.DrawFn, column: Sql, document: Json) -> Sql:
    """An expression that makes the new value of `column`, which has had `document` in it."""
    value = _SQL_VALUES | (_SCALARS | _DOCUMENTS).map(_as_json)
    made = column
    for _ in range(draw(st.integers(1, 3))):
        function = draw(st.sampled_from(_FUNCTIONS))
        arguments = []
        for _ in range(draw(st.integers(1, 3))):
            cell = "[0]" if function == "ARRAY_INSERT" else ""
            arguments.append(quoted(draw(_paths(document)) + cell))
            if function != "REMOVE":
                arguments.append(draw(value))
        made = f"JSON_{function}({made}, {', '.join(arguments)})"
    return made


@st.composite
def _updates(draw: st.DrawFn, width: int, rows: Sequence[Sequence[Json]]) -> Sql:
    number = draw(st.integers(0, len(rows) - 1))
    columns = draw(st.lists(st.integers(0, width - 1), min_size=1, max_size=3, unique=True))
    changes = [f"c{index} = {draw(_changes(f'c{index}', rows[number][index]))}" for index in columns]
    changes += draw(st.sampled_from([[], [], [], ["n = n + 1"], ["c0 = NULL"], ["c0 = '{\"a\": [1, 2]}'"]]))
    return f"UPDATE t SET {', '.join(changes)} WHERE id {draw(st.sampled_from(['=', '=', '>=']))} {number}"


@st.composite
def stories(draw: st.DrawFn) -> Story:
    width = draw(st.sampled_from([1, 2, 2, 9]))
    rows = draw(st.lists(st.tuples(*[_DOCUMENTS] * min(width, 2)), min_size=1, max_size=4))
    # With nine columns the bits need a second byte; the last ones have the documents of the first.
    wide = tuple((row * 5)[:width] for row in rows)
    return Story(draw(st.booleans()), width, wide, tuple(draw(st.lists(_updates(width, wide), min_size=1, max_size=6))))


@given(story=stories())
@settings(
    # Every example is a conversation with a server of a tenth of a second.
    max_examples=settings().max_examples // 2,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_documents_changed_in_part_are_what_is_selected(mysql_server: OracleMysql, story: Story) -> None:
    server = MysqlServer(mysql_server.host, mysql_server.port, mysql_server.user, mysql_server.password)
    columns = ", ".join(f"c{index} JSON" for index in range(story.width))
    rows = (f"({number}, 0, {', '.join(map(_as_json, row))})" for number, row in enumerate(story.rows))
    names = ", ".join(f"c{index}" for index in range(story.width))

    events = _logged(
        server,
        f"SET binlog_transaction_compression = {story.compressed}",
        f"CREATE TABLE t (id INT PRIMARY KEY, n INT, {columns}, made JSON AS (JSON_EXTRACT(c0, '$.a')) STORED)",
        f"INSERT INTO t (id, n, {names}) VALUES {', '.join(rows)}",
        *story.updates,
    )

    assert all(event.partial == (event.op is Op.UPDATE) for event in events)
    assert any(event.inside for event in events) == story.compressed
    assert _replayed(server, events) == _selected(server)


def test_what_is_not_changed_is_in_the_log_once(mysql_server: OracleMysql) -> None:
    server = MysqlServer(mysql_server.host, mysql_server.port, mysql_server.user, mysql_server.password)

    events = _logged(
        server,
        "CREATE TABLE t (id INT PRIMARY KEY, n INT, a JSON, b JSON)",
        "INSERT INTO t VALUES (1, 0, JSON_OBJECT('text', REPEAT('a', 9000), 'k', 1), NULL)",
        "UPDATE t SET a = JSON_SET(a, '$.k', 2.50, '$.new', DATE'2024-02-29')",
        "UPDATE t SET n = 1",
        "UPDATE t SET b = a",
        "UPDATE t SET a = NULL, b = JSON_REMOVE(b, '$.text')",
    )

    assert [round(len(event.payload) / 9000) for event in events] == [1, 1, 1, 2, 2]
    assert _replayed(server, events) == _selected(server)
    assert _selected(server)[1]["b"] == '{"k": 2.50, "new": "2024-02-29"}'


def test_bytes_in_documents_are_printed_with_the_line_breaks_of_the_server(mysql_server: OracleMysql) -> None:
    server = MysqlServer(mysql_server.host, mysql_server.port, mysql_server.user, mysql_server.password)
    lengths = (0, 1, 56, 57, 58, 114, 115, 400)

    events = _logged(
        server,
        "CREATE TABLE t (id INT PRIMARY KEY, j JSON)",
        *(f"INSERT INTO t VALUES ({n}, JSON_ARRAY(1, CAST(REPEAT('a', {n}) AS BINARY)))" for n in lengths),
        "UPDATE t SET j = JSON_ARRAY(j, b'1', CAST(CONCAT(id) AS BINARY(60)))",
        "UPDATE t SET j = JSON_SET(j, '$[2]', x'cafe')",
    )

    assert events[-1].partial
    assert _replayed(server, events) == _selected(server)


def test_tables_without_json_are_read_too(mysql_server: OracleMysql) -> None:
    server = MysqlServer(mysql_server.host, mysql_server.port, mysql_server.user, mysql_server.password)

    events = _logged(
        server,
        "CREATE TABLE t (id INT PRIMARY KEY, n INT, name TEXT)",
        "INSERT INTO t VALUES (1, 0, 'one'), (2, NULL, NULL), (3, 3, REPEAT('three', 2000))",
        "UPDATE t SET n = id, name = CONCAT('new ', name)",
    )

    assert {(event.op, event.partial) for event in events} == {(Op.CREATE, False), (Op.UPDATE, True)}
    assert _replayed(server, events) == _selected(server)


def test_with_minimal_images_all_is_carried_but_differences_to_what_is_not_logged(mysql_server: OracleMysql) -> None:
    server = MysqlServer(mysql_server.host, mysql_server.port, mysql_server.user, mysql_server.password)
    events = _logged(
        server,
        "CREATE TABLE t (id INT PRIMARY KEY, n INT, j JSON, k JSON)",
        "INSERT INTO t VALUES (1, 0, JSON_OBJECT('a', REPEAT('x', 50)), JSON_OBJECT('a', REPEAT('x', 50), 'b', 1))",
        "SET binlog_row_image = MINIMAL",
        "UPDATE t SET n = 1",
        "UPDATE t SET j = JSON_ARRAY(1)",
        "UPDATE t SET n = 2, k = JSON_SET(k, '$.b', 2)",
    )
    with closing(connect(server)) as connection:
        schema = replace(read_tables(connection, [_TABLE])[_TABLE], partial_rows=True)

    first, second = (decode_rows(schema, [event]).after for event in events[1:3])

    assert [event.partial for event in events[1:]] == [True] * 3
    assert first is not None
    assert second is not None
    assert first.to_pylist() == [{"id": 1, "n": 1, "j": None, "k": None}]
    assert second.to_pylist() == [{"id": 1, "n": None, "j": "[1]", "k": None}]
    with pytest.raises(TableStoppedError, match="without the document from before") as caught:
        decode_rows(schema, [events[3]])
    assert caught.value.column == "k"


def test_with_minimal_images_differences_are_carried_where_the_whole_row_is_logged_before(
    mysql_server: OracleMysql,
) -> None:
    server = MysqlServer(mysql_server.host, mysql_server.port, mysql_server.user, mysql_server.password)
    events = _logged(
        server,
        "SET binlog_row_image = MINIMAL",
        "CREATE TABLE t (id INT, j JSON)",
        "INSERT INTO t VALUES (1, JSON_OBJECT('a', REPEAT('x', 50), 'b', 1))",
        "UPDATE t SET j = JSON_SET(j, '$.b', 2)",
    )

    assert events[1].partial
    assert _replayed(server, events) == _selected(server)


def _logged(server: MysqlServer, *statements: Sql) -> list[RowsLogged]:
    """Run `statements` in a database of their own, in one session; return the rows that they log."""
    with closing(connect(server)) as connection, connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {_TABLE.schema}")
        cursor.execute(f"CREATE DATABASE {_TABLE.schema} CHARACTER SET utf8mb4")
        connection.select_db(_TABLE.schema)
        cursor.execute("SET binlog_row_value_options = 'PARTIAL_JSON', autocommit = 1")
        begin = head(connection)
        for statement in statements:
            cursor.execute(statement)
    stream = open_binlog(server, begin, _SERVER_ID, lambda table: table == _TABLE, Stop.END_OF_LOG)
    events = []
    with closing(stream):
        while not stream.at_end():
            events += [item for item in one_by_one(stream.read(5)) if isinstance(item, RowsLogged)]
    return events


def _replayed(server: MysqlServer, events: Sequence[RowsLogged]) -> dict[int, dict[str, Any]]:
    """Apply the decoded changes, each to the row that its image from before must be."""
    with closing(connect(server)) as connection:
        schema = read_tables(connection, [_TABLE])[_TABLE]
    found: dict[int, dict[str, Any]] = {}
    for event in events:
        batch = decode_rows(schema, [event])
        for row in batch.before.to_pylist() if batch.before is not None else []:
            assert found.pop(row["id"]) == row
        for row in batch.after.to_pylist() if batch.after is not None else []:
            found[row["id"]] = row
    return found


def _selected(server: MysqlServer) -> dict[int, dict[str, Any]]:
    """What the server prints itself of every document."""
    with closing(connect(server)) as connection, connection.cursor(DictCursor) as cursor:
        columns = read_tables(connection, [_TABLE])[_TABLE].columns
        printed = (f"CAST({column.name} AS CHAR) AS {column.name}" for column in columns if _is_json(column))
        plain = (column.name for column in columns if not _is_json(column))
        cursor.execute(f"SELECT {', '.join([*plain, *printed])} FROM {_TABLE}")
        return {row["id"]: row for row in cursor.fetchall()}


def _is_json(column: Column) -> bool:
    return column.type == PrintedType("json")
