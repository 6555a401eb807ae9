"""Reads a slot's log from its server, and throws it away: as it comes, decoded to Arrow, or encoded as Avro envelopes.

    python -m penstock.bench.programs.read_wal WHAT HOST PORT USER PASSWORD TABLE SLOT PUBLICATION LSN ROWS

WHAT is receive, decode or encode; the last is everything that a capture does but publishing.
Nothing is confirmed, so the slot can be read again. Marks: `begin`, `end`, `rows`.
"""

from __future__ import annotations

import sys
from contextlib import closing
from typing import TYPE_CHECKING

from penstock.adapters.postgres.connection import PostgresServer
from penstock.adapters.postgres.source.catalog import read_tables, read_types
from penstock.adapters.postgres.source.connection import connect, connect_to_log, run_command
from penstock.adapters.postgres.source.relations import PostgresRelations
from penstock.adapters.postgres.source.stream import open_stream
from penstock.bench.known_tables import known_table_catalog
from penstock.bench.marks import write_mark
from penstock.core.log_items import LoggedRows, RowsRead, TransactionsRead
from penstock.core.positions import WalPosition, parse_lsn
from penstock.core.postgres.relations import table_schema
from penstock.core.publication import Publication
from penstock.core.tables import TableId
from penstock.dev.postgres import DATABASE
from penstock.links.capture.follow import LogFollower
from penstock.links.capture.postgres.log_reading import PostgresReading
from penstock.links.capture.postgres.registered_catalog import RegisteredCatalog
from penstock.spark.daemon import import_for_tasks
from penstock.wiring.backlog import BACKLOG_PACE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.links.capture.table_catalog import TableCatalog
    from penstock.ports.log import LogStream

_WAIT_SECONDS = 0.05
"""What is gathered is decoded when nothing more has come for so long: the last rows are waited for as long."""
_START_SECONDS = 60.0
_ROW_AT = 25
"""A message of the replication protocol has 25 bytes before pgoutput's."""


def main(arguments: list[str]) -> None:
    """Read until ROWS rows of TABLE have come."""
    what, host, port, user, password, name, slot, publication, lsn, wanted = arguments
    server = PostgresServer(host, int(port), DATABASE, user, password, {})
    table, position = TableId.parse(name), WalPosition(parse_lsn(lsn))
    catalog, table_catalog = _open_catalog(server, table, publication)
    import_for_tasks()
    write_mark("begin")
    if what == "receive":
        rows = _receive(server, slot, publication, lsn, int(wanted))
    else:
        read = _decode if what == "decode" else _encode
        reading = PostgresReading(position, catalog, table_catalog.wanted)
        with closing(open_stream(server, slot, [publication], position)) as stream:
            counted = read(stream, reading, table_catalog, position)
            rows = 0
            while rows < int(wanted):
                rows += next(counted)
    write_mark("end")
    write_mark("rows", rows)


def _open_catalog(server: PostgresServer, table: TableId, publication: str) -> tuple[RegisteredCatalog, TableCatalog]:
    with closing(connect(server)) as connection:
        types, found = read_types(connection), read_tables(connection, "one")
    shapes = [table_schema(each.relation, each.table, types, None, "stop") for each in found]
    catalog = RegisteredCatalog(PostgresRelations(server, publication), "stop")
    table_catalog = known_table_catalog(catalog, {shape.table: shape for shape in shapes if shape.table == table})
    catalog.follow(table_catalog.announced_schema, table_catalog.with_number)
    return catalog, table_catalog


def _receive(server: PostgresServer, slot: str, publication: str, lsn: str, wanted: int) -> int:
    """Take messages as the driver hands them out; count those that insert a row."""
    command = (
        f"""START_REPLICATION SLOT {slot} LOGICAL {lsn} (proto_version '1', publication_names '"{publication}"')"""
    )
    rows = 0
    with closing(connect_to_log(server)) as connection:
        run_command(connection, command, _START_SECONDS)
        while rows < wanted:
            size, data = connection.pgconn.get_copy_data(0)
            if size < 0:
                break
            rows += bytes(data[_ROW_AT : _ROW_AT + 1]) == b"I"
    return rows


def _decode(
    stream: LogStream, reading: PostgresReading, table_catalog: TableCatalog, position: WalPosition
) -> Iterator[int]:
    """Yield how many rows were decoded at once: as much as a capture gathers for a publication."""
    del position
    gathered, gathered_bytes = list[LoggedRows](), 0
    while True:
        items = stream.read(_WAIT_SECONDS)
        for step in reading.steps(items):
            came = (
                [step.rows] if isinstance(step, RowsRead) else step.rows if isinstance(step, TransactionsRead) else ()
            )
            # The publication is of all tables: what a peer writes to find its place in the log is none of ours.
            wanted = [rows for rows in came if table_catalog.wanted(rows.table)]
            gathered += wanted
            gathered_bytes += sum(rows.weight_bytes for rows in wanted)
        if gathered and (gathered_bytes >= BACKLOG_PACE.bytes_wanted or not items):
            schema, _ = table_catalog.encodable(gathered[0].table)
            yield sum(map(len, reading.decode(schema.schema, gathered)))
            gathered, gathered_bytes = [], 0


def _encode(
    stream: LogStream, reading: PostgresReading, table_catalog: TableCatalog, position: WalPosition
) -> Iterator[int]:
    """Yield how many messages each publication has."""
    follower = LogFollower(table_catalog, {}, position, BACKLOG_PACE, reading)
    while True:
        items = stream.read(_WAIT_SECONDS)
        for part in follower.feed(items) if items else follower.finish():
            if isinstance(part, Publication):
                yield sum(map(len, part.messages))


if __name__ == "__main__":
    main(sys.argv[1:])
