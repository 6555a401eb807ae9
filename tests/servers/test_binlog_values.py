"""Every type's values, as a real server logs them, equal to what it answers to a SELECT."""

from __future__ import annotations

import random
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Literal

import pytest
from tests.servers.sessions import log_in
from tests.servers.source_log import here
from tests.unit.mysql_log.single_items import one_by_one

from penstock.adapters.mysql.binlog_stream import open_binlog
from penstock.adapters.mysql.connection import MysqlServer
from penstock.core.changes import Op
from penstock.core.errors import TableStoppedError
from penstock.core.mysql.rows import decode
from penstock.core.mysql.rows.decode import decode_rows
from penstock.core.mysql.types.logged_rows import RowsLogged
from penstock.core.tables import (
    BytesType,
    Column,
    ColumnType,
    DateTimeType,
    DateType,
    DecimalType,
    EnumType,
    FloatType,
    IntegerType,
    TableId,
    TableSchema,
    TextType,
    TimestampType,
    YearType,
)
from penstock.ports.log import Stop

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pymysql

    from penstock.core.changes import RowBatch
    from penstock.core.positions import BinlogPosition
    from penstock.embedded.mariadb import MariadbServer

WIDE = Context(prec=100)
SERVER_ID = 901_001
Value = object

_INTEGERS: dict[str, Literal[8, 16, 24, 32, 64]] = {
    "tinyint": 8,
    "smallint": 16,
    "mediumint": 24,
    "int": 32,
    "bigint": 64,
}
TYPES: dict[str, ColumnType] = {
    **{name: IntegerType(bits, unsigned=False) for name, bits in _INTEGERS.items()},
    **{f"{name} unsigned": IntegerType(bits, unsigned=True) for name, bits in _INTEGERS.items()},
    **{f"decimal({p},{s})": DecimalType(p, s) for p, s in ((1, 0), (5, 2), (18, 0), (18, 18), (19, 9), (38, 10))},
    **{f"decimal({p},{s})": DecimalType(p, s) for p, s in ((38, 38), (65, 30), (65, 0), (9, 9), (10, 1))},
    "float": FloatType(32),
    "double": FloatType(64),
    "char(10)": TextType(10, "utf8mb4"),
    "char(10) character set utf8mb3": TextType(10, "utf8mb3"),
    "char(200)": TextType(200, "utf8mb4"),
    "varchar(63)": TextType(63, "utf8mb4"),
    "varchar(64)": TextType(64, "utf8mb4"),
    "varchar(30) character set ascii": TextType(30, "ascii"),
    "varchar(30) character set latin1": TextType(30, "latin1"),
    "tinytext": TextType(63, "utf8mb4"),
    "text": TextType(16_000, "utf8mb4"),
    "mediumtext": TextType(70_000, "utf8mb4"),
    "longtext": TextType(70_000, "utf8mb4"),
    "binary(5)": BytesType(5, fixed=True),
    "binary(255)": BytesType(255, fixed=True),
    "varbinary(20)": BytesType(20, fixed=False),
    "varbinary(3000)": BytesType(3000, fixed=False),
    "tinyblob": BytesType(255, fixed=False),
    "blob": BytesType(65_535, fixed=False),
    "mediumblob": BytesType(70_000, fixed=False),
    "longblob": BytesType(70_000, fixed=False),
    "date": DateType(),
    **{f"datetime({digits})": DateTimeType(digits) for digits in range(7)},
    **{f"timestamp({digits})": TimestampType(digits) for digits in range(7)},
    "year": YearType(),
    "enum('a','bé','c,d','x''y')": EnumType(("a", "bé", "c,d", "x'y")),
    "enum(" + ",".join(f"'{number}'" for number in range(300)) + ")": EnumType(tuple(map(str, range(300)))),
}


def schema_of(table: TableId) -> TableSchema:
    key = Column("id", IntegerType(64, unsigned=True), nullable=False)
    columns = (Column(f"c{index}", type_, nullable=True) for index, type_ in enumerate(TYPES.values()))
    return TableSchema(table, (key, *columns), ("id",))


