"""Types with values at their limits, and the SQL by which each side shows a value so that nothing hides."""

from __future__ import annotations

import datetime as dt
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Shown:
    """How a column `{c}` is selected on either side: as text, bytes in hexadecimal, times in microseconds."""

    source: str
    target: str


NUMBER: Final = Shown("{c} + 0", "{c}")
FLOAT: Final = Shown("CAST({c} AS DOUBLE)", "CAST({c} AS DOUBLE)")
TEXT: Final = Shown("HEX(CONVERT({c} USING utf8mb4))", "hex({c})")
BYTES: Final = Shown("HEX({c})", "hex({c})")
PRINTED: Final = Shown("CAST({c} AS CHAR)", "CAST({c} AS VARCHAR)")
TIME: Final = Shown("{c}", "epoch_us({c})")
DATETIME: Final = Shown("DATE_FORMAT({c}, '%Y-%m-%d %H:%i:%s.%f')", "strftime({c}, '%Y-%m-%d %H:%M:%S.%f')")
TIMESTAMP: Final = Shown("CAST(TRUNCATE(UNIX_TIMESTAMP({c}) * 1000000, 0) AS CHAR)", "CAST(epoch_us({c}) AS VARCHAR)")
GEOMETRY: Final = Shown("CONCAT('geometry ', HEX({c}))", "'ewkb ' || hex({c})")
VECTOR: Final = Shown("CONCAT('vector ', HEX({c}))", "{c}")
JSON: Final = Shown("HEX(CONVERT(CAST({c} AS CHAR) USING utf8mb4))", "hex(CAST({c} AS VARCHAR))")


@dataclass(frozen=True, slots=True)
class Values:
    """What is written into columns of one type, as SQL literals, and how they are shown.

    `default` is what a new column gives to existing rows; "" where only the
    source knows it, because it prints it inexactly or has none.
    """

    shown: Shown
    literals: tuple[str, ...]
    default: str = ""


_LABELS: Final = tuple(f"label {number}" for number in range(64))
MANY_LABELS: Final = f"set({','.join(map(repr, _LABELS))})"
_TIMES: Final = (
    "'720:00:00'", "'744:00:00'", "'-720:00:00'", "'24:00:00'", "'00:00:00'", "'-00:00:01'", "'838:59:59'",
    "'-838:59:59'", "'30:00:00'",
)  # fmt: skip
_FINE_TIMES: Final = (
    "'720:00:00.000000'", "'720:00:00.000001'", "'744:00:00'", "'-00:00:00.000001'", "'838:59:58.999999'",
    "'-838:59:58.999999'", "'00:00:00'",
)  # fmt: skip
_ENUM: Final = "enum('a','é','x y','日本','it''s','')"
_MOMENTS: Final = ("'1000-01-01 00:00:00'", "'9999-12-31 23:59:59.999999'", "'0001-01-01 00:00:00.5'")

