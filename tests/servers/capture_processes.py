"""A capture's work in a process of its own, which may be killed in it, and what came of it as others see it."""

from __future__ import annotations

from collections import defaultdict
from contextlib import closing
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple, cast

import pyarrow as pa
from tests.servers.capture_case import CaptureCase
from tests.servers.chain import Chain
from tests.servers.forked import run_forked

from penstock.adapters.registry.client import HttpRegistry
from penstock.core.avro.envelope_decode import decode_changes
from penstock.core.avro.schemas import table_schema
from penstock.core.avro.wire import schema_ids
from penstock.embedded.mariadb import MariadbServer

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.embedded.processes import Child


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
    place = (case.file, case.database, case.server.port, case.bootstrap_servers)
    return run_forked(_work, place, work, epoch, crash_at=crash_at)


def spawn_capture(chain: Chain, epoch: int, crash_at: str) -> int:
    """Capture what is committed in the source of a chain, and return the exit code."""
    return run_forked(_capture, chain.file, chain.name, epoch, crash_at=crash_at)


def _work(place: tuple[Path, str, int, str], work: str, epoch: int) -> None:
    file, database, port, servers = place
    # A server's process stays where it was started.
    server = MariadbServer(port, file.parent, cast("Child", None))
    getattr(CaptureCase(file, database, server, servers), work)(epoch)


def _capture(file: Path, name: str, epoch: int) -> None:
    Chain(file, name, cast("MariadbServer", None)).capture(epoch)


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
