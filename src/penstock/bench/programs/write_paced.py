"""Commits transactions of one row at a steady rate, and notes when each COMMIT returned.

    python -m penstock.bench.programs.write_paced KIND HOST PORT USER PASSWORD TABLE FIRST COUNT RATE FILE

KIND is mysql or postgres. Row i is due i/RATE seconds after the start, whatever the rows before it took.
FILE gets a line `id seconds` for each, of the monotonic clock. Marks: `begin`, `end`, `rows`.
"""

from __future__ import annotations

import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from penstock.adapters.mysql.connection import MysqlServer, connect
from penstock.bench.marks import write_mark
from penstock.dev.postgres import DATABASE

if TYPE_CHECKING:
    import pymysql

_REMARK = "please ring twice, order da39a3ee5e6b4b0d3255bfef95601890afd80709"


def main(arguments: list[str]) -> None:
    """Write the rows, then the file."""
    kind, host, port, user, password, table, first, count, rate, file = arguments
    start_id, every = int(first), 1 / float(rate)
    committed: list[float] = []
    with closing(_connect(kind, host, int(port), user, password)) as connection, closing(connection.cursor()) as cursor:
        write_mark("begin")
        begin = time.monotonic()
        for number in range(int(count)):
            wait = begin + number * every - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            row = f"{start_id + number}, 'customer', 7, 123.45, '2026-01-01 12:00:00.5', '{_REMARK}', 1, NULL"
            cursor.execute(f"INSERT INTO {table} VALUES ({row})")  # noqa: S608 - our own names and values
            committed.append(time.monotonic())
        write_mark("end")
    Path(file).write_text("".join(f"{start_id + number} {at:.6f}\n" for number, at in enumerate(committed)))
    write_mark("rows", len(committed))


def _connect(kind: str, host: str, port: int, user: str, password: str) -> pymysql.Connection | psycopg.Connection:
    if kind == "postgres":
        return psycopg.connect(host=host, port=port, user=user, password=password, dbname=DATABASE, autocommit=True)
    return connect(MysqlServer(host, port, user, password))


if __name__ == "__main__":
    main(sys.argv[1:])
