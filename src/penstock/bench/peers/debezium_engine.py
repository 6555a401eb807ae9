"""Debezium's embedded engine with a consumer that throws everything away.

It needs a Java runtime only: Janino, which PySpark brings along, compiles the
few lines of `NoOpEngine.java` when it runs them.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.bench.marks import await_mark, read_marks, tail
from penstock.bench.peers.debezium import JVM_OPTIONS, class_path, topic_of
from penstock.bench.programs.measured import Work, measure_command
from penstock.core.errors import PenstockError, UnavailableError
from penstock.core.tables import TableId
from penstock.embedded.jars import spark_home
from penstock.embedded.java import java
from penstock.embedded.processes import start_child

if TYPE_CHECKING:
    from penstock.bench.peers.debezium import CapturedServer
    from penstock.embedded.processes import Child

_PROGRAM = Path(__file__).with_name("NoOpEngine.java")
_START_SECONDS = 120.0
_PROBE_SECONDS = 0.5
_STOP_SECONDS = 60.0


class DebeziumEngine:
    """An engine for one schema of one source, which remembers in `folder` where it stopped."""

    def __init__(self, server: CapturedServer, schema: str, folder: Path) -> None:
        """Prepare its settings; nothing runs yet."""
        self._server = server
        self._probe = TableId(schema, "probe")
        self._folder = folder
        self._settings = folder / "engine.properties"
        settings = {
            "name": "engine",
            **server.settings(schema, folder),
            "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
            "offset.storage.file.filename": str(folder / "offsets.dat"),
            "converter.schemas.enable": "false",
            # Kafka Connect's classes, which the engine uses, ask for it; nobody connects to it.
            "bootstrap.servers": "127.0.0.1:9",
        }
        self._settings.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

    def remember_the_end(self) -> None:
        """Run it until it follows the log, and stop it: the next run begins where the log ended now.

        Raises PenstockError when the engine fails.
        """
        child = start_child("Debezium engine", self._command(self._probe, 1), self._folder / "probe.log")
        try:
            self._probe_until_seen(child)
            self._await_end(child)
        finally:
            child.kill()

    def measure(self, table: TableId, rows: int, wait_seconds: float) -> Work:
        """Deliver the next `rows` changes of `table`; from the first one delivered to the last."""
        return measure_command("Debezium engine", self._command(table, rows), self._folder / "engine.log", wait_seconds)

    def _probe_until_seen(self, child: Child) -> None:
        await_mark(child, "running", _START_SECONDS)
        deadline = time.monotonic() + _START_SECONDS
        self._server.make_probe(self._probe)
        while "rows" not in read_marks(child.log):
            if not child.alive() or time.monotonic() > deadline:
                message = f"Debezium's engine delivers nothing: {tail(child.log)}"
                error = UnavailableError if child.alive() else PenstockError
                raise error(message, f"read {child.log}")
            self._server.write_probe(self._probe)
            time.sleep(_PROBE_SECONDS)

    def _await_end(self, child: Child) -> None:
        """Let the engine write down where it is."""
        try:
            child.popen.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired as error:
            message = f"Debezium's engine did not stop within {_STOP_SECONDS:.0f} s"
            raise UnavailableError(message, f"read {child.log}") from error

    def _command(self, table: TableId, rows: int) -> list[str]:
        compiler = [str(jar) for name in ("janino", "commons-compiler") for jar in _spark_jars(name)]
        path = ":".join([class_path(), *compiler])
        run = ["org.codehaus.janino.SimpleCompiler", str(_PROGRAM), _PROGRAM.stem]
        return [java(), *JVM_OPTIONS, "-cp", path, *run, str(self._settings), topic_of(table), str(rows)]


def _spark_jars(name: str) -> list[Path]:
    return sorted(spark_home().glob(f"jars/{name}-[0-9]*.jar"))
