"""Figures: what it costs to load Redshift's stand-in by COPY, beside INSERTs through the same client."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Final

from penstock.adapters.redshift.connection import RedshiftCluster, connect, execute
from penstock.bench.figure import Figure
from penstock.bench.marks import await_mark
from penstock.bench.meter import Meter
from penstock.bench.programs.load_manifest import SCHEMA
from penstock.bench.programs.load_redshift import RedshiftPlace
from penstock.bench.warehouse.manifest import write_files
from penstock.core.errors import PenstockError
from penstock.core.file_formats import FileFormat
from penstock.dev.redshift.cluster import ROLE
from penstock.embedded.processes import start_child

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from penstock.bench.lab import Lab

_TIMES: Final = 10
"""How many times the rows of the settings."""
_FILE_ROWS: Final = 10_000
_INSERTED: Final = {
    "rows": (500, "a DELETE and an INSERT per row"),
    "many": (50, "a DELETE and an INSERT per 500 rows"),
}
"""The part of the settings' rows, and what is done with them: a whole million would take hours."""
_MEBIBYTE: Final = 1 << 20
_MEMORY_MEBIBYTES: Final = 300
_SHARE_MAX: Final = 0.1
_WAIT_SECONDS: Final = 7200.0
_CSV: Final = FileFormat("csv", "gzip")


@dataclass(frozen=True, slots=True)
class _Loaded:
    """What a load took: seconds, those of them in which statements ran, CPU seconds, bytes at its peak."""

    seconds: float
    waited: float
    cpu: float
    peak_bytes: int


def measure_copy(lab: Lab) -> Sequence[Figure]:
    """Speed, memory, and how much of the time is ours, of one transaction."""
    rows = lab.settings.rows * _TIMES
    return _load(lab, "copy", rows, _figures_of_copy)


def measure_inserts(lab: Lab) -> Sequence[Figure]:
    """COPY beside INSERTs: rows per second, and CPU of the loading process, of equally many rows."""
    figures: list[Figure] = []
    for way, (part, what) in _INSERTED.items():
        rows = max(lab.settings.rows // part, 1000)
        ours, theirs = (_load(lab, each, rows, _figures_of_all) for each in ("copy", way))
        for our, their in zip(ours, theirs, strict=True):
            figures.append(Figure(f"{rows:,} rows, {our.name}", our.unit, our.better, our.value, what, their.value))
    return figures


def _figures_of_copy(rows: int, load: _Loaded) -> list[Figure]:
    note = f"{-(-rows // _FILE_ROWS):,} files of {_FILE_ROWS:,} rows in one COPY; half of the rows are updates"
    name = f"{rows:,} changes in one transaction"
    return [
        Figure(
            f"{name}, memory of the loading process",
            "MiB",
            "less",
            load.peak_bytes / _MEBIBYTE,
            target=_MEMORY_MEBIBYTES,
            target_of="value",
            note=f"peak resident size; {note}",
        ),
        Figure(
            f"{name}, our share of the time",
            "of 1",
            "less",
            1 - load.waited / load.seconds,
            target=_SHARE_MAX,
            target_of="value",
            note="what is not spent waiting for the database's answers",
        ),
        Figure(f"{name}, speed", "rows per second", "more", rows / load.seconds, note=note),
        *(replace(figure, name=f"{name}, {figure.name}") for figure in _figures_of_all(rows, load)[1:]),
    ]


def _figures_of_all(rows: int, load: _Loaded) -> list[Figure]:
    return [
        Figure("speed", "rows per second", "more", rows / load.seconds),
        Figure("CPU of the loading process", "CPU seconds per million rows", "less", load.cpu * 1_000_000 / rows),
    ]


def _load(lab: Lab, way: str, rows: int, figures: Callable[[int, _Loaded], list[Figure]]) -> list[Figure]:
    folder = lab.folder(f"redshift-{way}-{rows}-{len(list(lab.home.iterdir()))}")
    place = make_place(lab, folder)
    lab.say(f"redshift: writing {rows:,} rows into files")
    batches = write_files(place.objects(), rows, _FILE_ROWS, _CSV)
    (folder / "messages").write_bytes(b"".join(batch.to_json() + b"\n" for batch in batches))
    (folder / "settings").write_text(json.dumps(asdict(place)))
    lab.say(f"redshift: loading them by {way}")
    program = [sys.executable, "-m", "penstock.bench.programs.load_redshift"]
    command = [*program, str(folder / "settings"), str(folder / "messages"), way]
    child = start_child("the load", command, folder / "load.log")
    try:
        with Meter(child.pid) as meter:
            waited = await_mark(child, "waited", _WAIT_SECONDS)
            begin, end, loaded = (await_mark(child, mark, _WAIT_SECONDS) for mark in ("begin", "end", "rows"))
            meter.sample()
    finally:
        child.kill()
    _require_rows(place, int(loaded), rows)
    cpu, peak = meter.cpu_between(begin, end), meter.peaks()[0].peak_bytes
    return figures(rows, _Loaded(end - begin, waited, cpu, peak))


def make_place(lab: Lab, folder: Path) -> RedshiftPlace:
    """Make a database of the lab's Redshift, and say where its files are: a folder of the lab's bucket."""
    s3, server = lab.s3(), lab.redshift()
    database = folder.name.replace("-", "_")
    first = RedshiftCluster(server.host, server.port, server.database, server.user, server.password, "disable")
    with closing(connect(first)) as connection:
        execute(connection, f"CREATE DATABASE {database}")
    return RedshiftPlace(
        url=f"s3://{s3.bucket}/{folder.name}",
        endpoint=s3.endpoint,
        access_key_id=s3.access_key_id,
        secret_access_key=s3.secret_access_key,
        host=server.host,
        port=server.port,
        database=database,
        user=server.user,
        password=server.password,
        iam_role=ROLE,
    )


def _require_rows(place: RedshiftPlace, loaded: int, rows: int) -> None:
    """See that all is there: half of the rows are new keys, and each key has the newest change."""
    with closing(connect(place.cluster())) as connection:
        query = f"SELECT COUNT(*), COUNT(DISTINCT id) FROM {SCHEMA.table}"  # noqa: S608 - a name of ours
        found = [int(number) for number in execute(connection, query).fetchall()[0]]
    keys = -(-rows // 2)
    if (loaded, *found) != (rows, keys, keys):
        message = f"{loaded:,} of {rows:,} rows were loaded, and {found} of {keys:,} keys are there"
        raise PenstockError(message, "this is a mistake in Penstock: report it")
