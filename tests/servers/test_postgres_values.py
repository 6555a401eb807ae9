"""Every type of PostgreSQL: what the log and a copy say of values, against what was written."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from tests.servers.postgres_source_case import SourceDatabase, source_database

from penstock.adapters.postgres.source.catalog import read_types
from penstock.core.errors import TableStoppedError
from penstock.core.postgres.log_items import RowLogged, RowsLogged, ShortTransactions
from penstock.core.postgres.rows import RowDecoder
from penstock.core.tables import (
    BytesType,
    ColumnType,
    DateTimeType,
    DateType,
    DecimalType,
    FloatType,
    IntegerType,
    PrintedType,
    TableId,
    TextType,
    TimestampType,
    TimeType,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.core.postgres.log_items import PostgresItem
    from penstock.dev.postgres import PostgresServer

_INT = IntegerType
_TEXT = TextType(1 << 30, "utf8mb4")
_JSON, _PRINTED = PrintedType("json"), PrintedType("postgres")
_NOON = dt.datetime(2024, 2, 29, 12, 0, 0, 123456)  # noqa: DTZ001 - without a zone
_UTC = dt.UTC

TYPES: list[tuple[str, ColumnType, list[str], list[object]]] = [
    ("boolean", _INT(8, unsigned=False), ["true", "false"], [1, 0]),
    ("smallint", _INT(16, unsigned=False), ["-32768", "32767"], [-32768, 32767]),
    ("integer", _INT(32, unsigned=False), ["-2147483648", "7"], [-2147483648, 7]),
    ("bigint", _INT(64, unsigned=False), ["-9223372036854775808"], [-(2**63)]),
    ("oid", _INT(32, unsigned=True), ["4294967295"], [4294967295]),
    ("real", FloatType(32), ["1.5", "'-Infinity'", "1e-40"], [1.5, -math.inf, 9.99994610111476e-41]),
    ("double precision", FloatType(64), ["0.1", "'Infinity'", "5e-324"], [0.1, math.inf, 5e-324]),
    ("numeric(10,2)", DecimalType(10, 2), ["12345678.90", "-0.01"], [Decimal("12345678.90"), Decimal("-0.01")]),
    ("numeric(50,20)", DecimalType(50, 20), ["1e29"], [Decimal("1e29")]),
    ("numeric(4,-2)", DecimalType(6, 0), ["123456"], [Decimal(123500)]),
    ("numeric(2,4)", DecimalType(4, 4), ["0.0099"], [Decimal("0.0099")]),
    ("numeric(90,2)", _PRINTED, ["1.5"], ["1.50"]),
    ("numeric", _PRINTED, ["1e40", "'NaN'", "'-Infinity'"], ["1" + "0" * 40, "NaN", "-Infinity"]),
    ("money", _PRINTED, ["12.5"], ["$12.50"]),
    ("text", _TEXT, ["''", r"E'a\tb\\c\nd\r'", "'\U0001f600'"], ["", "a\tb\\c\nd\r", "\U0001f600"]),
    ("varchar(5)", TextType(5, "utf8mb4"), ["'ab '"], ["ab "]),
    ("varchar", _TEXT, ["'ab'"], ["ab"]),
    ("char(5)", TextType(5, "utf8mb4"), ["'ab'"], ["ab   "]),
    ('"char"', TextType(1, "utf8mb4"), ["'x'"], ["x"]),
    ("name", TextType(63, "utf8mb4"), ["'ab'"], ["ab"]),
    ("bytea", BytesType(1 << 30, fixed=False), [r"'\x00ff5c'", "''"], [b"\x00\xff\\", b""]),
    ("uuid", PrintedType("uuid"), ["'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'"], ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]),
    ("json", _JSON, ["'{\"a\":  1}'"], ['{"a":  1}']),
    ("jsonb", _JSON, ['\'{"b":1,  "a":[null]}\''], ['{"a": [null], "b": 1}']),
    ("date", DateType(), ["'0001-01-01'", "'9999-12-31'"], [dt.date.min, dt.date.max]),
    (
        "time",
        TimeType(6),
        ["'24:00'", "'01:02:03.000004'"],
        [dt.timedelta(days=1), dt.timedelta(hours=1, minutes=2, seconds=3, microseconds=4)],
    ),
    ("time(0)", TimeType(0), ["'23:59:59.4'"], [dt.timedelta(hours=23, minutes=59, seconds=59)]),
    ("timetz", _PRINTED, ["'01:02:03+04:30'"], ["01:02:03+04:30"]),
    ("timestamp", DateTimeType(6), ["'2024-02-29 12:00:00.123456'"], [_NOON]),
    ("timestamp(3)", DateTimeType(3), ["'2024-02-29 12:00:00.123456'"], [_NOON.replace(microsecond=123000)]),
    ("timestamptz", TimestampType(6), ["'2024-02-29 14:00:00.123456+02'"], [_NOON.replace(tzinfo=_UTC)]),
    ("interval", _PRINTED, ["'1 year 2 mons -3 days 04:05:06.7'"], ["1 year 2 mons -3 days +04:05:06.7"]),
    ("inet", _PRINTED, ["'192.168.0.1/24'", "'::1'"], ["192.168.0.1/24", "::1"]),
    ("cidr", _PRINTED, ["'10.0.0.0/8'"], ["10.0.0.0/8"]),
    ("macaddr", _PRINTED, ["'08-00-2b-01-02-03'"], ["08:00:2b:01:02:03"]),
    ("bit(3)", _PRINTED, ["B'101'"], ["101"]),
    ("bit varying", _PRINTED, ["B'1'"], ["1"]),
    ("mood", TextType(63, "utf8mb4"), ["'sad'"], ["sad"]),
    ("amount", DecimalType(8, 3), ["1.5"], [Decimal("1.500")]),
    ("pair", _PRINTED, ["ROW(1, 'a b')"], ['(1,"a b")']),
    ("int4range", _PRINTED, ["'[1,5]'"], ["[1,6)"]),
    ("point", _PRINTED, ["'(1,2.5)'"], ["(1,2.5)"]),
    ("tsvector", _PRINTED, ["'a b'"], ["'a' 'b'"]),
    ("xml", _PRINTED, ["'<a/>'"], ["<a/>"]),
    ("integer[]", _JSON, ["'{{1,2},{3,NULL}}'"], ["[[1,2],[3,null]]"]),
    ("text[]", _JSON, [r"""ARRAY['a,b', 'c\d"e', NULL, 'NULL', '']"""], ['["a,b","c\\\\d\\"e",null,"NULL",""]']),
    ("boolean[]", _JSON, ["'{t,f}'"], ["[true,false]"]),
    ("numeric[]", _JSON, ["'{1.50,NaN}'"], ['[1.50,"NaN"]']),
    ("jsonb[]", _JSON, ["ARRAY['{\"a\": 1}'::jsonb]"], ['[{"a": 1}]']),
    ("timestamptz[]", _JSON, ["'{2024-01-01 00:00:00+00}'"], ['["2024-01-01 00:00:00+00"]']),
    ("box[]", _JSON, ["'{(1,1),(0,0);(2,2),(1,1)}'"], ['["(1,1),(0,0)","(2,2),(1,1)"]']),
    ("mood[]", _JSON, ["'{sad}'"], ['["sad"]']),
]
"""A type, what carries it, values as SQL has them, and as they arrive."""

_MADE = (
    "CREATE TYPE mood AS ENUM ('sad', 'ok')",
    "CREATE DOMAIN amount AS numeric(8,3)",
    "CREATE TYPE pair AS (a int, b text)",
)


@pytest.fixture
def source(postgres: PostgresServer, fresh_name: str) -> Iterator[SourceDatabase]:
    with source_database(postgres, fresh_name) as database:
        yield database


def _create(source: SourceDatabase) -> list[str]:
    """Make a table with a column for each type; return statements that write the values."""
    columns = ", ".join(f"c{number} {declared}" for number, (declared, *_) in enumerate(TYPES))
    source.execute(*_MADE, f"CREATE TABLE t (id serial PRIMARY KEY, {columns})")
    longest = max(len(literals) for _, _, literals, _ in TYPES)
    rows = [[values[row] if row < len(values) else "NULL" for _, _, values, _ in TYPES] for row in range(longest)]
    return [f"INSERT INTO t VALUES (DEFAULT, {', '.join(row)})" for row in rows]


def _expected() -> dict[str, list[object]]:
    longest = max(len(values) for *_, values in TYPES)
    return {f"c{n}": [*values, *[None] * (longest - len(values))] for n, (*_, values) in enumerate(TYPES)}


def _rows(item: PostgresItem) -> Sequence[RowLogged | RowsLogged]:
    match item:
        case RowLogged() | RowsLogged():
            return [item]
        case ShortTransactions():
            return item.rows
        case _:
            return []


def test_values_of_every_type_arrive_by_the_log_and_by_a_copy_as_they_were_written(source: SourceDatabase) -> None:
    inserts = _create(source)
    source.publish()
    source.execute(*inserts)

    with source.copy() as copy:
        table = TableId("public", "t")
        schema, start = copy.schemas[table], copy.position
        (copied,) = copy.rows(table, 1000)
    source.execute("TRUNCATE t", *inserts)
    stream = source.stream(start)
    rows = [row for item in source.read(stream) for row in _rows(item)]
    stream.close()
    (logged,) = RowDecoder.of(schema, rows[0].relation, read_types(source.connection)).decode(rows)

    assert [column.type for column in schema.columns[1:]] == [type_ for _, type_, *_ in TYPES]
    for batch in (copied, logged):
        assert batch.after is not None
        assert {name: values for name, values in batch.after.to_pydict().items() if name != "id"} == _expected()


@pytest.mark.parametrize(
    ("declared", "value", "reason"),
    [
        ("numeric(5,2)", "'NaN'", "no decimal number"),
        ("date", "'infinity'", "1 to 9999"),
        ("timestamptz", "'0044-03-15 BC'", "1 to 9999"),
        ("int[]", "'[0:1]={1,2}'", "does not begin at 1"),
    ],
)
def test_a_value_that_cannot_be_carried_stops_its_table_with_a_reason(
    source: SourceDatabase, declared: str, value: str, reason: str
) -> None:
    source.execute(f"CREATE TABLE t (id int PRIMARY KEY, v {declared})", f"INSERT INTO t VALUES (1, {value})")
    source.publish()

    with source.copy() as copy, pytest.raises(TableStoppedError, match=reason) as stopped:
        list(copy.rows(TableId("public", "t"), 1000))

    assert stopped.value.column == "v"