@pytest.fixture
def cursor(mariadb: MariadbServer) -> object:
    with closing(connected(mariadb)) as connection, connection.cursor() as cursor:
        yield cursor


def connected(server: MariadbServer) -> pymysql.Connection:
    return log_in(server, charset="utf8mb4", init_command="SET time_zone = '+00:00'")


def rows_since(server: MariadbServer, begin: BinlogPosition, table: TableId) -> list[RowsLogged]:
    target = MysqlServer(server.host, server.port, server.user, server.password)
    with closing(open_binlog(target, begin, SERVER_ID, lambda seen: seen == table, Stop.END_OF_LOG)) as stream:
        items: list[object] = []
        while not stream.at_end():
            items += one_by_one(stream.read(5))
    return [item for item in items if isinstance(item, RowsLogged)]


def decode_both_ways(schema: TableSchema, events: Sequence[RowsLogged], monkeypatch: pytest.MonkeyPatch) -> RowBatch:
    monkeypatch.setattr(decode, "_PLAIN_BYTES_MAX", 1 << 40)
    plain = decode_rows(schema, events)
    monkeypatch.setattr(decode, "_PLAIN_BYTES_MAX", -1)
    columns = decode_rows(schema, events)
    for image in (plain.before, plain.after, columns.before, columns.after):
        if image is not None:
            image.validate(full=True)
    assert (plain.before, plain.after) == (columns.before, columns.after)
    return columns


