"""A small writer of binlogs, independent of the code that reads them."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.unit.mysql_log.row_encoding import encode_value, layout

from penstock.core.changes import Op
from penstock.core.mysql.types.logged_rows import RowsLogged, TableMap
from penstock.core.tables import (
    Column,
    ColumnType,
    IntegerType,
    TableId,
    TableSchema,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tests.unit.mysql_log.row_encoding import Value


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
        return self.event(2, self._query_front(schema, charset) + sql.encode(codec, "surrogateescape"))

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

    def rows(
        self, payload: bytes = b"\x01\x01\xfe\x2a\0\0\0", table_id: int = 20, code: int = 23, flags: int = 1
    ) -> int:
        """A ROWS event; by default the insert of 42 into a table with one INT."""
        extra = b"\x02\0" if 30 <= code < 160 or 169 <= code < 172 else b""
        return self.event(code, struct.pack("<IHH", table_id, 0, flags) + extra + payload)

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
        layouts = [layout(column.type) for column in schema.columns]
        self.table_map = TableMap(
            schema.table,
            tuple(code for code, _ in layouts),
            tuple(metadata for _, metadata in layouts),
            tuple(column.nullable for column in schema.columns),
            tuple(column.name for column in schema.columns),
            tuple(isinstance(column.type, IntegerType) and column.type.unsigned for column in schema.columns),
        )

    def event(
        self,
        rows: Sequence[Sequence[Value]],
        op: Op = Op.CREATE,
        offset: int = 1000,
        lacks: Sequence[Collection[int]] = ((), ()),
    ) -> RowsLogged:
        """An event with `rows`; an update has them in pairs, before and after, without the columns of each `lacks`."""
        width = len(self.schema.columns)
        images = 2 if op is Op.UPDATE else 1
        bitmaps = [sum(1 << index for index in range(width) if index not in image) for image in lacks[:images]]
        front = bytes([width]) + b"".join(bitmap.to_bytes((width + 7) // 8, "little") for bitmap in bitmaps)
        content = b"".join(self.row(row, lacks[index % images]) for index, row in enumerate(rows))
        place = ("mysql-bin.000001", offset, offset * 10, f"0-7-{offset}", 7)
        return RowsLogged(self.table_map, op, front + content, *place)

    def row(self, values: Sequence[Value], lacks: Collection[int] = ()) -> bytes:
        """One row image."""
        there = [(*each, index) for index, each in enumerate(zip(self.schema.columns, values, strict=True))]
        there = [each for each in there if each[2] not in lacks]
        nulls = sum(1 << index for index, (_, value, _) in enumerate(there) if value is None)
        cells = b"".join(encode_value(column.type, value) for column, value, _ in there if value is not None)
        return nulls.to_bytes((len(there) + 7) // 8, "little") + cells


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
