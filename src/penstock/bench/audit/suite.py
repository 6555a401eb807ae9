"""`penstock bench audit`: the same tables, audited by us and compared by reladiff, in one run."""

from __future__ import annotations

import json
import sys
import time
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.adapters.mysql.catalog import read_tables
from penstock.adapters.mysql.connection import ask, connect
from penstock.bench.audit.tables import COLUMNS, TABLE, change_rows, duckdb_file, make_tables, open_postgres
from penstock.bench.bench import Bench
from penstock.bench.capture.workload import login
from penstock.bench.figure import Figure
from penstock.bench.marks import await_mark
from penstock.bench.meter import Meter
from penstock.bench.peers.reladiff_install import PROGRAM, VERSION, ensure_reladiff
from penstock.bench.versions import python_versions
from penstock.core.audit.dialects import MARIADB
from penstock.core.audit.found_tables import FoundTable, columns_of, plan_found
from penstock.core.audit.queries import extremes_query, number_cuts, signature_query
from penstock.core.errors import PenstockError
from penstock.embedded.processes import start_child

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.bench.lab import Lab

_TARGETS: Final = ("postgres", "duckdb")
_NAMES: Final = {"postgres": "PostgreSQL", "duckdb": "DuckDB"}
_WAIT_SECONDS: Final = 3600.0
_MEBIBYTE: Final = 1 << 20
_MEMORY_MIB: Final = 300.0
_SOURCE_TIMES: Final = 1.3
_FROM_1000_TIMES: Final = 3.0
_MANY: Final = 1_000


@dataclass(frozen=True, slots=True)
class Compared:
    """One comparison: seconds, how many rows were named, CPU of the source's server, and our or the peer's memory."""

    seconds: float
    named: int
    source_cpu_seconds: float
    memory_bytes: int


def _measure_equal(lab: Lab) -> Sequence[Figure]:
    """Compare equal tables with both targets, and what that costs the source with the bare query for signatures."""
    _make_tables_once(lab)
    return [_source_figure(lab), *_beside_both(lab, 0)]


def _measure_differing(lab: Lab, count: int) -> Sequence[Figure]:
    """Compare with both targets where so many rows differ."""
    _make_tables_once(lab)
    change_rows(lab, count, 1)
    try:
        return _beside_both(lab, count)
    finally:
        change_rows(lab, count, -1)


def _make_tables_once(lab: Lab) -> None:
    if not duckdb_file(lab).exists():
        lab.say(f"audit: writing {lab.settings.rows:,} rows three times")
        make_tables(lab)


def _beside_both(lab: Lab, count: int) -> Sequence[Figure]:
    figures: list[Figure] = []
    for target in _TARGETS:
        lab.say(f"audit: MariaDB and {_NAMES[target]}, {count:,} rows differ")
        figures += _beside(lab, target, count)
    return figures


def _beside(lab: Lab, target: str, count: int) -> Sequence[Figure]:
    name = f"MariaDB and {_NAMES[target]}, {count:,} of {lab.settings.rows:,} rows differ"
    peer, note = f"reladiff {VERSION}", ""
    theirs: Compared | None = None
    mine = _compare(lab, f"ours-{target}-{count}", _our_command(lab, target))
    if mine.named != count:
        message = f"{mine.named} rows were named, and {count} differ"
        raise PenstockError(message, "this is a mistake in audits, or in the bench: report it")
    try:
        theirs = _compare(lab, f"reladiff-{target}-{count}", _peer_command(lab, target))
        note = "" if theirs.named == count else f"the peer named {theirs.named:,} rows"
    except PenstockError as error:
        note = f"the peer could not be measured: {error.message}"
    seconds = None if theirs is None else theirs.seconds
    cpu = None if theirs is None else theirs.source_cpu_seconds
    times = _FROM_1000_TIMES if count >= _MANY else 1.0 if not count else None
    memory = mine.memory_bytes / _MEBIBYTE
    return [
        Figure(f"{name}: time", "s", "less", mine.seconds, peer, seconds, times, note=note),
        Figure(f"{name}: CPU of the source", "s", "less", mine.source_cpu_seconds, peer, cpu),
        Figure(f"{name}: our memory", "MiB", "less", memory, target=_MEMORY_MIB, target_of="value"),
    ]


