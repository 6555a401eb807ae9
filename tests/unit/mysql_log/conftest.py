"""A small writer of binlogs, independent of the code that reads them."""

from __future__ import annotations

import re
import struct
import zlib
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import pyarrow as pa
import pytest

from penstock.core.changes import Op
from penstock.core.mysql.log_items import RowsLogged, TableMap
from penstock.core.tables import (
    BitType,
    BytesType,
    Column,
    ColumnType,
    DateTimeType,
    DateType,
    DecimalType,
    EnumType,
    FloatType,
    GeometryType,
    IntegerType,
    PrintedType,
    SetType,
    TableId,
    TableSchema,
    TextType,
    TimestampType,
    TimeType,
    VectorType,
    YearType,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

Value = int | float | str | bytes | Decimal | date | datetime | timedelta | list[float] | None

_BYTES_PER_CHARACTER = {"utf8mb4": 4, "utf8mb3": 3, "ascii": 1, "latin1": 1}
_INTEGER_CODES = {8: 1, 16: 2, 24: 9, 32: 3, 64: 8}
_PAD = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


@dataclass
class LogWriter:
    """One binlog file as a server would send it, event by event."""

    file: str = "mysql-bin.000001"
    offset: int = 4
    checksums: bool = True
    server_version: bytes = b"10.11.19-MariaDB-log"
    server_id: int = 7
    timestamp: int = 1_700_000_000
    events: list[bytes] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    files: list[str] = field(default_factory=list)

    def event(self, code: int, body: bytes, flags: int = 0, end: int | None = None) -> int:
        """Append an event; return where it starts. `end` replaces the end that is written into its header."""
        checksums = self.checksums or code == 15
        length = 19 + len(body) + 4 * checksums
        start = self.offset
        artificial = flags & 0x20 or (end == 0 and code in {4, 15, 163}) or code in {27, 41}
        if not artificial:
            self.offset += length
        written_end = end if end is not None else 0 if flags & 0x20 else self.offset & 0xFFFFFFFF
        event = struct.pack("<IBIIIH", self.timestamp, code, self.server_id, length, written_end, flags) + body
        if checksums:
            event += struct.pack("<I", zlib.crc32(event))
        self.events.append(event)
        self.starts.append(start)
        self.files.append(self.file)
        return start

    def opening(self) -> LogWriter:
        """What every dump begins with: an artificial ROTATE and the FORMAT_DESCRIPTION."""
        aware, self.checksums = self.checksums, True
        self.event(4, struct.pack("<Q", self.offset) + self.file.encode(), flags=0x20)
        self.checksums = aware
        body = struct.pack("<H50sIB", 4, self.server_version, self.timestamp, 19) + bytes(40) + bytes([self.checksums])
        self.event(15, body, end=0 if self.offset > 4 else None)
        return self

    def gtid(self, sequence: int, flags: int = 0, domain: int = 0, rest: bytes = bytes(6)) -> int:
        """MariaDB's GTID event."""
        return self.event(162, struct.pack("<QIB", sequence, domain, flags) + rest)

    def gtid_list(self, *gtids: tuple[int, int, int]) -> int:
        """MariaDB's GTID_LIST event, of (domain, server, sequence)."""
        return self.event(163, struct.pack("<I", len(gtids)) + b"".join(struct.pack("<IIQ", *gtid) for gtid in gtids))

    def query(self, sql: str, schema: str = "shop", charset: int = 45, codec: str = "utf-8") -> int:
        """A QUERY event with the status variables that MariaDB writes."""
        return self.event(2, self._query_front(schema, charset) + sql.encode(codec))

    def compressed_query(self, sql: str, schema: str = "shop") -> int:
        """The same with its text compressed."""
        return self.event(165, self._query_front(schema, 45) + deflate(sql.encode()))

    def _query_front(self, schema: str, charset: int) -> bytes:
        status = b"\x00" + bytes(4) + b"\x01" + bytes(8) + b"\x06\x03std\x04" + struct.pack("<HHH", charset, 33, 45)
        body = struct.pack("<IIBHH", 1, 0, len(schema.encode()), 0, len(status))
        return body + status + schema.encode() + b"\0"

    def table_map(self, table: str, table_id: int = 20, columns: bytes = b"\x03") -> int:
        """A TABLE_MAP of schema `shop` with columns that need no metadata."""
        body = struct.pack("<IHH", table_id, 0, 1) + b"\x04shop\0" + bytes([len(table)]) + table.encode() + b"\0"
        body += bytes([len(columns)]) + columns + b"\0" + bytes((len(columns) + 7) // 8)
        return self.event(19, body)

    def rows(self, payload: bytes = b"\x01\x01\xfe\x2a\0\0\0", table_id: int = 20, code: int = 23) -> int:
        """A ROWS event; by default the insert of 42 into a table with one INT."""
        extra = b"\x02\0" if 30 <= code < 160 or 169 <= code < 172 else b""
        return self.event(code, struct.pack("<IHH", table_id, 0, 1) + extra + payload)

    def compressed_rows(self, code: int, front: bytes = b"\x01\x01", rows: bytes = b"\xfe\x2a\0\0\0") -> int:
        """MariaDB's ROWS event with everything behind the column bitmaps compressed."""
        return self.rows(front + deflate(rows), code=code)

    def payload(self, inner: LogWriter, *, compression: int = 0, plain_bytes: int | None = None) -> int:
        """MySQL's TRANSACTION_PAYLOAD event with the events of `inner`, which has no checksums."""
        plain = b"".join(inner.events)
        packed = pa.Codec("zstd").compress(plain, asbytes=True) if compression == 0 else plain
        fields = ((1, len(packed)), (2, compression), (3, len(plain) if plain_bytes is None else plain_bytes))
        coded = b"".join(bytes([kind, 9, 0xFE]) + struct.pack("<Q", value) for kind, value in fields)
        return self.event(40, coded + b"\0" + packed)

    def xid(self) -> int:
        """A commit."""
        return self.event(16, struct.pack("<Q", 1))

    def insert(self, sequence: int, table: str = "users", rows: int = 1) -> int:
        """A whole transaction with `rows` ROWS events; return where it starts."""
        start = self.gtid(sequence)
        self.table_map(table)
        for _ in range(rows):
            self.rows()
        self.xid()
        return start

    def xa_prepare(
        self, name: bytes, table: str = "users", rows: Sequence[bytes] = (b"\x01\x01\xfe\x2a\0\0\0",)
    ) -> int:
        """A prepared XA transaction as MariaDB writes it; return where it starts."""
        start = self.gtid(1, flags=0x48, rest=struct.pack("<IBB", 1, len(name), 0) + name + b"\1\xff")
        self.table_map(table)
        for row in rows:
            self.rows(row)
        self.query(f"XA END X'{name.hex()}',X'',1")
        self.event(38, struct.pack("<BIII", 0, 1, len(name), 0) + name)
        return start

    def xa_finish(self, verb: str, name: bytes) -> int:
        """XA COMMIT or XA ROLLBACK as MariaDB writes it; return where it starts."""
        start = self.gtid(2, flags=0x89, rest=struct.pack("<IBB", 1, len(name), 0) + name)
        self.query(f"XA {verb} X'{name.hex()}',X'',1")
        return start

    def served(self, file: str, offset: int) -> tuple[bytes, list[tuple[int, int]]]:
        """The events that a server sends to whom asks for `offset` of `file`, and their places."""
        sent = LogWriter(file=file, offset=offset).opening()
        for event, event_file, start in zip(self.events, self.files, self.starts, strict=True):
            is_opening = event[17] & 0x20 or event[4] == 15
            if event_file > file or (event_file == file and start >= offset and not is_opening):
                sent.events.append(event)
        return sent.stream()

    def rotate(self, file: str) -> None:
        """The last event of a file, and the artificial one of the next."""
        self.event(4, struct.pack("<Q", 4) + file.encode())
        self.file, self.offset = file, 4
        self.event(4, struct.pack("<Q", 4) + file.encode(), flags=0x20)

    def stream(self, first: int = 0) -> tuple[bytes, list[tuple[int, int]]]:
        """Return the events from number `first` on in one buffer, and their places in it."""
        spans, at = [], 0
        for event in self.events[first:]:
            spans.append((at, at + len(event)))
            at += len(event)
        return b"".join(self.events[first:]), spans


def deflate(plain: bytes, announced: int | None = None) -> bytes:
    """What MariaDB writes in place of `plain`; `announced` replaces its length."""
    length = len(plain) if announced is None else announced
    length_bytes = max(1, (length.bit_length() + 7) // 8)
    return bytes([0x80 | length_bytes]) + length.to_bytes(length_bytes, "big") + zlib.compress(plain)


class RowWriter:
    """Writes rows of a schema as ROWS events hold them."""

    def __init__(self, schema: TableSchema) -> None:
        self.schema = schema
        layouts = [_layout(column.type) for column in schema.columns]
        self.table_map = TableMap(
            schema.table,
            tuple(code for code, _ in layouts),
            tuple(metadata for _, metadata in layouts),
            tuple(column.nullable for column in schema.columns),
            tuple(column.name for column in schema.columns),
            tuple(isinstance(column.type, IntegerType) and column.type.unsigned for column in schema.columns),
        )

    def event(self, rows: Sequence[Sequence[Value]], op: Op = Op.CREATE, offset: int = 1000) -> RowsLogged:
        """An event with `rows`; an update has them in pairs, before and after."""
        width = len(self.schema.columns)
        all_present = ((1 << width) - 1).to_bytes((width + 7) // 8, "little")
        payload = bytes([width]) + all_present * (2 if op is Op.UPDATE else 1) + b"".join(map(self.row, rows))
        return RowsLogged(self.table_map, op, payload, "mysql-bin.000001", offset, offset * 10, f"0-7-{offset}", 7)

    def row(self, values: Sequence[Value]) -> bytes:
        """One row image."""
        nulls = sum(1 << index for index, value in enumerate(values) if value is None)
        columns = zip(self.schema.columns, values, strict=True)
        cells = b"".join(encode_value(column.type, value) for column, value in columns if value is not None)
        return nulls.to_bytes((len(values) + 7) // 8, "little") + cells


def _layout(type_: ColumnType) -> tuple[int, int]:  # noqa: C901, PLR0911, PLR0912 - one return per type
    match type_:
        case IntegerType(bits):
            return _INTEGER_CODES[bits], 0
        case FloatType(bits):
            return (4, 4) if bits == 32 else (5, 8)
        case DecimalType(precision, scale):
            return 246, precision * 256 + scale
        case TextType(characters, charset):
            width = characters * _BYTES_PER_CHARACTER[charset]
            return (15, width) if width < 65536 else (252, 4)
        case BytesType(width, fixed):
            return (254, 254 * 256 + width) if fixed else (15, width) if width < 65536 else (252, 3)
        case DateType():
            return 10, 0
        case DateTimeType(digits):
            return 18, digits
        case TimestampType(digits):
            return 17, digits
        case YearType():
            return 13, 0
        case EnumType(labels):
            return 254, 247 * 256 + (1 if len(labels) < 256 else 2)
        case SetType(labels):
            return 254, 248 * 256 + _set_bytes(labels)
        case BitType(bits):
            return 16, bits // 8 * 256 + bits % 8
        case TimeType(digits):
            return 19, digits
        case PrintedType("uuid" | "inet6"):
            return 254, 254 * 256 + 16
        case PrintedType("inet4"):
            return 254, 254 * 256 + 4
        case GeometryType():
            return 255, 4
        case VectorType():
            return 242, 4
        case PrintedType("date"):
            return 10, 0
        case PrintedType("datetime", digits):
            return 18, digits
    raise AssertionError(type_)


def encode_value(type_: ColumnType, value: Value) -> bytes:  # noqa: C901, PLR0911, PLR0912 - one return per type
    """Write one value, as the format's documentation says."""
    match type_, value:
        case IntegerType(bits, unsigned), int():
            return value.to_bytes(bits // 8, "little", signed=not unsigned)
        case FloatType(bits), float():
            return struct.pack("<f" if bits == 32 else "<d", value)
        case DecimalType(precision, scale), Decimal():
            return _encode_decimal(value, precision, scale)
        case TextType(), str():
            raw = _encode_text(value, type_.charset)
            return len(raw).to_bytes(_length_bytes(type_), "little") + raw
        case BytesType(fixed=fixed), bytes():
            raw = value.rstrip(b"\0") if fixed else value
            return len(raw).to_bytes(_length_bytes(type_), "little") + raw
        case DateTimeType(digits), datetime():
            months = value.year * 13 + value.month
            packed = months << 22 | value.day << 17 | value.hour << 12 | value.minute << 6 | value.second
            return (packed + (1 << 39)).to_bytes(5, "big") + _fraction(value.microsecond, digits)
        case TimestampType(digits), datetime():
            seconds = int((value - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() // 1)
            return seconds.to_bytes(4, "big") + _fraction(value.microsecond, digits)
        case DateType(), date():
            return (value.year << 9 | value.month << 5 | value.day).to_bytes(3, "little")
        case YearType(), int():
            return bytes([value - 1900 if value else 0])
        case SetType(labels), str():
            bits = sum(1 << labels.index(label) for label in value.split(",") if label)
            return bits.to_bytes(_set_bytes(labels), "little")
        case BitType(bits), int():
            return value.to_bytes((bits + 7) // 8, "big")
        case TimeType(digits), timedelta():
            return _encode_time(value // timedelta(microseconds=1), digits)
        case PrintedType("uuid"), str():
            return _stripped(UUID(value).bytes)
        case PrintedType("inet4" | "inet6"), str():
            return _stripped(bytes(ip_address(value).packed))
        case PrintedType("date"), str():
            year, month, day = map(int, value.split("-"))
            return (year << 9 | month << 5 | day).to_bytes(3, "little")
        case PrintedType("datetime", digits), str():
            year, month, day, hour, minute, second, micros = map(int, re.findall(r"\d+", value))
            packed = (year * 13 + month) << 22 | day << 17 | hour << 12 | minute << 6 | second
            return (packed + (1 << 39)).to_bytes(5, "big") + _fraction(micros, digits)
        case GeometryType(), bytes():
            srid = value[5:9] if value[4] & 0x20 else bytes(4)
            plain = value[:4] + bytes([value[4] & 0xDF]) + value[9:] if value[4] & 0x20 else value
            return (len(plain) + 4).to_bytes(4, "little") + srid + plain
        case VectorType(), list():
            return (4 * len(value)).to_bytes(4, "little") + struct.pack(f"<{len(value)}f", *value)
        case EnumType(labels), "":
            return bytes(1 if len(labels) < 256 else 2)
        case EnumType(labels), str():
            return (labels.index(value) + 1).to_bytes(1 if len(labels) < 256 else 2, "little")
    raise AssertionError(type_, value)


def _set_bytes(labels: Sequence[str]) -> int:
    width = (len(labels) + 7) // 8
    return width if width <= 4 else 8


def _stripped(raw: bytes) -> bytes:
    raw = raw.rstrip(b"\0")
    return bytes([len(raw)]) + raw


def _encode_time(micros: int, digits: int) -> bytes:
    """A number of bits for the clock, then the fraction in pairs of digits, the whole negated if it is negative."""
    pairs = (digits + 1) // 2
    seconds, rest = divmod(abs(micros), 1_000_000)
    clock = seconds // 3600 << 12 | seconds // 60 % 60 << 6 | seconds % 60
    whole = clock << 8 * pairs | rest // 100 ** (3 - pairs)
    stored: int = (0x800000 << 8 * pairs) + (-whole if micros < 0 else whole)
    return stored.to_bytes(3 + pairs, "big")


def _length_bytes(type_: ColumnType) -> int:
    code, metadata = _layout(type_)
    if code == 252:
        return metadata
    return 1 if (metadata if code == 15 else metadata & 0xFF) < 256 else 2


def _encode_text(text: str, charset: str) -> bytes:
    if charset != "latin1":
        return text.encode()
    return b"".join(
        character.encode("latin1" if character in "\x81\x8d\x8f\x90\x9d" else "cp1252") for character in text
    )


def _encode_decimal(value: Decimal, precision: int, scale: int) -> bytes:
    whole = precision - scale
    digits = "".join(map(str, value.as_tuple().digits)).zfill(precision)
    left, right = digits[:whole], digits[whole:]
    lead = whole % 9
    groups = [left[:lead], *(left[at : at + 9] for at in range(lead, whole, 9))]
    groups += [right[at : at + 9] for at in range(0, scale, 9)]
    raw = bytearray(b"".join(int(group).to_bytes(_PAD[len(group)], "big") for group in groups if group))
    raw[0] ^= 0x80
    return bytes(byte ^ 0xFF for byte in raw) if value < 0 else bytes(raw)


def _fraction(microseconds: int, digits: int) -> bytes:
    pairs = (digits + 1) // 2
    return (microseconds // 100 ** (3 - pairs)).to_bytes(pairs, "big") if pairs else b""


@pytest.fixture(scope="session")
def log_writer() -> type[LogWriter]:
    """The class, for tests that write more than one log."""
    return LogWriter


@pytest.fixture
def log() -> LogWriter:
    """A new log that begins as every dump does."""
    return LogWriter().opening()


@pytest.fixture(scope="session")
def recorded() -> Recorded:
    """Binlog files of real servers, by name; see recorded/README.md."""
    return Recorded()


class Recorded:
    """Reads a file of recorded/ as a server sends it: one buffer, and the spans of its events."""

    def __call__(self, name: str, first: str = "mysql-bin.000001") -> tuple[bytes, list[tuple[int, int]]]:
        """The file called `name`, sent from its start as the log's file `first`."""
        opening = LogWriter(file=first).opening()
        recorded = (Path(__file__).parent / "recorded" / f"{name}.binlog").read_bytes()[4:]
        buffer = opening.events[0] + recorded
        spans, at = [], 0
        while at < len(buffer):
            length = int.from_bytes(buffer[at + 9 : at + 13], "little")
            spans.append((at, at + length))
            at += length
        return buffer, spans


@pytest.fixture(scope="session")
def row_writer() -> type[RowWriter]:
    """The class, for any schema."""
    return RowWriter


@pytest.fixture(scope="session")
def one_column() -> OneColumn:
    """Make the writer of a table `shop.t` with one column `v`."""
    return OneColumn()


class OneColumn:
    """Makes tables with one column."""

    def __call__(self, type_: ColumnType, *, nullable: bool = True) -> RowWriter:
        """The writer of a table `shop.t` with the column `v`."""
        return RowWriter(TableSchema(TableId("shop", "t"), (Column("v", type_, nullable),), ()))
