"""The demo's pipeline: its file, its login to the source, and its process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.adapters.duckdb.query import query
from penstock.adapters.duckdb.query_wire import read_run_file, run_file
from penstock.config.load import load
from penstock.core.commands import shell_word
from penstock.core.errors import SinkError, UnavailableError
from penstock.demo.schema import SCHEMA
from penstock.demo.sources.pick import kind_of
from penstock.embedded.processes import Child, start_child
from penstock.wiring.open import open_pipeline_state

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from penstock.demo.sources.database import SourceKind, SourceServer
    from penstock.ports.state import State

SOURCE: Final = "shopdb"
SINK: Final = "warehouse"
LINK: Final = f"{SOURCE}-to-{SINK}"
USER: Final = "cdc"
PASSWORD: Final = "demo"  # noqa: S105 - a server on loopback with made-up data, whose password the demo prints
_AUDIT_SECONDS: Final = 300
PASSWORD_ENV: Final = "DEMO_PASSWORD"  # noqa: S105 - the variable's name

_FILE: Final = """\
# Written by `penstock demo`, which also started the source. Paths are relative to this file.
pipeline: {schema}
home: ./home                       # Kafka, state, schemas, files and logs of this pipeline
sources:
  - name: {source}
{lines}
    user: {user}
    password_env: {env}      # the variable that holds the password
    tables: ["{schema}.*"]
sinks:
  - {{name: {sink}, kind: duckdb, path: ./warehouse.duckdb}}
links:
  - {{from: {source}, to: {sink}}}
"""


@dataclass(frozen=True, slots=True)
class Audited:
    """What an audit said: whether all that was compared is equal, the score, of how many tables, in how long."""

    is_equal: bool
    score: float | None
    tables: int
    seconds: float


@dataclass(frozen=True, slots=True)
class DemoPipeline:
    """Where the demo keeps what; everything is below `directory`. `source` is the source's kind."""

    directory: Path
    source: str = "mysql"

    @property
    def source_kind(self) -> SourceKind:
        """What starts the source."""
        return kind_of(self.source)

    @property
    def file(self) -> Path:
        """The pipeline's YAML file."""
        return self.directory / "pipeline.yaml"

    @property
    def home(self) -> Path:
        """The home of the pipeline's embedded parts."""
        return self.directory / "home"

    @property
    def warehouse(self) -> Path:
        """The DuckDB file."""
        return self.directory / "warehouse.duckdb"

    @property
    def source_home(self) -> Path:
        """The source server's data, settings and log, where `penstock dev up NAME --home` finds them too."""
        return self.source_parent / self.source_kind.name

    @property
    def source_parent(self) -> Path:
        """The home to give to `penstock dev`."""
        return self.directory / "source"

    @property
    def log(self) -> Path:
        """What `penstock run` prints."""
        return self.directory / "run.log"

    @property
    def password_assignment(self) -> str:
        """What a shell needs in front of a command that connects to the source."""
        return f"{PASSWORD_ENV}={PASSWORD}"

    def write_file(self, server: SourceServer) -> None:
        """Write the YAML for a source at `server`."""
        lines = "\n".join(f"    {line}" for line in self.source_kind.lines(server))
        text = _FILE.format(schema=SCHEMA, source=SOURCE, lines=lines, user=USER, env=PASSWORD_ENV, sink=SINK)
        self.file.write_text(text, encoding="utf-8")

    def start(self) -> Child:
        """Run the pipeline as a child process that ends with us."""
        command = [sys.executable, "-m", "penstock.cli.main", "run", str(self.file)]
        return start_child("penstock run", command, self.log, {PASSWORD_ENV: PASSWORD})

    def audit(self) -> Audited:
        """Have `penstock audit` compare source and warehouse while the pipeline runs. Raises SinkError if it cannot."""
        command = [sys.executable, "-m", "penstock.cli.main", "audit", str(self.file), "--json"]
        environment = {**os.environ, PASSWORD_ENV: PASSWORD}
        began = time.monotonic()
        done = subprocess.run(  # noqa: S603 - ourselves
            command, env=environment, capture_output=True, text=True, timeout=_AUDIT_SECONDS, check=False
        )
        try:
            report = json.loads(done.stdout)
        except ValueError as error:
            message = f"the audit ended with status {done.returncode}: {done.stderr.strip()[-500:]}"
            raise SinkError(
                message, f"type: {self.password_assignment} penstock audit {shell_word(self.file)}"
            ) from error
        return Audited(bool(report["passed"]), report["score"], len(report["tables"]), time.monotonic() - began)

    def open_state(self) -> State:
        """Open the pipeline's state database; UnavailableError before the pipeline has got so far as to need it."""
        self._check_started()
        return open_pipeline_state(load(self.file))

    def query(self, sql: str) -> pa.Table:
        """Return the whole result of `sql`, whether the pipeline runs or not; raises PenstockError."""
        result = query(self.warehouse, self._run_file, sql)
        if result.truncated:
            message = f"the warehouse cut the answer after {result.rows.num_rows} rows: {sql}"
            raise SinkError(message, "ask for fewer rows at once")
        return result.rows

    def query_running(self, sql: str) -> pa.Table:
        """As `query`, but never opens the file itself, which would keep a starting pipeline waiting."""
        self._check_started()
        return self.query(sql)

    @property
    def _run_file(self) -> Path:
        return run_file(self.home, SINK)

    def _check_started(self) -> None:
        if read_run_file(self._run_file) is None:
            message = "the pipeline does not run, or has not opened the warehouse yet"
            raise UnavailableError(message, f"wait, or read {self.log}")
