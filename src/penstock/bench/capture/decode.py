"""Figure: decoding bulk rows to Arrow columns, from memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.bench.capture.workload import create_table, login, write_bulk
from penstock.bench.figure import Figure
from penstock.bench.programs.measured import measure_python
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.bench.lab import Lab

_TABLE = TableId("bench_decode", "orders")
_PASSES = 3
_WAIT_SECONDS = 600.0


def measure(lab: Lab) -> Sequence[Figure]:
    """Rows per CPU second, and what a million rows cost."""
    source = lab.source()
    create_table(source, _TABLE)
    lab.say(f"decode: writing {lab.settings.rows:,} rows")
    stretch = write_bulk(source, _TABLE, lab.settings.rows)
    lab.say("decode: decoding them")
    server = login(source)
    file = source.home / "data" / stretch.begin.file
    arguments = (server.host, server.port, server.user, server.password, _TABLE, file, _PASSES)
    work = measure_python("decode_file", arguments, lab.folder("decode") / "decode.log", _WAIT_SECONDS)
    return [
        Figure(
            name="decode to Arrow, bulk, from memory",
            unit="rows per CPU second",
            better="more",
            value=work.rows_per_cpu_second,
            target=600_000,
            target_of="value",
            note="checksums verified; one thread",
        )
    ]
