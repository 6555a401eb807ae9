"""Reads a binlog file with python-mysql-replication, and throws its rows away.

    python -m penstock.bench.programs.read_log_python HOST PORT USER PASSWORD TABLE FILE OFFSET ROWS

Marks: `begin`, `end`, `rows`.
"""

from __future__ import annotations

import sys

from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import WriteRowsEvent

from penstock.bench.marks import write_mark

_SERVER_ID = 3_000_000_002


def main(arguments: list[str]) -> None:
    """Read until ROWS rows have come."""
    host, port, user, password, table, file, offset, wanted = arguments
    schema, _, name = table.partition(".")
    stream = BinLogStreamReader(
        connection_settings={"host": host, "port": int(port), "user": user, "passwd": password},
        server_id=_SERVER_ID,
        log_file=file,
        log_pos=int(offset),
        resume_stream=True,
        only_events=[WriteRowsEvent],
        only_schemas=[schema],
        only_tables=[name],
    )
    write_mark("begin")
    rows = 0
    for event in stream:
        rows += len(event.rows)
        if rows >= int(wanted):
            break
    write_mark("end")
    write_mark("rows", rows)
    stream.close()


if __name__ == "__main__":
    main(sys.argv[1:])
