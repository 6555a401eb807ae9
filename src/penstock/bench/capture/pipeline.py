"""Our side of a figure that goes all the way into Kafka: a pipeline of one source and no sink."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from penstock.bench.marks import tail
from penstock.core.errors import PenstockError, UnavailableError
from penstock.embedded.processes import start_child

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from penstock.bench.lab import Lab
    from penstock.core.tables import TableId
    from penstock.embedded.processes import Child

_PASSWORD_ENV: Final = "BENCH_PASSWORD"  # noqa: S105 - the variable's name
_POLL_SECONDS: Final = 0.02
_READY_NOTES: Final = ("running; Ctrl-C ends it", "carrying everything committed up to now")
_START_SECONDS: Final = 120.0

_FILE: Final = """\
pipeline: {name}
home: ./home
kafka: {{bootstrap_servers: "{bootstrap_servers}", transactions: {transactions}}}
spark: {{master: "{master}"}}
sources:
  - name: {name}
    kind: {kind}
    host: {host}
    port: {port}
    user: {user}
    password_env: {env}
    tables: ["{table}"]
"""
_LOW_LATENCY_INTERVAL: Final = "publish_interval_ms: 3"
LOW_LATENCY: Final = f"kafka.transactions: false, {_LOW_LATENCY_INTERVAL}"
_LOW_LATENCY_LINE: Final = f"    {_LOW_LATENCY_INTERVAL}\n"


@dataclass(frozen=True, slots=True)
class Origin:
    """The server whose log is captured, as a source's settings name it; `more` are those that its kind alone has."""

    kind: Literal["mysql", "postgres"]
    host: str
    port: int
    user: str
    password: str = field(repr=False)
    more: Mapping[str, object] = field(default_factory=dict)

    @property
    def login(self) -> tuple[object, ...]:
        """What programs that write to it are told first."""
        return self.kind, self.host, self.port, self.user, self.password


def mariadb_origin(lab: Lab) -> Origin:
    """The lab's MariaDB, which is copied first."""
    server = lab.source()
    return Origin("mysql", server.host, server.port, server.user, server.password, {"start": "snapshot"})


@dataclass(frozen=True, slots=True)
class BenchPipeline:
    """A pipeline called `name` that carries `table`, with everything but source and broker embedded in `folder`.

    It is as it comes, or with `is_low_latency` has the settings LOW_LATENCY; `backlog_tasks` is the source's setting.
    Its source is the lab's MariaDB, unless there is another `origin`.
    """

    lab: Lab
    name: str
    table: TableId
    folder: Path
    master: str = "local[*]"
    is_low_latency: bool = False
    backlog_tasks: int = 1
    origin: Origin | None = None

    @property
    def source(self) -> Origin:
        """Whose log it captures."""
        return self.origin or mariadb_origin(self.lab)

    @property
    def topic(self) -> str:
        """Where its messages go."""
        return f"{self.name}.{self.table}"

    def write_file(self) -> None:
        """Write its YAML."""
        source = self.source
        more = dict(source.more)
        if source.kind == "mysql":
            more["backlog_tasks"] = self.backlog_tasks
        text = _FILE.format(
            name=self.name,
            bootstrap_servers=self.lab.kafka().bootstrap_servers,
            transactions=str(not self.is_low_latency).lower(),
            master=self.master,
            kind=source.kind,
            host=source.host,
            port=source.port,
            user=source.user,
            env=_PASSWORD_ENV,
            table=self.table,
        )
        lines = "".join(f"    {name}: {value}\n" for name, value in more.items())
        self._file.write_text(text + lines + _LOW_LATENCY_LINE * self.is_low_latency)

    def start(self, log: str, *, once: bool) -> Child:
        """Run its capture, for ever or `once`, as a child process that writes to `log` in the folder."""
        command = [sys.executable, "-m", "penstock.cli.main", "run", str(self._file), "--only", self.name]
        environment = {_PASSWORD_ENV: self.source.password}
        return start_child("penstock run", command + ["--once"] * once, self.folder / log, environment)

    def run_once(self, log: str, wait_seconds: float) -> None:
        """Carry what there is and end; raises PenstockError when it fails."""
        child = self.start(log, once=True)
        try:
            await_end(child, wait_seconds)
        finally:
            child.kill()

    def snapshot(self) -> None:
        """Ask for a snapshot of the table; raises PenstockError when it is refused."""
        command = [sys.executable, "-m", "penstock.cli.main", "snapshot", str(self._file), str(self.table)]
        environment = {_PASSWORD_ENV: self.source.password}
        child = start_child("penstock snapshot", command, self.folder / "snapshot.log", environment)
        try:
            await_end(child, _START_SECONDS)
        finally:
            child.kill()

    @property
    def _file(self) -> Path:
        return self.folder / "pipeline.yaml"


def await_end(child: Child, wait_seconds: float) -> None:
    """Wait until a run with `once` has ended; PenstockError if it does not, or not well."""
    try:
        code = child.popen.wait(wait_seconds)
    except subprocess.TimeoutExpired as error:
        message = f"penstock run did not end within {wait_seconds:.0f} s: {tail(child.log)}"
        raise UnavailableError(message, f"read {child.log}") from error
    if code != 0:
        message = f"penstock run failed with exit code {code}: {tail(child.log)}"
        raise PenstockError(message, f"read {child.log}")


def await_session(child: Child) -> float:
    """Wait until a run says that its Spark session is open and its work begins; that moment, some 20 ms late at most.

    Raises PenstockError when the run ends before.
    """
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        alive, log = child.alive(), child.log.read_text(errors="replace")
        if any(note in log for note in _READY_NOTES):
            return time.monotonic()
        if not alive:
            message = f"penstock run ended: {tail(child.log)}"
            raise PenstockError(message, f"read {child.log}")
        time.sleep(_POLL_SECONDS)
    message = f"penstock run did not begin within {_START_SECONDS:.0f} s"
    raise UnavailableError(message, f"read {child.log}")
