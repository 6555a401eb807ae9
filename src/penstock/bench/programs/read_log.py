"""Reads a binlog file from its server, decodes it and encodes Avro envelopes, which it throws away.

    python -m penstock.bench.programs.read_log HOST PORT USER PASSWORD TABLE FILE OFFSET

Everything that a capture does but publishing, in a process that has imported what a
capture's worker is forked with: Arrow's first array alone imports pandas, which takes
a quarter of a second. Marks: `begin`, `end`, `rows`.
"""

from __future__ import annotations

import sys
from contextlib import closing

from penstock.adapters.mysql.binlog_stream import open_binlog
from penstock.adapters.mysql.connection import MysqlServer
from penstock.bench.known_tables import open_table_catalog
from penstock.bench.marks import write_mark
from penstock.core.positions import BinlogPosition
from penstock.core.publication import Publication
from penstock.core.tables import TableId
from penstock.links.capture.backlog import read_slice
from penstock.links.capture.follow import LogFollower
from penstock.links.capture.mysql.log_reading import BinlogReading
from penstock.ports.log import Stop
from penstock.spark.daemon import import_for_tasks
from penstock.wiring.backlog import BACKLOG_PACE

_SERVER_ID = 3_000_000_001


def main(arguments: list[str]) -> None:
    """Read the file to its end."""
    host, port, user, password, table, file, offset = arguments
    server = MysqlServer(host, int(port), user, password)
    position = BinlogPosition(file, int(offset))
    table_catalog = open_table_catalog(server, TableId.parse(table))
    import_for_tasks()
    write_mark("begin")
    rows = 0
    follower = LogFollower(table_catalog, {}, position, BACKLOG_PACE, BinlogReading(position))
    with closing(open_binlog(server, position, _SERVER_ID, table_catalog.wanted, Stop.END_OF_FILE)) as stream:
        for part in read_slice(stream, follower, {}):
            if isinstance(part, Publication):
                rows += sum(map(len, part.messages))
    write_mark("end")
    write_mark("rows", rows)


if __name__ == "__main__":
    main(sys.argv[1:])
