"""Decodes a binlog file, which it holds in memory, to Arrow columns.

    python -m penstock.bench.programs.decode_file HOST PORT USER PASSWORD TABLE FILE PASSES

Marks: `begin`, `end`, `rows` (of all passes together).
"""

from __future__ import annotations

import sys
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.adapters.mysql.catalog import read_tables
from penstock.adapters.mysql.connection import MysqlServer, connect
from penstock.bench.marks import write_mark
from penstock.core.mysql.log.log_items import LogItem, TransactionsLogged
from penstock.core.mysql.log.scan import EventScanner
from penstock.core.mysql.rows.decode import batch_key, decode_rows
from penstock.core.mysql.types.logged_rows import RowsLogged
from penstock.core.positions import BinlogPosition
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from penstock.core.mysql.rows.rows_block import RowsBlock
    from penstock.core.tables import TableSchema

_MAGIC_BYTES = 4
_LENGTH = slice(9, 13)
_CHUNK_BYTES = 8 << 20


def main(arguments: list[str]) -> None:
    """Decode the file as often as asked."""
    host, port, user, password, name, file, passes = arguments
    table = TableId.parse(name)
    with closing(connect(MysqlServer(host, int(port), user, password))) as connection:
        schema = read_tables(connection, [table])[table]
    content = Path(file).read_bytes()
    write_mark("begin")
    rows = sum(decode(schema, Path(file).name, content) for _ in range(int(passes)))
    write_mark("end")
    write_mark("rows", rows)


def decode(schema: TableSchema, name: str, content: bytes) -> int:
    """Decode the rows of one table in a whole binlog file; how many there are."""
    scanner = EventScanner(BinlogPosition(name, _MAGIC_BYTES), lambda table: table == schema.table)
    rows = 0
    for spans in chunks(content):
        groups: dict[Hashable, list[RowsLogged | RowsBlock]] = defaultdict(list)
        for item in scanner.feed(content, spans):
            for events in rows_of(item):
                groups[batch_key(events)].append(events)
        rows += sum(len(decode_rows(schema, group)) for group in groups.values())
    return rows


def rows_of(item: LogItem) -> Sequence[RowsLogged | RowsBlock]:
    """The rows events in an item."""
    if isinstance(item, TransactionsLogged):
        return item.blocks
    return [item] if isinstance(item, RowsLogged) else []


def chunks(content: bytes) -> Iterator[list[tuple[int, int]]]:
    """Yield where the events of a binlog file stand, some 8 MiB of them at a time.

    Source: MariaDB Knowledge Base, "2-Binlog Event Header": four bytes of magic,
    then events, whose length is at offset 9 of their header.
    """
    spans: list[tuple[int, int]] = []
    at = begin = _MAGIC_BYTES
    while at < len(content):
        length = int.from_bytes(content[at + _LENGTH.start : at + _LENGTH.stop], "little")
        spans.append((at, at + length))
        at += length
        if at - begin >= _CHUNK_BYTES:
            yield spans
            spans, begin = [], at
    yield spans


if __name__ == "__main__":
    main(sys.argv[1:])
