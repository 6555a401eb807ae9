"""Loads batch files of one table into Redshift, in one way or another.

    python -m penstock.bench.programs.load_redshift SETTINGS MESSAGES WAY

SETTINGS is a JSON file (see `RedshiftPlace`), MESSAGES a file with a batch message
in each line, WAY one of

    copy   all files in one transaction, as the warehouse spolt does
    rows   a DELETE and an INSERT for each row, through the same client
    many   a DELETE and an INSERT for each 500 rows, through the same client

Marks: `begin`, `end`, `rows`, and `waited`, the seconds in which statements ran. It
then waits to be ended, so that its memory can be asked for.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.adapters.objects.store import Objects, ObjectsSpec, open_objects
from penstock.adapters.redshift.connection import RedshiftCluster, connect, execute
from penstock.adapters.redshift.warehouse import RedshiftLoads, RedshiftWarehouse
from penstock.bench.marks import write_mark
from penstock.bench.programs.load_manifest import SCHEMA, SCHEMA_ID, SOURCE
from penstock.core.batches import Batch, read_batch
from penstock.core.file_formats import parse_batch_file
from penstock.core.warehouse.dialects import REDSHIFT
from penstock.core.warehouse.planner import plan_create
from penstock.core.warehouse.redshift_copy import CopyRights
from penstock.core.warehouse.state_schema import state_schema
from penstock.core.warehouse.table_layout import TableLayouts
from penstock.core.warehouse.target_table import TargetTable
from penstock.links.warehouse.load_rules import LoadRules
from penstock.links.warehouse.sink import SqlSink

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.ports.warehouse import Value

_AT_ONCE: Final = 500
_ALL: Final = 1 << 40


@dataclass(frozen=True, slots=True)
class RedshiftPlace:
    """Where the files are, and where they go."""

    url: str
    endpoint: str
    access_key_id: str
    secret_access_key: str
    host: str
    port: int
    database: str
    user: str
    password: str
    iam_role: str

    def objects(self) -> Objects:
        """The store of the files."""
        keys = {"access_key_id": self.access_key_id, "secret_access_key": self.secret_access_key}
        return open_objects(ObjectsSpec(self.url, self.endpoint, **keys, timeout_seconds=300.0))

    def cluster(self) -> RedshiftCluster:
        """The database."""
        return RedshiftCluster(self.host, self.port, self.database, self.user, self.password, "disable")


def main(arguments: list[str]) -> None:
    """Load them all."""
    settings, messages, way = arguments
    place = RedshiftPlace(**json.loads(Path(settings).read_text()))
    batches = [read_batch(n, line) for n, line in enumerate(Path(messages).read_bytes().splitlines())]
    load = _copy if way == "copy" else partial(_insert, at_once=1 if way == "rows" else _AT_ONCE)
    rows, waited = load(place, batches)
    write_mark("rows", rows)
    write_mark("waited", waited)
    time.sleep(3600)


class _TimedWarehouse(RedshiftWarehouse):
    """A warehouse that counts the seconds until its statements are answered."""

    waited = 0.0

    def run(self, statement: str, values: Sequence[Value] = ()) -> None:
        """See `Warehouse`."""
        begin = time.monotonic()
        super().run(statement, values)
        self.waited += time.monotonic() - begin

    def fetch(self, statement: str, values: Sequence[Value] = ()) -> list[tuple[Value, ...]]:
        """See `Warehouse`."""
        begin = time.monotonic()
        found = super().fetch(statement, values)
        self.waited += time.monotonic() - begin
        return found


def _copy(place: RedshiftPlace, batches: Sequence[Batch]) -> tuple[int, float]:
    """Load; return how many rows, and how long statements took."""
    objects = place.objects()
    loads = RedshiftLoads(
        objects,
        place.url,
        CopyRights(place.iam_role),
        "bench",
        "redshift",
        state_schema(REDSHIFT, "bench", SOURCE),
        TableLayouts(),
    )
    rules = LoadRules(transaction_rows_max=_ALL, transaction_bytes_max=_ALL)
    warehouse = _TimedWarehouse(place.cluster(), loads)
    with closing(SqlSink(warehouse, "bench", SOURCE, objects, rules)) as sink:
        write_mark("begin")
        before = warehouse.waited
        rows = sink.load(SCHEMA.table, batches, {SCHEMA_ID: SCHEMA}).rows
        write_mark("end")
    return rows, warehouse.waited - before


def _insert(place: RedshiftPlace, batches: Sequence[Batch], at_once: int) -> tuple[int, float]:
    """Bring rows in as programs do that know no COPY: by keys and values, in one transaction for each batch."""
    connection, objects = connect(place.cluster()), place.objects()
    for statement in plan_create(REDSHIFT, TargetTable("", SCHEMA)):
        execute(connection, statement)
    names = [column.name for column in SCHEMA.columns]
    rows = 0
    write_mark("begin")
    for batch in batches:
        execute(connection, "BEGIN")
        table = parse_batch_file(SCHEMA, batch, objects.get(batch.path)).select(names)
        for part in _parts(table.to_pylist(), at_once):
            keys = ", ".join("?" for _ in part)
            execute(connection, f"DELETE FROM {SCHEMA.table} WHERE id IN ({keys})", [row["id"] for row in part])  # noqa: S608 - a name of ours
            marks = ", ".join(f"({', '.join('?' for _ in names)})" for _ in part)
            values = [row[name] for row in part for name in names]
            execute(connection, f"INSERT INTO {SCHEMA.table} VALUES {marks}", values)  # noqa: S608 - as above
            rows += len(part)
        execute(connection, "COMMIT")
    write_mark("end")
    return rows, 0.0


def _parts(rows: list[dict[str, Any]], at_once: int) -> Iterator[list[dict[str, Any]]]:
    """Cut rows into parts in which no key is twice: what is deleted before it is inserted is not deleted behind it."""
    part: dict[object, dict[str, Any]] = {}
    for row in rows:
        if len(part) == at_once or row["id"] in part:
            yield list(part.values())
            part = {}
        part[row["id"]] = row
    if part:
        yield list(part.values())


if __name__ == "__main__":
    main(sys.argv[1:])
