"""Loads batch files of one table at once, as a warehouse spolt does with the messages of one micro-batch.

    python -m penstock.bench.programs.load_manifest OBJECTS MESSAGES duckdb FILE
    python -m penstock.bench.programs.load_manifest OBJECTS MESSAGES postgres HOST PORT DATABASE USER PASSWORD

OBJECTS is the URL of the store, MESSAGES a file with a batch message in each line.
Marks: `begin`, `end`, `rows`; it then waits to be ended, so that its memory can be asked for.
"""

from __future__ import annotations

import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.adapters.objects.store import ObjectsSpec, open_objects
from penstock.bench.marks import write_mark
from penstock.core.batches import read_batch
from penstock.core.tables import Column, DateTimeType, DecimalType, IntegerType, TableId, TableSchema, TextType
from penstock.links.warehouse.sink import SqlSink

if TYPE_CHECKING:
    from penstock.ports.warehouse import Warehouse

SCHEMA_ID: Final = 1
SOURCE: Final = "bench"
_TEXT: Final = TextType(64, "utf8mb4")
_LONG_TEXT: Final = TextType(65_535, "utf8mb4")

SCHEMA: Final = TableSchema(
    TableId("bench", "orders"),
    (
        Column("id", IntegerType(64, unsigned=False), nullable=False),
        Column("customer", _TEXT, nullable=False),
        Column("quantity", IntegerType(32, unsigned=False), nullable=False),
        Column("price", DecimalType(12, 2), nullable=False),
        Column("ordered_at", DateTimeType(6), nullable=False),
        Column("remark", _LONG_TEXT, nullable=False),
        Column("status", IntegerType(8, unsigned=False), nullable=False),
        Column("details", _LONG_TEXT, nullable=True),
    ),
    ("id",),
)
"""The table of the other benches."""


def main(arguments: list[str]) -> None:
    """Load them all."""
    url, messages, kind, *place = arguments
    batches = [read_batch(n, line) for n, line in enumerate(Path(messages).read_bytes().splitlines())]
    with closing(SqlSink(_open(kind, place), "bench", SOURCE, open_objects(ObjectsSpec(url)))) as sink:
        write_mark("begin")
        loaded = sink.load(SCHEMA.table, batches, {SCHEMA_ID: SCHEMA})
        write_mark("end")
    write_mark("rows", loaded.rows)
    time.sleep(3600)


def _open(kind: str, place: list[str]) -> Warehouse:
    if kind == "duckdb":
        from penstock.adapters.duckdb.warehouse import DuckdbWarehouse  # noqa: PLC0415 - not to be counted where it is not used

        return DuckdbWarehouse(Path(place[0]))
    from penstock.adapters.postgres.connection import PostgresServer  # noqa: PLC0415 - as above
    from penstock.adapters.postgres.warehouse import PostgresWarehouse  # noqa: PLC0415 - as above

    host, port, database, user, password = place
    return PostgresWarehouse(PostgresServer(host, int(port), database, user, password, {}), "bench")


if __name__ == "__main__":
    main(sys.argv[1:])
