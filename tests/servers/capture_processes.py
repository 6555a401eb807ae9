"""A capture's work in a process of its own, which may be killed in it, and what came of it as others see it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from contextlib import closing
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from penstock.adapters.registry.client import HttpRegistry
from penstock.config.crash_points import VARIABLE
from penstock.core.avro.envelope_decode import decode_changes
from penstock.core.avro.schemas import table_schema
from penstock.core.avro.wire import schema_ids

if TYPE_CHECKING:
    from tests.servers.capture_case import CaptureCase

_PROGRAM = """
import sys
from pathlib import Path
from tests.servers.capture_case import CaptureCase
from penstock.dev.mariadb import MariadbServer
file, database, port, servers, work, epoch = sys.argv[1:]
server = MariadbServer(int(port), Path(), None)
getattr(CaptureCase(Path(file), database, server, servers), work)(int(epoch))
"""


class Change(NamedTuple):
    """One message."""

    op: str
    place: tuple[str, int, int]
    row: tuple[object, ...]

    def order(self) -> tuple[tuple[str, int, int], bool]:
        """Sorts changes as the log has them: a row whose key changed is deleted, then created."""
        return self.place, self.op == "c"


def spawn(case: CaptureCase, work: str, epoch: int, crash_at: str) -> int:
    """Do it in a process of its own, and return its exit code."""
    arguments = [str(case.file), case.database, str(case.server.port), case.bootstrap_servers, work, str(epoch)]
    paths = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
    environment = {**os.environ, VARIABLE: crash_at, "PYTHONPATH": paths}
    return subprocess.run([sys.executable, "-c", _PROGRAM, *arguments], env=environment, check=False).returncode


def changes(case: CaptureCase, table: str) -> dict[int, list[Change]]:
    """Every change of each partition."""
    found: dict[int, list[Change]] = defaultdict(list)
    messages = case.read(case.topic(table), case.spec.kafka.partitions)
    values = pa.array([value for *_, value in messages], pa.binary())
    with closing(HttpRegistry(case.spec.schematizer.url if case.spec.schematizer else "")) as registry:
        for schema_id, group in groupby(enumerate(schema_ids(values)), key=lambda numbered: int(numbered[1])):
            numbers = [number for number, _ in group]
            text = registry.value_schema(schema_id)
            decoded = decode_changes(table_schema(text), text, values.take(pa.array(numbers)))
            after, before = decoded.after.to_pylist(), decoded.before.to_pylist()
            for at, number in enumerate(numbers):
                row = after[at] if decoded.has_after[at] else before[at]
                place = (str(decoded.file[at]), int(decoded.pos[at]), int(decoded.row[at]))
                found[messages[number][0]].append(Change(str(decoded.op[at]), place, tuple(row.values())))
    return found
