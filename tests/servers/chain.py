"""The links of one pipeline, driven one by one and without Spark, between real servers."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from tests.servers.sessions import log_in

from penstock.config.load import load
from penstock.embedded.mariadb import PASSWORD
from penstock.jobs.in_process import carry_link, follow
from penstock.links.capture.spec import CaptureSpec
from penstock.ports.queries import ReadLimits
from penstock.wiring.capture import start_capture
from penstock.wiring.mirror import LinkCondition, ProgressLog, open_mirrors
from penstock.wiring.open import OBJECTS_LINK, create_ledgers, open_pipeline_state
from penstock.wiring.pipeline_status import PipelineStatus, read_status
from penstock.wiring.sink_kinds.table import sql_kind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pymysql.cursors import Cursor

    from penstock.config.specs import PipelineSpec
    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer
    from penstock.embedded.mysql import OracleMysql

os.environ["CHAIN_PASSWORD"] = PASSWORD

CONFIG = """\
pipeline: {name}
home: {home}
kafka: {{bootstrap_servers: "{kafka}"}}
schematizer: {{url: "{schematizer}"}}
tracker: {{host: 127.0.0.1, port: {tracker_port}, user: penstock, password_env: CHAIN_PASSWORD}}
{more}
sources:
  - name: src_{name}
    kind: mysql
    host: 127.0.0.1
    port: {port}
    user: penstock
    password_env: CHAIN_PASSWORD
    tables: ["{name}.*"]
    start: snapshot
sinks:
  - {{name: wh, kind: duckdb, path: {home}/wh.duckdb}}
links:
  - {{from: src_{name}, to: wh}}
"""


@lru_cache(maxsize=8)
def _loaded(file: Path, _text: str) -> PipelineSpec:
    """What the file says: it is asked for at every step, and reading YAML takes 20 ms of CPU."""
    return load(file)


@dataclass(frozen=True, slots=True)
class Chain:
    """A pipeline whose links run when they are told to. `name` is its own, and its database's."""

    file: Path
    name: str
    server: MariadbServer | OracleMysql

    @property
    def spec(self) -> PipelineSpec:
        return _loaded(self.file, self.file.read_text())

    @property
    def source(self) -> str:
        return self.spec.sources[0].name

    @property
    def sink_link(self) -> str:
        return self.spec.links[0].name

    @contextmanager
    def cursor(self) -> Iterator[Cursor]:
        """Open a connection to the source for a `with` block."""
        server = self.server
        with (
            closing(log_in(server, self.name)) as connection,
            connection.cursor() as cursor,
        ):
            yield cursor

    def use_format(self, name: str) -> None:
        """Have the source's messages in this format."""
        text = self.file.read_text()
        self.file.write_text(text.replace("    kind: mysql\n", f"    kind: mysql\n    format: {name}\n"))
        assert self.spec.sources[0].format == name

    def write(self, *statements: str) -> None:
        """Run statements in the source, on one connection."""
        with self.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def start(self) -> str:
        """Make the first start of the capture."""
        create_ledgers(self.spec)
        return start_capture(CaptureSpec(self.spec, self.source, 1))

    def capture(self, epoch: int = 1) -> None:
        """Bring everything that is committed now into Kafka."""
        follow(self.spec, self.source, epoch)

    def write_objects(self) -> None:
        """Bring everything that is in Kafka into files."""
        carry_link(self.spec, OBJECTS_LINK, 1)

    def load(self) -> None:
        """Bring every file into the warehouse."""
        carry_link(self.spec, self.sink_link, 1)

    def carry(self) -> None:
        """All three."""
        self.capture()
        self.write_objects()
        self.load()

    def mirror(self, state_name: str = "running") -> None:
        """Write down how the links stand, as a run does every second, and then end without a word."""
        spec = self.spec
        with closing(open_pipeline_state(spec)) as state, ExitStack() as stack:
            log = ProgressLog(state, time.time_ns() // 1_000_000)
            for mirror in [stack.enter_context(closing(mirror)) for mirror in open_mirrors(spec, state)]:
                log.save(mirror.name, LinkCondition(state_name), mirror.refresh())

    def query(self, sql: str) -> list[tuple[object, ...]]:
        """Ask the warehouse; {schema} is the pipeline's."""
        spec = self.spec
        rows = sql_kind(spec, spec.sinks[0]).query(sql.format(schema=self.name), ReadLimits()).rows
        return [tuple(row.values()) for row in rows.to_pylist()]

    def status(self) -> PipelineStatus:
        """What `penstock status` finds."""
        return read_status(self.spec, ask_sources=True)


def make_chain(
    home: Path, name: str, server: MariadbServer | OracleMysql, parts: tuple[KafkaBroker, str, int], more: str = ""
) -> Chain:
    """Write the config of a pipeline; `parts` are Kafka, the Schematizer's URL and the tracker's port."""
    kafka, schematizer, tracker_port = parts
    file = home / f"{name}.yaml"
    file.write_text(
        CONFIG.format(
            name=name,
            home=home / name,
            kafka=kafka.bootstrap_servers,
            schematizer=schematizer,
            tracker_port=tracker_port,
            port=server.port,
            more=more,
        )
    )
    return Chain(file, name, server)
