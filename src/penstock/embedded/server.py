"""What every local server has in common."""

from __future__ import annotations

import abc
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Self

from penstock.embedded.ports import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

    from penstock.embedded.processes import Child


class Server(abc.ABC):
    """A running server on loopback that ends with the `with` block that holds it, and never after its parent.

    Its data stays in its home directory; the next start there finds data and ports again.
    """

    __slots__ = ()

    @property
    @abc.abstractmethod
    def pid(self) -> int:
        """The server's process id."""

    @abc.abstractmethod
    def alive(self) -> bool:
        """Whether all of its processes still run."""

    @abc.abstractmethod
    def stop(self) -> None:
        """Shut it down in order; kill it if that takes too long. Safe to call twice."""

    @abc.abstractmethod
    def kill(self) -> None:
        """End it as kill -9 would. Safe to call twice."""

    @abc.abstractmethod
    def facts(self) -> Mapping[str, str | int]:
        """What a client needs to know to connect."""

    def __enter__(self) -> Self:
        """Hold the server for a `with` block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Shut it down."""
        self.stop()


@dataclass(frozen=True, slots=True)
class OneProcessServer(Server):
    """A server that is one child process and listens on one port. `STOP_SECONDS` is what an orderly end may take."""

    STOP_SECONDS: ClassVar[float] = 30.0

    port: int
    home: Path
    child: Child = field(repr=False)
    host: str = LOOPBACK

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.child.pid

    def alive(self) -> bool:
        """Whether it runs."""
        return self.child.alive()

    def stop(self) -> None:
        """Shut it down in order."""
        self.child.stop(self.STOP_SECONDS)

    def kill(self) -> None:
        """End it as kill -9 would."""
        self.child.kill()

    def facts(self) -> Mapping[str, str | int]:
        """Its address."""
        return {"host": self.host, "port": self.port}