COMMON: Final[dict[str, Values]] = {
    "boolean": Values(NUMBER, ("0", "1", "-1"), "1"),
    "tinyint": Values(NUMBER, ("-128", "127"), "-128"),
    "tinyint unsigned": Values(NUMBER, ("0", "255"), "255"),
    "smallint": Values(NUMBER, ("-32768", "32767"), "-32768"),
    "smallint unsigned": Values(NUMBER, ("0", "65535"), "65535"),
    "mediumint": Values(NUMBER, ("-8388608", "8388607"), "-8388608"),
    "mediumint unsigned zerofill": Values(NUMBER, ("0", "16777215"), "7"),
    "int": Values(NUMBER, ("-2147483648", "2147483647"), "-2147483648"),
    "int unsigned": Values(NUMBER, ("0", "4294967295"), "4294967295"),
    "bigint": Values(NUMBER, ("-9223372036854775808", "9223372036854775807"), "-9223372036854775808"),
    "bigint unsigned": Values(NUMBER, ("0", "18446744073709551615"), "18446744073709551615"),
    "decimal(1,0)": Values(NUMBER, ("-9", "9", "0"), "-9"),
    "decimal(18,4)": Values(NUMBER, ("-99999999999999.9999", "0.0001"), "-0.5"),
    "decimal(30,30)": Values(NUMBER, ("-0." + "9" * 30, "0." + "0" * 29 + "1"), "0." + "0" * 29 + "1"),
    "decimal(38,10)": Values(
        NUMBER, ("-" + "9" * 28 + "." + "9" * 10, "9" * 28 + "." + "9" * 10, "0"), "-" + "9" * 28 + "." + "9" * 10
    ),
    "float": Values(FLOAT, ("-3.4028234e38", "1.1754944e-38", "-0e0", "0.1"), "0.1"),
    "double": Values(
        FLOAT, ("-1.7976931348623157e308", "2.2250738585072014e-308", "-0e0", "0.1"), "-1.7976931348623157e308"
    ),
    "bit(1)": Values(NUMBER, ("b'0'", "b'1'"), "b'1'"),
    "bit(8)": Values(NUMBER, ("b'0'", "b'11111111'"), "b'10000001'"),
    "bit(20)": Values(NUMBER, ("0", "1048575"), "5"),
    "bit(33)": Values(NUMBER, ("0", "8589934591", "4294967296", "1"), "8589934591"),
    "bit(64)": Values(NUMBER, ("0", "18446744073709551615", "9223372036854775808", "1"), "18446744073709551615"),
    "date": Values(PRINTED, ("'1000-01-01'", "'9999-12-31'", "'0001-01-01'", "'2024-02-29'"), "'2024-02-29'"),
    "time": Values(TIME, _TIMES, "'-838:59:59'"),
    "time(3)": Values(TIME, ("'-838:59:58.999'", "'838:59:58.001'", "'720:00:00.000'"), "'720:00:00'"),
    "time(6)": Values(TIME, _FINE_TIMES, "'-838:59:58.999999'"),
    "datetime": Values(DATETIME, ("'1000-01-01 00:00:00'", "'9999-12-31 23:59:59'"), "'1000-01-01'"),
    "datetime(6)": Values(DATETIME, _MOMENTS, "'9999-12-31 23:59:59.999999'"),
    "timestamp null": Values(TIMESTAMP, ("'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'")),
    "timestamp(6) null": Values(TIMESTAMP, ("'1970-01-01 00:00:01.000001'", "'2038-01-19 03:14:07.999999'")),
    "year": Values(NUMBER, ("1901", "2155", "0"), "0"),
    "char(10)": Values(TEXT, ("''", "'日本🐬'", "' a'", "'NULL'"), "'NULL'"),
    "varchar(300)": Values(
        TEXT, ("''", "'it''s \\\\N \\0 🐬 '", "REPEAT('🐬', 300)"), "'it''s \\\\ \\n \\\"日本\\\" '"
    ),
    "varchar(20) character set latin1": Values(TEXT, ("'é€'", "''"), "'é€'"),
    "varchar(20) character set sjis": Values(TEXT, ("'日本ｱ'", "''"), "'日本ｱ'"),
    "char(5) character set utf16": Values(TEXT, ("'日本🐬'", "''"), "'日本'"),
    "tinytext": Values(TEXT, ("''", "REPEAT('x', 255)")),
    "text": Values(TEXT, ("''", "REPEAT('é', 30000)")),
    "mediumtext": Values(TEXT, ("''", "REPEAT('日', 30000)")),
    "longtext": Values(TEXT, ("''", "REPEAT('🐬', 70000)")),
    "binary(5)": Values(BYTES, ("''", "x'0001'", "x'ffffffffff'", "x'2020202020'")),
    "varbinary(300)": Values(BYTES, ("''", "x'00'", "REPEAT(x'ff', 300)")),
    "tinyblob": Values(BYTES, ("''", "REPEAT(x'00', 255)")),
    "blob": Values(BYTES, ("''", "REPEAT(x'00ff', 30000)")),
    "mediumblob": Values(BYTES, ("''", "REPEAT(x'27', 70000)")),
    "longblob": Values(BYTES, ("''", "REPEAT(x'5c', 70000)")),
    _ENUM: Values(TEXT, ("'a'", "'é'", "'it''s'", "''", "'日本'"), "'日本'"),
    # What is no label becomes the empty text, number 0.
    "enum('no','label')": Values(TEXT, ("'label'", "'anything'"), "'label'"),
    "set('a','é','it''s')": Values(TEXT, ("''", "'a'", "'a,é,it''s'", "'it''s,a'", "'é'"), "'é,it''s'"),
    MANY_LABELS: Values(
        TEXT, ("''", "18446744073709551615", "9223372036854775808", "'label 0,label 63'"), "'label 0,label 63'"
    ),
    "geometry": Values(GEOMETRY, ("ST_GeomFromText('POINT(1 2)', 4326)", "ST_GeomFromText('POINT(-1.5 0)')")),
    "point": Values(GEOMETRY, ("ST_GeomFromText('POINT(1 2)')",)),
    "linestring": Values(GEOMETRY, ("ST_GeomFromText('LINESTRING(0 0,1 1)')",)),
    "polygon": Values(GEOMETRY, ("ST_GeomFromText('POLYGON((0 0,0 5,5 5,0 0))')",)),
    "multipoint": Values(GEOMETRY, ("ST_GeomFromText('MULTIPOINT(1 2,3 4)')",)),
    "multilinestring": Values(GEOMETRY, ("ST_GeomFromText('MULTILINESTRING((0 0,1 1),(2 2,3 3))')",)),
    "multipolygon": Values(GEOMETRY, ("ST_GeomFromText('MULTIPOLYGON(((0 0,0 5,5 5,0 0)))')",)),
    "geometrycollection": Values(
        GEOMETRY, ("ST_GeomFromText('GEOMETRYCOLLECTION(POINT(1 2),LINESTRING(0 0,1 1))', 4326)",)
    ),
}
MARIADB: Final[dict[str, Values]] = COMMON | {
    # MySQL ends at 838:59:59.000000.
    "time(5)": Values(TIME, ("'838:59:59.99999'", "'-838:59:59.99999'"), "'838:59:59.99999'"),
    "time(6) /* MariaDB */": Values(TIME, ("'838:59:59.999999'", "'-838:59:59.999999'"), "'-838:59:59.999999'"),
    # Its defaults are printed well enough to know them.
    "tinytext": Values(TEXT, ("''", "REPEAT('x', 255)"), "'é'"),
    "longtext": Values(TEXT, ("''", "REPEAT('🐬', 70000)"), "'日本'"),
    "binary(5)": Values(BYTES, ("''", "x'0001'", "x'ffffffffff'", "x'2020202020'"), "'a '"),
    "varbinary(300)": Values(BYTES, ("''", "x'00'", "REPEAT(x'ff', 300)"), "x'0041'"),
    "longblob": Values(BYTES, ("''", "REPEAT(x'5c', 70000)"), "'it''s \\\\'"),
    "uuid": Values(
        PRINTED,
        (
            "'00000000-0000-0000-0000-000000000000'", "'FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF'",
            "'123e4567-e89b-12d3-a456-426614174000'", "'023e4567-e89b-12d3-a456-426614174001'",
        ),
        "'FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF'",
    ),
    "inet4": Values(PRINTED, ("'0.0.0.0'", "'255.255.255.255'", "'10.0.0.1'", "'9.0.0.1'"), "'10.0.0.1'"),
    "inet6": Values(
        PRINTED,
        ("'::'", "'::FFFF:1.2.3.4'", "'2001:db8::1'", "CONCAT(REPEAT('ffff:', 7), 'ffff')", "'::1'"),
        "'2001:DB8:0::0:1'",
    ),
    "json": Values(TEXT, ("""'{"b" : 1, "a": [1.50, null]}'""", "'null'"), """'{"a" : 1}'"""),
    "varchar(300) compressed": Values(TEXT, ("''", "REPEAT('é', 300)"), "'é'"),
    "longblob compressed": Values(BYTES, ("''", "REPEAT(x'00ff', 30000)")),
}  # fmt: skip
MYSQL: Final[dict[str, Values]] = COMMON | {
    "json": Values(
        JSON,
        (
            """'{"b": 1, "aa": [1.50, null, true, "\\\\u0000 it''s 日本 🐬 \\\\\\\\ \\\\""], "a": {}}'""",
            "'null'", "'[]'", "'18446744073709551615'", "'-0.0'", "'1e308'", "'\"\"'",
            "CAST(-99999999999999999999999999999999999.000000000000000000000000000001 AS JSON)",
            "CAST(TIME'-12:34:56.789' AS JSON)", "CAST(TIMESTAMP'2024-02-29 01:02:03.000004' AS JSON)",
            "JSON_ARRAY(x'cafe', b'1', 1.50)", "JSON_OBJECT('long', REPEAT('x', 70000))",
        ),
    ),
    "vector(5)": Values(
        VECTOR,
        (
            "STRING_TO_VECTOR('[1.5]')", "STRING_TO_VECTOR('[-3.4028234e38, 1.1754944e-38, -0.0, 0.1, 7]')",
            "STRING_TO_VECTOR('[0,0]')",
        ),
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Widening:
    """A column's type before and after ALTER TABLE, values that fit the narrow one, and one that fits the wide."""

    before: str
    after: str
    shown: Shown
    narrow: tuple[str, str]
    wide: str
    in_key: bool = True


WIDENINGS: Final = (
    Widening("TINYINT UNSIGNED", "SMALLINT", NUMBER, ("255", "0"), "-32768"),
    Widening("INT", "BIGINT", NUMBER, ("-2147483648", "7"), "9223372036854775807"),
    Widening("BIT(5)", "BIT(20)", NUMBER, ("b'10101'", "1"), "1048575"),
    Widening("BIT(20)", "BIT(64)", NUMBER, ("1048575", "2"), "18446744073709551615"),
    Widening("DECIMAL(8,2)", "DECIMAL(12,4)", NUMBER, ("-999999.99", "0.01"), "99999999.9999"),
    Widening("FLOAT", "DOUBLE", FLOAT, ("-3.4028234e38", "0.1"), "1e308", in_key=False),
    Widening("TIME", "TIME(3)", TIME, ("'-720:00:00'", "'720:00:00'"), "'-720:00:00.001'"),
    Widening(
        "DATETIME", "DATETIME(6)", DATETIME, ("'1000-01-01 00:00:00'", "'2024-02-29'"), "'9999-12-31 23:59:59.999999'"
    ),
    Widening(
        "TIMESTAMP NULL",
        "TIMESTAMP(3) NULL",
        TIMESTAMP,
        ("'2038-01-19 03:14:07'", "'2024-02-29'"),
        "'2024-02-29 00:00:00.001'",
    ),
    Widening("SET('a','b')", "SET('a','b','c')", TEXT, ("'a,b'", "''"), "'a,b,c'"),
    Widening("ENUM('a','b')", "ENUM('a','b','c')", TEXT, ("'a'", "'b'"), "'c'"),
    Widening(
        "VARCHAR(80) CHARACTER SET latin1",
        "VARCHAR(300) CHARACTER SET utf8mb4",
        TEXT,
        ("'é€ '", "''"),
        "REPEAT('🐬', 300)",
    ),
    Widening("CHAR(4) CHARACTER SET utf8mb3", "VARCHAR(9) CHARACTER SET utf16", TEXT, ("'日本'", "''"), "'🐬 '"),
    Widening("TINYTEXT", "LONGTEXT", TEXT, ("'é'", "''"), "REPEAT('x', 300)", in_key=False),
    Widening("BINARY(3)", "VARBINARY(9)", BYTES, ("x'00ff'", "''"), "x'ffffffff00'"),
)


def comparable(value: object) -> object:
    """Bring what either side shows to one form."""
    match value:
        case float():
            return struct.pack(">d", value)
        case dt.timedelta():
            return value // dt.timedelta(microseconds=1)
        case list():
            return b"vector " + struct.pack(f"<{len(value)}f", *value)
        case str() if value.partition(" ")[0] in _READERS:
            kind, _, digits = value.partition(" ")
            return _READERS[kind](bytes.fromhex(digits))
        case _:
            return value


def _extended(stored: bytes) -> bytes:
    """Move the SRID, which the server keeps in front of the WKB, behind the type, and mark the type, unless it is 0."""
    srid, order, kind, rest = stored[:4], stored[4:5], stored[5:9], stored[9:]
    if srid == bytes(4):
        return order + kind + rest
    return order + kind[:3] + bytes([kind[3] | 0x20]) + srid + rest


_READERS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "vector": lambda raw: b"vector " + raw,
    "ewkb": bytes,
    "geometry": _extended,
}
