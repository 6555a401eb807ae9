"""Our side: a pipeline whose capture runs before, and whose other links are measured."""

from __future__ import annotations

import sys
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from penstock.adapters.state.store import open_state
from penstock.bench.capture.pipeline import await_end
from penstock.bench.marks import tail
from penstock.bench.meter import Meter
from penstock.bench.programs.measured import Work
from penstock.core.errors import PenstockError, UnavailableError
from penstock.dev.postgres import PASSWORD
from penstock.embedded.processes import start_child

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from penstock.bench.lab import Lab
    from penstock.core.tables import TableId
    from penstock.dev.postgres import PostgresServer
    from penstock.embedded.processes import Child
    from penstock.ports.state import State

OBJECTS: Final = "objects"
_PASSWORD_ENV: Final = "BENCH_PASSWORD"  # noqa: S105 - the variable's name
TARGET_PASSWORD_ENV: Final = "BENCH_TARGET_PASSWORD"  # noqa: S105 - as above
_POLL_SECONDS: Final = 0.05
_START_SECONDS: Final = 600.0
_WAIT_SECONDS: Final = 1800.0

_FILE: Final = """\
pipeline: {name}
home: ./home
kafka: {{bootstrap_servers: "{bootstrap_servers}"}}
schematizer: {{url: "{schematizer}"}}
{objects}
sources:
  - {{name: {name}, kind: mysql, host: {source.host}, port: {source.port}, user: {source.user},
      password_env: {env}, tables: ["{tables}"], start: snapshot}}
sinks:
{sinks}
links:
{links}
"""


@dataclass(frozen=True, slots=True)
class TargetPipeline:
    """A pipeline called `name` from the tables `tables` of the lab's source into `sinks`, name to YAML.

    `objects` is the YAML of where the files are, "" for a folder; `keys` are the
    environment's variables that it needs; `link_keys` is what each link says, from its comma on.
    """

    lab: Lab
    name: str
    tables: str
    folder: Path
    sinks: dict[str, str]
    objects: str = ""
    keys: Mapping[str, str] = field(default_factory=dict)
    link_keys: str = ""

    @property
    def link(self) -> str:
        """The name of the link to its first sink."""
        return self.link_to(next(iter(self.sinks)))

    @property
    def file(self) -> Path:
        """Its YAML."""
        return self.folder / "pipeline.yaml"

    @property
    def environment(self) -> dict[str, str]:
        """The secrets that it names."""
        return {_PASSWORD_ENV: self.lab.source().password, TARGET_PASSWORD_ENV: PASSWORD, **self.keys}

    def link_to(self, sink: str) -> str:
        """The name of the link to a sink."""
        return f"{self.name}-to-{sink}"

    def write_file(self) -> None:
        """Write its YAML."""
        text = _FILE.format(
            name=self.name,
            bootstrap_servers=self.lab.kafka().bootstrap_servers,
            schematizer=self.lab.schematizer().url,
            source=self.lab.source(),
            env=_PASSWORD_ENV,
            tables=self.tables,
            objects=f"objects: {{{self.objects}}}" if self.objects else "",
            sinks="\n".join(f"  - {{name: {name}, {rest}}}" for name, rest in self.sinks.items()),
            links="\n".join(f"  - {{from: {self.name}, to: {name}{self.link_keys}}}" for name in self.sinks),
        )
        self.file.write_text(text)

    def capture(self, log: str) -> None:
        """Carry what is in the source into topics. Raises PenstockError when that fails."""
        child = self.start("run", str(self.file), "--once", "--only", self.name, log=log)
        try:
            await_end(child, _WAIT_SECONDS)
        finally:
            child.kill()

    def start(self, *command: str, log: str) -> Child:
        """Run a command of Penstock's, with the pipeline's secrets."""
        whole = [sys.executable, "-m", "penstock.cli.main", *command]
        return start_child(f"penstock {command[0]}", whole, self.folder / log, self.environment)

    @contextmanager
    def warm(self, table: TableId, rows: int, *links: str) -> Iterator[WarmLinks]:
        """Let these links carry the `rows` of `table` that there are, and rest then, until they are told to go on."""
        hold = self.folder / "hold"
        command = [sys.executable, "-m", "penstock.bench.programs.carry_topics", str(self.file), str(hold), *links]
        child = start_child("the links", command, self.folder / "links.log", self.environment)
        try:
            warm = WarmLinks(self, child, hold, links[-1])
            warm.await_rows(table, rows, _START_SECONDS)
            hold.touch()
            yield warm
        finally:
            child.kill()

    def open_state(self) -> State:
        """Its state database, which its first run made."""
        return open_state(f"sqlite:///{self.folder / 'home' / 'state.db'}", self.name)


@dataclass(frozen=True, slots=True)
class WarmLinks:
    """Links in one process that rest while a file is there; the last of them says when all is done."""

    pipeline: TargetPipeline
    child: Child
    hold: Path
    last: str

    def carry(self, table: TableId, rows: int, target_pid: int | None = None) -> tuple[Work, float]:
        """Carry the next `rows` rows of `table`; our work, and the CPU seconds of the target's own process meanwhile.

        Raises PenstockError when the links end, or when the time is up.
        """
        with closing(self.pipeline.open_state()) as state:
            done = self._rows_done(state, table) + rows
        with Meter(self.child.pid) as meter, Meter(target_pid or self.child.pid) as target:
            begin = time.monotonic()
            self.hold.unlink()
            self.await_rows(table, done, _WAIT_SECONDS)
            end = time.monotonic()
            meter.sample()
            target.sample()
        own = Work(rows, meter.cpu_between(begin, end), end - begin)
        return own, target.cpu_between(begin, end) if target_pid else 0.0

    def await_rows(self, table: TableId, rows: int, wait_seconds: float) -> None:
        """Wait until the last link has carried so many rows of `table` in all; raises as `carry` does."""
        deadline = time.monotonic() + wait_seconds
        with closing(self.pipeline.open_state()) as state:
            while (found := self._rows_done(state, table)) < rows:
                if not self.child.alive():
                    message = f"the links ended: {tail(self.child.log)}"
                    raise PenstockError(message, f"read {self.child.log}")
                if time.monotonic() > deadline:
                    message = f"only {found:,} of {rows:,} rows came to {self.last}"
                    raise UnavailableError(message, f"read {self.child.log}, or measure fewer rows")
                time.sleep(_POLL_SECONDS)

    def _rows_done(self, state: State, table: TableId) -> int:
        return sum(each.rows for each in state.tables() if (each.link, each.table) == (self.last, str(table)))


def duckdb_sink(file: Path) -> str:
    """The YAML of a DuckDB file as a sink."""
    return f'kind: duckdb, path: "{file}"'


def postgres_sink(server: PostgresServer, database: str) -> str:
    """The YAML of a database of a bench's own PostgreSQL as a sink."""
    login = f"user: {server.user}, password_env: {TARGET_PASSWORD_ENV}"
    return f"kind: postgres, host: {server.host}, port: {server.port}, database: {database}, {login}"