def test_every_value_is_the_one_that_the_server_selects(
    mariadb: MariadbServer, fresh_database: str, cursor: pymysql.cursors.Cursor, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = TableId(fresh_database, "everything")
    schema = schema_of(table)
    declared = ", ".join(f"c{index} {sql} null" for index, sql in enumerate(TYPES))
    cursor.execute(f"CREATE TABLE {table} (id bigint unsigned primary key, {declared}) CHARACTER SET utf8mb4")
    begin = here(cursor)
    rng = random.Random(7)  # noqa: S311 - values, not secrets
    rows = [[key, *(value_of(type_, rng) for type_ in TYPES.values())] for key in [*range(1, 60), 2**64 - 1]]

    holes = ", ".join(["%s"] * len(schema.columns))
    for at in range(0, len(rows), 20):
        values = ", ".join([f"({holes})"] * len(rows[at : at + 20]))
        cursor.execute(f"INSERT INTO {table} VALUES {values}", [value for row in rows[at : at + 20] for value in row])
    inserted = selected(cursor, schema)
    cursor.execute(f"UPDATE {table} SET c0 = IF(c0 = 5, 6, 5)")
    updated = selected(cursor, schema)
    cursor.execute(f"DELETE FROM {table}")
    events = rows_since(mariadb, begin, table)

    batches = {
        op: decode_both_ways(schema, [event for event in events if event.op is op], monkeypatch)
        for op in (Op.CREATE, Op.UPDATE, Op.DELETE)
    }
    images = {
        "inserted": batches[Op.CREATE].after,
        "before the update": batches[Op.UPDATE].before,
        "after the update": batches[Op.UPDATE].after,
        "deleted": batches[Op.DELETE].before,
    }
    expected = {"inserted": inserted, "before the update": inserted, "after the update": updated, "deleted": updated}
    for name, image in images.items():
        assert image is not None
        for index, column in enumerate(schema.columns):
            got = image.column(index).to_pylist()
            assert got == [row[index] for row in expected[name]], (name, column)
    assert events[0].table_map.unsigned == tuple(
        isinstance(column.type, YearType) or getattr(column.type, "unsigned", False) for column in schema.columns
    )


def selected(cursor: pymysql.cursors.Cursor, schema: TableSchema) -> list[list[object]]:
    """All rows in key order, as Python values. A FLOAT is asked for as DOUBLE: it is printed with six digits."""
    names = [f"{c.name} * 1e0" if c.type == FloatType(32) else c.name for c in schema.columns]
    cursor.execute(f"SELECT {', '.join(names)} FROM {schema.table} ORDER BY id")
    return [
        [in_utc(column, value) for column, value in zip(schema.columns, row, strict=True)] for row in cursor.fetchall()
    ]


def in_utc(column: Column, value: object) -> object:
    is_instant = isinstance(column.type, TimestampType) and isinstance(value, datetime)
    return value.replace(tzinfo=UTC) if is_instant else value  # type: ignore[attr-defined]


def value_of(type_: ColumnType, rng: random.Random) -> Value:  # noqa: C901, PLR0911 - one return per member of the union
    if rng.random() < 0.1:
        return None
    fraction = getattr(type_, "fraction_digits", 0)
    tail = "." + "".join(rng.choices("0159", k=fraction)) if fraction else ""
    match type_:
        case IntegerType(bits, unsigned):
            low = 0 if unsigned else -(2 ** (bits - 1))
            return rng.choice([low, low + 2**bits - 1, 0, 1, rng.randint(low, low + 2**bits - 1)])
        case DecimalType(precision, scale):
            largest = 10**precision - 1
            number = rng.choice([0, largest, -largest, 1, -1, rng.randint(-largest, largest)])
            return Decimal(number).scaleb(-scale, WIDE)
        case FloatType():
            return rng.choice([0.0, 1.5, -2.25, 3.25e10, -1e-5, rng.random()])
        case TextType(characters, charset):
            alphabet = {"ascii": "ab ~", "latin1": "aé€ÿŽ ", "utf8mb3": "aé€ "}.get(charset, "aé€😀 ")
            return "".join(rng.choices(alphabet, k=rng.choice([0, 1, 5, min(characters, 300), characters])))
        case BytesType(width):
            return bytes(rng.choices([0, 1, 65, 255], k=rng.choice([0, 1, 4, min(width, 300), width])))
        case DateType():
            return rng.choice(["0001-01-01", "1000-01-01", "9999-12-31", "2024-02-29", "1900-02-28", "1969-12-31"])
        case DateTimeType():
            return rng.choice(["0001-01-01 00:00:00", "9999-12-31 23:59:59", "2024-02-29 12:34:56"]) + tail
        case TimestampType():
            return rng.choice(["1970-01-01 00:00:01", "2038-01-19 03:14:07", "2024-02-29 12:34:56"]) + tail
        case YearType():
            return rng.choice([0, 1901, 2155, 2024])
        case EnumType(labels):
            return rng.choice(labels)
        case _:
            raise AssertionError(type_)


@pytest.mark.parametrize(
    "case",
    [
        ("date", DateType(), "'0000-00-00'", "0000-00-00 is no date"),
        ("date", DateType(), "'2024-00-10'", "2024-00-10 is no date"),
        ("datetime(3)", DateTimeType(3), "'2024-02-00 10:00:00'", "2024-02-00 is no date"),
        ("timestamp(6) null", TimestampType(6), "'0000-00-00 00:00:00'", "zero timestamp"),
    ],
)
def test_a_value_that_is_none_stops_its_table(
    mariadb: MariadbServer,
    fresh_database: str,
    cursor: pymysql.cursors.Cursor,
    case: tuple[str, ColumnType, str, str],
) -> None:
    sql, type_, literal, reason = case
    table = TableId(fresh_database, "zeros")
    cursor.execute(f"CREATE TABLE {table} (v {sql})")
    begin = here(cursor)
    cursor.execute("SET sql_mode = ''")

    cursor.execute(f"INSERT IGNORE INTO {table} VALUES (NULL), ({literal})")
    events = rows_since(mariadb, begin, table)

    with pytest.raises(TableStoppedError, match=reason) as caught:
        decode_rows(TableSchema(table, (Column("v", type_, nullable=True),), ()), events)
    assert caught.value.position == f"{events[0].file}:{events[0].offset} row 1"


def test_values_in_the_temporal_format_from_before_mysql_5_6_are_read(
    mariadb: MariadbServer, fresh_database: str, cursor: pymysql.cursors.Cursor, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = TableId(fresh_database, "old")
    cursor.execute("SET GLOBAL mysql56_temporal_format = 0")
    try:
        cursor.execute(f"CREATE TABLE {table} (a datetime, b timestamp null, c datetime(3))")
    finally:
        cursor.execute("SET GLOBAL mysql56_temporal_format = 1")
    begin = here(cursor)
    cursor.execute(f"INSERT INTO {table} VALUES ('2024-02-29 12:34:56', '2024-02-29 12:34:56', NULL)")
    events = rows_since(mariadb, begin, table)
    columns = (
        Column("a", DateTimeType(0), nullable=True),
        Column("b", TimestampType(0), nullable=True),
        Column("c", DateTimeType(3), nullable=True),
    )

    # With a fraction the old format has another length, which the log does not tell.
    with pytest.raises(TableStoppedError) as caught:
        decode_rows(TableSchema(table, columns, ()), events)
    assert caught.value.column == "c"

    cursor.execute(f"ALTER TABLE {table} DROP COLUMN c")
    begin = here(cursor)
    cursor.execute(f"INSERT INTO {table} VALUES ('2024-02-29 12:34:56', '2024-02-29 12:34:56')")
    events = rows_since(mariadb, begin, table)
    batch = decode_both_ways(TableSchema(table, columns[:2], ()), events, monkeypatch)

    time = datetime(2024, 2, 29, 12, 34, 56, tzinfo=UTC)
    assert batch.after is not None
    assert batch.after.to_pylist() == [{"a": time.replace(tzinfo=None), "b": time}]


def test_rows_without_all_columns_stop_their_table(
    mariadb: MariadbServer, fresh_database: str, cursor: pymysql.cursors.Cursor
) -> None:
    table = TableId(fresh_database, "minimal")
    cursor.execute(f"CREATE TABLE {table} (a int primary key, b int)")
    integer = IntegerType(32, unsigned=False)
    schema = TableSchema(table, (Column("a", integer, nullable=False), Column("b", integer, nullable=True)), ("a",))
    cursor.execute(f"INSERT INTO {table} VALUES (1, 2)")
    begin = here(cursor)
    cursor.execute("SET binlog_row_image = MINIMAL")

    cursor.execute(f"UPDATE {table} SET b = 3")
    events = rows_since(mariadb, begin, table)

    with pytest.raises(TableStoppedError, match="without all of their columns"):
        decode_rows(schema, events)


def test_a_column_that_the_schema_does_not_know_stops_its_table(
    mariadb: MariadbServer, fresh_database: str, cursor: pymysql.cursors.Cursor
) -> None:
    table = TableId(fresh_database, "grown")
    cursor.execute(f"CREATE TABLE {table} (a int)")
    schema = TableSchema(table, (Column("a", IntegerType(32, unsigned=False), nullable=True),), ())
    begin = here(cursor)
    cursor.execute(f"INSERT INTO {table} VALUES (1)")
    cursor.execute(f"ALTER TABLE {table} MODIFY a int unsigned")
    cursor.execute(f"INSERT INTO {table} VALUES (2)")
    cursor.execute(f"ALTER TABLE {table} CHANGE a b int")
    cursor.execute(f"INSERT INTO {table} VALUES (3)")
    cursor.execute(f"ALTER TABLE {table} ADD c int")
    cursor.execute(f"INSERT INTO {table} VALUES (4, 5)")
    first, *others = rows_since(mariadb, begin, table)

    assert len(decode_rows(schema, [first])) == 1
    for event, reason in zip(others, ("type code 3", "has the columns b", "has 2 columns"), strict=True):
        with pytest.raises(TableStoppedError, match=reason):
            decode_rows(schema, [replace(event)])
