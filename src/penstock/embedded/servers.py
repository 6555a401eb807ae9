"""The servers that a pipeline keeps for itself, where its file names none."""

from __future__ import annotations

import os
import time
from functools import partial
from typing import TYPE_CHECKING, Self

from penstock.config.mysql_source import TrackerSpec
from penstock.config.specs import SchematizerSpec
from penstock.core.errors import UnavailableError
from penstock.embedded.beside import Beside
from penstock.embedded.kafka import start_kafka
from penstock.embedded.kept_server import KeptServer
from penstock.embedded.ports import LOOPBACK
from penstock.embedded.processes import KilledAtStartError
from penstock.embedded.schematizer import start_schematizer
from penstock.embedded.tracker import start_tracker

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from types import TracebackType

    from penstock.config.specs import EmbeddedPart, PipelineSpec
    from penstock.embedded.server import Server
    from penstock.ports.history import ServerState

_TRACKER = "schema tracker of "
_KILLED_PAUSES_SECONDS = (0.5, 2.0, 5.0)
_TRACKER_PASSWORD_ENV = "PENSTOCK_TRACKER_PASSWORD"  # noqa: S105 - the variable's name


class EmbeddedServers:
    """Private servers under the pipeline's home, on loopback; they end with the `with` block and with this process.

    `spec` is the pipeline with their addresses filled in.
    """

    def __init__(
        self,
        spec: PipelineSpec,
        say: Callable[[str], None],
        parts: Collection[EmbeddedPart] = ("kafka", "schematizer", "tracker"),
        tell: Callable[[str, ServerState], None] = lambda _server, _state: None,
    ) -> None:
        """Find out which of `parts` are to be started for `spec`; nothing runs yet.

        `say` tells what takes long; `tell` is called with a server's name whenever its state changes.
        """
        self.spec = spec
        self._tell = tell
        # With a port, a server is started again where others look for it; without, it may take another one.
        self._starters: dict[str, Callable[[int | None], Server]] = {}
        home = spec.home
        if "kafka" in parts and spec.is_embedded("kafka"):
            self._starters["Kafka"] = lambda port: start_kafka(home / "kafka", port=port, flushes=True)
        if "schematizer" in parts and spec.is_embedded("schematizer"):
            self._starters["Schematizer"] = lambda port: start_schematizer(home / "schematizer", port=port)
        if "tracker" in parts and spec.is_embedded("tracker"):
            for source in spec.mysql_sources:
                if spec.tracker_of(source) is None:
                    self._starters[f"{_TRACKER}{source.name}"] = partial(start_tracker, spec, source, say)
        self._servers: dict[str, KeptServer] = {}
        self._away: dict[str, UnavailableError] = {}
        self._say = say

    @property
    def names(self) -> Collection[str]:
        """What there is to start."""
        return self._starters.keys()

    def __enter__(self) -> Self:
        """Start them, side by side. Raises UsageError and UnavailableError as each server's start does.

        One of several sources may be away when it is first asked what tracker it needs: then it gets none in
        this run, whose other sources go ahead.
        """
        starting = {
            name: Beside(partial(self._start, name, start, None), _kill) for name, start in self._starters.items()
        }
        try:
            for name, server in starting.items():
                self._take_if_there(name, server)
            self._require_one_source()
        except BaseException:
            for server in starting.values():
                server.give_up()
            self.stop()
            raise
        self.spec = self.spec.model_copy(update=self._addresses())
        return self

    def _take_if_there(self, name: str, starting: Beside[Server]) -> None:
        try:
            server = starting.take()
            again = partial(self._start, name, self._starters[name], int(server.facts()["port"]))
            self._servers[name] = KeptServer(name, server, again, partial(self._tell, name, "down"))
        except UnavailableError as error:
            if not name.startswith(_TRACKER) or len(self.spec.sources) == 1:
                raise
            self._away[name] = error
            self._say(f"{error.message}; the others go ahead: run the pipeline again when it answers")

    def _require_one_source(self) -> None:
        """Raise UnavailableError where all sources are away: there is nothing to be done without any."""
        if len(self._away) == len(self.spec.sources):
            raise next(iter(self._away.values()))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End them."""
        self.stop()

    def ensure(self) -> None:
        """Start again those that have died, with the data and the port they had, without waiting for them.

        Raises UnavailableError where one does not stay that all links need. The tracker of one of
        several sources is tried for as long as the others go on.
        """
        for name, server in self._servers.items():
            server.ensure(tries_without_end=name.startswith(_TRACKER) and len(self.spec.sources) > 1)

    def _start(self, name: str, start: Callable[[int | None], Server], port: int | None) -> Server:
        self._tell(name, "starting")
        server = self._start_though_killed(partial(start, port))
        self._tell(name, "running")
        return server

    def _start_though_killed(self, start: Callable[[], Server]) -> Server:
        """Start it, again where somebody kills it meanwhile."""
        for pause in _KILLED_PAUSES_SECONDS:
            try:
                return start()
            except KilledAtStartError as error:
                self._say(f"{error.message}; it starts again in {pause:g} s")
                time.sleep(pause)
        return start()

    def stop(self) -> None:
        """End them, the last named first."""
        for server in reversed(self._servers.values()):
            server.stop()

    def _addresses(self) -> dict[str, object]:
        """The parts of the spec that say where the servers are."""
        parts: dict[str, object] = {}
        trackers: dict[str, TrackerSpec] = {}
        for name, kept in self._servers.items():
            facts = kept.server.facts()
            port = int(facts["port"])
            match name:
                case "Kafka":
                    parts["kafka"] = self.spec.kafka.model_copy(update={"bootstrap_servers": f"{LOOPBACK}:{port}"})
                case "Schematizer":
                    parts["schematizer"] = SchematizerSpec(url=f"http://{LOOPBACK}:{port}")
                case _:
                    source = name.removeprefix(_TRACKER)
                    trackers[source] = self._tracker(source, port, facts)
        parts["sources"] = tuple(
            source.model_copy(update={"tracker": trackers[source.name]}) if source.name in trackers else source
            for source in self.spec.sources
        )
        return parts

    def _tracker(self, source: str, port: int, facts: Mapping[str, object]) -> TrackerSpec:
        """Where the tracker of `source` is, and the variable with its password."""
        variable = _TRACKER_PASSWORD_ENV
        if len(self.spec.sources) > 1:
            variable = f"{variable}_{source.upper()}"
        # Executors are children of this process, so they find the password where we do.
        os.environ[variable] = str(facts["password"])
        return TrackerSpec(host=LOOPBACK, port=port, user=str(facts["user"]), password_env=variable)


def _kill(server: Server) -> None:
    """End one that nobody waited for."""
    server.kill()