def _compare(lab: Lab, name: str, command: Sequence[str]) -> Compared:
    """Run a command with marks; what the source's server did meanwhile is counted."""
    child = start_child(name, command, lab.home / f"{name}.log")
    try:
        with Meter(child.pid) as meter, Meter(lab.source().pid) as source:
            await_mark(child, "rows", _WAIT_SECONDS)
            begin, end, named = (await_mark(child, mark, _WAIT_SECONDS) for mark in ("begin", "end", "differing"))
            source.sample()
    finally:
        child.kill()
    memory = max(peak.peak_bytes for peak in meter.peaks())
    return Compared(end - begin, int(named), source.cpu_between(begin, end), memory)


def _our_command(lab: Lab, target: str) -> Sequence[str]:
    source, server = lab.source(), lab.postgres()
    urls = {
        "postgres": f"postgresql://{server.user}:{server.password}@{server.host}:{server.port}/{server.database}",
        "duckdb": f"duckdb:///{duckdb_file(lab)}",
    }
    mysql = f"mysql://{source.user}:{source.password}@{source.host}:{source.port}/"
    module = "penstock.bench.programs.audit_tables"
    return [sys.executable, "-m", module, mysql, urls[target], str(TABLE), str(lab.settings.rows)]


def _peer_command(lab: Lab, target: str) -> Sequence[str]:
    source, server = lab.source(), lab.postgres()
    mysql = {"driver": "mysql", "host": source.host, "port": source.port, "user": source.user}
    mysql |= {"password": source.password, "database": TABLE.schema}
    targets: Mapping[str, Mapping[str, object]] = {
        "postgres": {
            "driver": "postgresql",
            "host": server.host,
            "port": server.port,
            "user": server.user,
            "password": server.password,
            "dbname": server.database,
        },
        "duckdb": {"driver": "duckdb", "filepath": str(duckdb_file(lab))},
    }
    connections = [json.dumps(mysql), json.dumps(targets[target])]
    return [str(ensure_reladiff()), str(PROGRAM), *connections, str(TABLE), ",".join(COLUMNS), str(lab.settings.rows)]


def _source_figure(lab: Lab) -> Figure:
    """What the source's server spends on an audit of equal tables, beside the bare query for their signatures."""
    with closing(connect(login(lab.source()), _WAIT_SECONDS)) as connection, Meter(lab.source().pid) as meter:
        ask(connection, "SET SESSION optimizer_switch = 'derived_merge=off'")
        schema = read_tables(connection, [TABLE])[TABLE]
        found = FoundTable(MARIADB, MARIADB.quoted(TABLE.schema, TABLE.name), columns_of(schema), schema.key)
        side = plan_found(found, found).source
        if side is None:
            message = "the bench's table cannot be audited"
            raise PenstockError(message, "this is a mistake in the bench: report it")
        ((low, high),) = ask(connection, extremes_query(side))
        query = signature_query(side, number_cuts([(low, high)], 10_000, 4096).width, None)
        ask(connection, query)
        begin = time.monotonic()
        ask(connection, query)
        meter.sample()
        bare = meter.cpu_between(begin, time.monotonic())
    audited = _compare(lab, "ours-equal", _our_command(lab, "duckdb"))
    name = "CPU of the source for equal tables, in times of the bare query for signatures"
    note = f"{audited.source_cpu_seconds:.2f} s and {bare:.2f} s"
    times = audited.source_cpu_seconds / max(bare, 0.01)
    return Figure(name, "times", "less", times, target=_SOURCE_TIMES, target_of="value", note=note)


_PACKAGES: Final = ("penstock", "pymysql", "duckdb", "psycopg", "pyarrow")


def _versions(lab: Lab) -> Mapping[str, str]:
    with closing(open_postgres(lab.postgres())) as postgres, closing(connect(login(lab.source()))) as connection:
        (server,) = postgres.execute("SHOW server_version").fetchone() or ("unknown",)
        ((source,),) = ask(connection, "SELECT VERSION()")
    return {**python_versions(_PACKAGES), "mariadb server": source, "postgresql server": server, "reladiff": VERSION}


AUDIT: Final = Bench(
    "audit",
    {
        "equal": _measure_equal,
        "one": lambda lab: _measure_differing(lab, 1),
        "thousand": lambda lab: _measure_differing(lab, _MANY),
        "tenth": lambda lab: _measure_differing(lab, lab.settings.rows // 10),
    },
    _versions,
)
