"""Figures: the memory of a process that loads very many rows at once."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.adapters.objects.store import ObjectsSpec, open_objects
from penstock.bench.figure import Figure
from penstock.bench.marks import await_mark
from penstock.bench.meter import Meter
from penstock.bench.programs.load_manifest import SCHEMA, SCHEMA_ID, SOURCE
from penstock.bench.warehouse.compare import connect_postgres, create_database
from penstock.core.batches import Batch
from penstock.core.errors import PenstockError
from penstock.core.file_formats import PARQUET, FileFormat, render_as
from penstock.core.files import file_schema, object_key
from penstock.embedded.processes import start_child

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from penstock.bench.lab import Lab
    from penstock.ports.objects import ObjectStore

_TIMES: Final = 10
"""How many times the rows of the other parts."""
_FILE_ROWS: Final = 100_000
_GIBIBYTE: Final = 1 << 30
_WAIT_SECONDS: Final = 3600.0
_TOPIC: Final = "bench.orders"


def measure(lab: Lab) -> Sequence[Figure]:
    """The peak of the loading process, for each kind of target; half of the rows are new keys, the rest updates."""
    rows = lab.settings.rows * _TIMES
    folder = lab.folder("manifest")
    lab.say(f"manifest: writing {rows:,} rows into files")
    url = (folder / "objects").as_uri()
    messages = folder / "messages"
    batches = write_files(open_objects(ObjectsSpec(url)), rows, _FILE_ROWS, PARQUET)
    messages.write_bytes(b"".join(batch.to_json() + b"\n" for batch in batches))
    figures = [*_measure_duckdb(lab, folder, url, rows), *_measure_postgres(lab, folder, url, rows)]
    shutil.rmtree(folder)
    return figures


def _measure_duckdb(lab: Lab, folder: Path, url: str, rows: int) -> Sequence[Figure]:
    lab.say("manifest: loading them into DuckDB")
    return _measure(folder, "duckdb", rows, [url, folder / "messages", "duckdb", folder / "target.duckdb"])


def _measure_postgres(lab: Lab, folder: Path, url: str, rows: int) -> Sequence[Figure]:
    lab.say("manifest: loading them into PostgreSQL")
    server = lab.postgres()
    create_database(server, "manifest")
    place = [server.host, server.port, "manifest", server.user, server.password]
    figures = _measure(folder, "postgres", rows, [url, folder / "messages", "postgres", *place])
    with connect_postgres(server, "manifest") as connection:
        query = f"SELECT count(*) FROM {SCHEMA.table}"  # noqa: S608 - our own name
        found = connection.execute(query.encode()).fetchone()
    if found != (-(-rows // 2),):
        message = f"PostgreSQL has {found} rows of {-(-rows // 2)}"
        raise PenstockError(message, "this is a mistake in Penstock: report it")
    with connect_postgres(server, server.database) as connection:
        connection.execute(b"DROP DATABASE manifest")
    return figures


def _measure(folder: Path, kind: str, rows: int, arguments: Sequence[object]) -> Sequence[Figure]:
    command = [sys.executable, "-m", "penstock.bench.programs.load_manifest", *map(str, arguments)]
    child = start_child("the load", command, folder / f"{kind}.log")
    try:
        with Meter(child.pid) as meter:
            loaded = await_mark(child, "rows", _WAIT_SECONDS)
            begin, end = (await_mark(child, mark, _WAIT_SECONDS) for mark in ("begin", "end"))
            meter.sample()
    finally:
        child.kill()
    if loaded != rows:
        message = f"{loaded:,.0f} of {rows:,} rows were loaded"
        raise PenstockError(message, f"read {child.log}")
    name = f"one load of {rows:,} rows into {kind}"
    note = f"{-(-rows // _FILE_ROWS)} files in one call; half of the rows are updates"
    peak = meter.peaks()[0].peak_bytes / _GIBIBYTE
    return [
        Figure(f"{name}, memory", "GiB", "less", peak, target=1, target_of="value", note=f"peak resident size; {note}"),
        Figure(f"{name}, speed", "rows per second", "more", rows / (end - begin), note=note),
        Figure(
            f"{name}, CPU",
            "CPU seconds per million rows",
            "less",
            meter.cpu_between(begin, end) * 1_000_000 / rows,
            note=f"of the loading process; {note}",
        ),
    ]


def write_files(objects: ObjectStore, rows: int, file_rows: int, format_: FileFormat) -> Iterator[Batch]:
    """Write `rows` changes, of which half are of new keys, into files of `file_rows`; yield what is told of each."""
    for start in range(0, rows, file_rows):
        end = min(start + file_rows, rows)
        key = object_key(SOURCE, SOURCE, _TOPIC, 0, (start, end), SCHEMA_ID)
        file = render_as(format_, SCHEMA, _rows(np.arange(start, end), rows))
        objects.put(key, file.content)
        yield Batch(
            source=SOURCE,
            table=SCHEMA.table,
            topic=_TOPIC,
            partition=0,
            start_offset=start,
            end_offset=end,
            rows=end - start,
            path=key,
            size_bytes=len(file.content),
            format=format_.name,
            compression=format_.compression,
            dialect=file.dialect,
            schema_id=SCHEMA_ID,
            first_order=(1, start, 0),
            last_order=(1, end, 0),
            last_timestamp_ms=0,
        )


def _rows(offsets: np.ndarray[tuple[int, ...], np.dtype[np.int64]], rows: int) -> pa.Table:
    """Changes at `offsets`: the keys from 0 on, then each of them once more, in another order."""
    keys = -(-rows // 2)
    ids = np.where(offsets < keys, offsets, (offsets * 7919) % keys)
    text = pa.array(ids).cast(pa.string())
    columns = [
        ids,
        _joined("customer of a bench ", text),
        ids % 1000,
        pa.array((ids % 10_000_000).astype(np.int32)).cast(pa.decimal128(12, 0)),
        pa.array(ids * 1371).cast(pa.timestamp("us")),
        _joined("please ring twice, order number ", text),
        ids % 5,
        pc.if_else(pa.array(ids % 3 == 0), pa.scalar(None, pa.string()), text),
        pa.array(np.where(offsets < keys, "c", "u")),
        offsets,
    ]
    layout = file_schema(SCHEMA)
    return pa.table([pa.array(c).cast(f.type) for c, f in zip(columns, layout, strict=True)], schema=layout)


def _joined(before: str, texts: pa.Array[Any]) -> pa.Array[Any]:
    joined: pa.Array[Any] = pc.binary_join_element_wise(pa.repeat(before, len(texts)), texts, pa.repeat("", len(texts)))
    return joined
